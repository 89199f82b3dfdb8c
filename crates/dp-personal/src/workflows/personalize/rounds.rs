//! Subspaces on the way, kept for measurements after the run.

use dp_personalize::{Observer, Provenance, Round, Subspace};

use crate::error::Result;
use crate::rounds::MeasuredRounds;

/// The start and the subspaces after rounds that will be measured. Released values, or computed from them.
pub(super) struct Rounds {
    /// None where nothing will be measured, or there are no rounds.
    measured: Option<MeasuredRounds>,
    seen: Vec<(usize, dp_personalize::Result<Subspace>)>,
}

impl Rounds {
    pub(super) fn of(n_rounds: usize, measure: bool) -> Self {
        let is_shown = measure && n_rounds > 0;
        Self {
            measured: is_shown.then(|| MeasuredRounds::of(n_rounds)),
            seen: Vec::new(),
        }
    }

    pub(super) fn into_subspaces(self) -> Result<Vec<(usize, Subspace)>> {
        let seen = self.seen.into_iter();
        seen.map(|(round, subspace)| Ok((round, subspace?)))
            .collect()
    }
}

impl Observer for Rounds {
    fn round(&mut self, round: &Round<'_>) {
        if self.measured.is_some_and(|of| of.contain(round.round)) {
            // measured by whoever holds the data, and never released from here
            let subspace = Subspace::of_round(round, Provenance::NonPrivate);
            self.seen.push((round.round, subspace));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_kept_only_where_they_are_measured() {
        for (n_rounds, measure, expected) in [
            (2, true, &[0, 1, 2][..]),
            (40, true, &[0, 2, 4, 6]),
            (2, false, &[]),
            (0, true, &[]),
        ] {
            let mut rounds = Rounds::of(n_rounds, measure);
            for round in 0..=n_rounds.min(7) {
                rounds.round(&Round {
                    round,
                    parameters: &[1.0],
                    shape: (1, 1),
                    local: None,
                });
            }
            let seen = rounds.into_subspaces().unwrap().into_iter();
            let seen: Vec<usize> = seen.map(|(round, _)| round).collect();
            assert_eq!(seen, expected);
        }
    }
}
