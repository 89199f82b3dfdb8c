//! Distances between neighbours, and which way their ratios are rounded.

use dp_core::Adjacency;

use super::super::answer::{QuestionError, Result};
use super::{Mechanism, Neighbour};
use crate::engines::rounding::div_up;

/// Which way a ratio that is no f64 is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::questions) enum Toward {
    /// More privacy loss.
    Costlier,
    /// Less privacy loss.
    Cheaper,
}

/// How the distances of a case are written as events.
///
/// A [`DpEvent`] has its sensitivity under add/remove, and a replacement doubles it. Mechanisms
/// whose output depends on their distance alone are therefore stated under add/remove even where
/// the case is about replacement: it is the same pair of distributions. Beside a mechanism that
/// knows how neighbours are made, they are stated under replacement with half the distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::questions) enum Frame {
    /// Add/remove, distances as they are.
    Whole,
    /// Replacement, distances halved.
    Half,
}

impl Frame {
    pub(in crate::questions) fn of(neighbour: Neighbour, mechanisms: &[Mechanism]) -> Self {
        let replaced = neighbour == Neighbour::ReplaceOne;
        if replaced && mechanisms.iter().any(Mechanism::knows_neighbours) {
            Self::Half
        } else {
            Self::Whole
        }
    }

    pub(in crate::questions) const fn adjacency(self) -> Adjacency {
        match self {
            Self::Whole => Adjacency::AddRemoveRecord,
            Self::Half => Adjacency::ReplaceRecord,
        }
    }

    /// Noise over half or all of the sensitivity.
    pub(super) fn ratio(self, noise: f64, sensitivity: f64, toward: Toward) -> f64 {
        let times = if self == Self::Half { 2.0 } else { 1.0 };
        divided(times * noise, sensitivity, toward)
    }

    pub(super) fn distance(self, sensitivity: u32) -> Result<u32> {
        match self {
            Self::Whole => Ok(sensitivity),
            Self::Half if sensitivity.is_multiple_of(2) => Ok(sensitivity / 2),
            Self::Half => Err(QuestionError::OddDistance { sensitivity }),
        }
    }
}

/// a / b; cheaper is the larger.
pub(super) fn divided(a: f64, b: f64, toward: Toward) -> f64 {
    let up = div_up(a, b);
    let exact = up.mul_add(b, -a) == 0.0;
    match toward {
        Toward::Cheaper => up,
        Toward::Costlier if exact => up,
        Toward::Costlier => up.next_down(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inexact_ratios_are_rounded_to_both_sides() {
        let third = |toward| divided(1.0, 3.0, toward);
        assert!(third(Toward::Costlier) * 3.0 <= 1.0);
        assert!(
            third(Toward::Costlier)
                .next_up()
                .total_cmp(&third(Toward::Cheaper))
                .is_eq()
        );
        let half = |toward| divided(1.0, 2.0, toward).to_bits();
        assert_eq!(half(Toward::Costlier), half(Toward::Cheaper));
    }
}
