//! Subspaces on the way, kept for measurements after the run.

use dp_personalize::{RoundEnd, Subspace};

use crate::rounds::MeasuredRounds;

/// The start and the subspaces after rounds that will be measured. Released values, or computed from them.
pub(super) struct Rounds {
    /// None where nothing will be measured, or there are no rounds.
    measured: Option<MeasuredRounds>,
    kept: Vec<(usize, Subspace)>,
}

impl Rounds {
    pub(super) fn of(n_rounds: usize, measure: bool) -> Self {
        let is_shown = measure && n_rounds > 0;
        Self {
            measured: is_shown.then(|| MeasuredRounds::of(n_rounds)),
            kept: Vec::new(),
        }
    }

    pub(super) fn keep(&mut self, end: RoundEnd<'_>) {
        if self.measured.is_some_and(|of| of.contain(end.round)) {
            self.kept.push((end.round, end.model.clone()));
        }
    }

    pub(super) fn into_kept(self) -> Vec<(usize, Subspace)> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use dp_personalize::Provenance;

    use super::*;

    #[test]
    fn rounds_are_kept_only_where_they_are_measured() {
        let model = &Subspace::spanned_by(1, 1, &[1.0], Provenance::NonPrivate).unwrap();
        for (n_rounds, measure, expected) in [
            (2, true, &[0, 1, 2][..]),
            (40, true, &[0, 2, 4, 6]),
            (2, false, &[]),
            (0, true, &[]),
        ] {
            let mut rounds = Rounds::of(n_rounds, measure);
            for round in 0..=n_rounds.min(7) {
                rounds.keep(RoundEnd { round, model });
            }
            let kept: Vec<usize> = rounds.into_kept().iter().map(|(round, _)| *round).collect();
            assert_eq!(kept, expected);
        }
    }
}
