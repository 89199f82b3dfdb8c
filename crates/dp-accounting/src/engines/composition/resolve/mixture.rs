//! Mixtures of Gaussians.

use dp_core::{Adjacency, ParamError, params};

use super::super::{Pair, Part};
use super::{positive, probability, symmetric};
use crate::engines::loss::{Loss, MixtureLoss, Side};
use crate::engines::rounding::two_sum;
use crate::{Error, Result};

pub(super) fn mixture_of_gaussians(
    sigma: f64,
    sensitivities: &[f64],
    probabilities: &[f64],
    adjacency: Adjacency,
) -> Result<Part> {
    positive("sigma", sigma)?;
    let same = sensitivities.len() == probabilities.len();
    let mut sorted: Vec<(f64, f64)> = Vec::with_capacity(sensitivities.len());
    for (&s, &p) in sensitivities.iter().zip(probabilities) {
        sorted.push((
            params::finite_non_negative("sensitivities", s)?,
            probability("probabilities", p)?,
        ));
    }
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let sum = accurate_sum(sorted.iter().map(|(_, p)| *p));
    let sums_to_one = (sum - 1.0).abs() <= PROBABILITY_SLACK;
    if !same || !sums_to_one {
        return Err(Error::Param(ParamError {
            name: "probabilities",
            value: sum,
            expected: "one for each sensitivity, with sum 1",
        }));
    }
    if sorted.last().is_none_or(|(shift, _)| *shift <= 0.0) {
        return Err(Error::Param(ParamError {
            name: "sensitivities",
            value: 0.0,
            expected: "at least one above 0",
        }));
    }
    sorted.iter_mut().for_each(|(_, p)| *p /= sum);
    let (shifts, weights) = sorted.into_iter().unzip();
    Ok(mixture(sigma, shifts, weights, adjacency))
}

pub(super) fn mixture(
    sigma: f64,
    shifts: Vec<f64>,
    weights: Vec<f64>,
    adjacency: Adjacency,
) -> Part {
    if adjacency.is_replace() {
        return symmetric(Loss::Mixture(MixtureLoss {
            sigma,
            shifts,
            weights,
            side: Side::Replace,
        }));
    }
    Part::Pair(Pair::Mixture {
        sigma,
        shifts,
        weights,
    })
}

/// Largest distance of a sum of probabilities from 1 that is taken for rounding, and divided out.
const PROBABILITY_SLACK: f64 = 1e-9;

/// Sum within a unit in the last place, however many terms there are.
fn accurate_sum(terms: impl Iterator<Item = f64>) -> f64 {
    let (sum, error) = terms.fold((0.0, 0.0), |(sum, error), term| {
        let (next, lost) = two_sum(sum, term);
        (next, error + lost)
    });
    sum + error
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sum of 1 + 1e-9 made the loss too small where outputs come from the noise alone.
    #[test]
    fn probabilities_are_divided_by_their_sum() {
        for factor in [1.0 + 9e-10, 1.0 - 9e-10, 1.0] {
            let exact = [0.5, 0.375, 0.125];
            let given = exact.map(|p| p * factor);
            let part =
                mixture_of_gaussians(2.0, &[0.0, 1.0, 2.0], &given, Adjacency::AddRemoveUser);
            let Part::Pair(Pair::Mixture { weights, .. }) = part.unwrap() else {
                panic!("not a mixture");
            };
            for (found, expected) in weights.iter().zip(exact) {
                assert!(
                    (found / expected - 1.0).abs() < 5e-16,
                    "{factor} {weights:?}"
                );
            }
        }
    }

    #[test]
    fn long_sums_keep_what_a_plain_sum_loses() {
        let terms = || std::iter::once(1.0).chain((0..1000).map(|_| 1e-17));
        assert!((accurate_sum(terms()) - (1.0 + 1e-14)).abs() < 1e-15);
    }
}
