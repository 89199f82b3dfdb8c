//! Rounds after which a run is measured. Determined by public settings alone.

/// Maximum number of measured rounds.
const MOST: usize = 20;

/// Measured rounds of a run of `n_rounds`: all of up to 20; otherwise every 2nd, 5th, 10th, 20th,
/// ..., so that there are at most 20, and the last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeasuredRounds {
    n_rounds: usize,
    every: usize,
}

impl MeasuredRounds {
    pub(crate) fn of(n_rounds: usize) -> Self {
        let powers = std::iter::successors(Some(1_usize), |power| power.checked_mul(10));
        let mut steps = powers.flat_map(|power| [1, 2, 5].map(|step| power.saturating_mul(step)));
        let every = steps.find(|step| n_rounds.div_ceil(*step) <= MOST);
        Self {
            n_rounds,
            every: every.unwrap_or(n_rounds),
        }
    }

    /// Whether this round is measured; round 0, the start, always is.
    pub(crate) const fn contain(self, round: usize) -> bool {
        round.is_multiple_of(self.every) || round == self.n_rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(n_rounds: usize) -> Vec<usize> {
        let of = MeasuredRounds::of(n_rounds);
        (1..=n_rounds).filter(|&round| of.contain(round)).collect()
    }

    #[test]
    fn few_rounds_are_measured_and_always_the_last() {
        assert_eq!(measured(4), [1, 2, 3, 4]);
        assert_eq!(measured(20).len(), 20);
        assert_eq!(measured(21), [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 21]);
        assert_eq!(measured(50), [5, 10, 15, 20, 25, 30, 35, 40, 45, 50]);
        assert_eq!(measured(1001).first(), Some(&100));
        for n_rounds in 1..3000 {
            let rounds = measured(n_rounds);
            assert!(rounds.len() <= 20 && rounds.last() == Some(&n_rounds));
        }
        assert!(MeasuredRounds::of(0).contain(0) && MeasuredRounds::of(7).contain(0));
        assert!(MeasuredRounds::of(usize::MAX).contain(usize::MAX));
    }
}
