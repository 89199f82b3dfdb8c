//! Seeded, so the outcomes are reproducible; with new seeds, each chi-square test below has a
//! false-alarm rate under 1e-9.

use dp_accounting::{PlannedRelease, Spend};
use dp_core::Adjacency;

use super::*;
use crate::test_support::spends_of;

fn mechanism(epsilon: f64, change: ScoreChange) -> ExponentialMechanism {
    ExponentialMechanism::new(epsilon, 1.0, change, Relation::AddRemove).unwrap()
}

fn spend(event: DpEvent) -> Spend {
    let release = PlannedRelease::new("select", event, 0);
    spends_of(vec![release], Adjacency::AddRemoveUser).remove(0)
}

impl ExponentialMechanism {
    /// Exact probabilities for scores in steps, from the integer weights.
    pub(crate) fn probabilities(&self, steps: &[i64]) -> Vec<f64> {
        let best = steps.iter().copied().max().unwrap();
        let weights: Vec<f64> = steps
            .iter()
            .map(|&k| weight((best - k).unsigned_abs().saturating_mul(self.rate)) as f64)
            .collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|w| w / total).collect()
    }
}

fn probabilities(mechanism: &ExponentialMechanism, scores: &[f64]) -> Vec<f64> {
    let steps: Vec<i64> = scores.iter().map(|&s| mechanism.in_steps(s)).collect();
    mechanism.probabilities(&steps)
}

#[test]
fn the_range_is_just_below_the_one_asked_for() {
    for change in [ScoreChange::General, ScoreChange::Monotone] {
        for epsilon in [1e-3, 0.1, 1.0, 8.0, 40.0] {
            for sensitivity in [1.0, 0.3, 1e-200, 7e200] {
                let mechanism =
                    ExponentialMechanism::new(epsilon, sensitivity, change, Relation::Replace)
                        .unwrap();
                let found = mechanism.epsilon();
                assert!(
                    found <= epsilon && found > 0.8 * epsilon,
                    "{epsilon}: {found}"
                );
                if epsilon >= 0.1 {
                    assert!(found > 0.998 * epsilon, "{epsilon}: {found}");
                }
            }
        }
    }
}

#[test]
fn parameters_are_checked() {
    let new = |epsilon, sensitivity| {
        ExponentialMechanism::new(
            epsilon,
            sensitivity,
            ScoreChange::General,
            Relation::AddRemove,
        )
    };
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 9e-4, 41.0] {
        assert!(new(bad, 1.0).is_err(), "{bad}");
    }
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 9e-251, 2e250] {
        assert!(new(1.0, bad).is_err(), "{bad}");
    }
}

#[test]
fn probabilities_are_the_exponential_ones() {
    // general change: exp(epsilon score / (2 sensitivity)), sensitivity 1
    let scores = [0.0, 1.0, -3.5, 2.25, 2.25];
    let mechanism = mechanism(1.5, ScoreChange::General);
    let exact: Vec<f64> = scores
        .iter()
        .map(|s: &f64| (mechanism.epsilon() / 2.0 * s).exp())
        .collect();
    let total: f64 = exact.iter().sum();
    for (p, e) in probabilities(&mechanism, &scores).iter().zip(&exact) {
        assert!((p / (e / total) - 1.0).abs() < 1e-9);
    }
}

#[test]
fn selections_fit_the_exact_probabilities() {
    // 5 degrees of freedom: 55 is exceeded with probability 1.3e-10; NaN and the tie included
    let scores = [0.5, 1.0, f64::NAN, -1.0, 1.0, 0.0, f64::NEG_INFINITY];
    let mechanism = mechanism(1.0, ScoreChange::General);
    let expected = probabilities(&mechanism, &scores);
    assert!(expected[2] < 1e-15 && expected[2] > 0.0);
    assert!(
        expected[2].to_bits() == expected[6].to_bits()
            && expected[1].to_bits() == expected[4].to_bits()
    );
    let steps: Vec<i64> = scores.iter().map(|&s| mechanism.in_steps(s)).collect();
    let mut bits = NoiseSource::insecure_seeded(1)
        .release_stream()
        .unwrap()
        .into_bits();
    let n = 400_000;
    let mut counts = [0.0; 7];
    for _ in 0..n {
        counts[mechanism.draw(&steps, &mut bits)] += 1.0;
    }
    assert!(counts[2] == 0.0 && counts[6] == 0.0);
    let chi: f64 = counts
        .iter()
        .zip(&expected)
        .filter(|&(_, p)| *p > 1e-10)
        .map(|(c, p)| {
            let e = p * f64::from(n);
            (c - e) * (c - e) / e
        })
        .sum();
    assert!(chi < 55.0, "{chi}");
}

/// The difference between the largest and the smallest log-ratio of the exact probabilities.
fn measured_range(a: &[f64], b: &[f64]) -> f64 {
    let ratios: Vec<f64> = a.iter().zip(b).map(|(p, q)| (p / q).ln()).collect();
    let max = ratios.iter().copied().fold(f64::MIN, f64::max);
    max - ratios.iter().copied().fold(f64::MAX, f64::min)
}

#[test]
fn neighbours_never_exceed_the_range_and_reach_it() {
    let mut rng = crate::test_support::Lcg(3);
    for change in [ScoreChange::General, ScoreChange::Monotone] {
        let mechanism = mechanism(1.0, change);
        let low = if change == ScoreChange::General {
            -1.0
        } else {
            0.0
        };
        let mut widest = 0.0_f64;
        for round in 0..3000 {
            let spread = [1.0, 30.0, 300.0][round % 3]; // 300 reaches the cap
            let scores: Vec<f64> = (0..6).map(|_| (rng.signed() * spread).round()).collect();
            let moved: Vec<f64> = scores
                .iter()
                .map(|s| s + if rng.below(2) == 0 { low } else { 1.0 })
                .collect();
            let range = measured_range(
                &probabilities(&mechanism, &scores),
                &probabilities(&mechanism, &moved),
            );
            assert!(range <= mechanism.epsilon() + 1e-12, "{range}");
            widest = widest.max(range);
        }
        assert!(widest > 0.9999 * mechanism.epsilon(), "{widest}");
    }
}

#[test]
fn a_spend_must_be_for_this_range_and_relation() {
    let mechanism = mechanism(1.0, ScoreChange::Monotone);
    let mut noise = NoiseSource::insecure_seeded(4);
    let mut select = |event| mechanism.select(&[1.0, 900.0], spend(event), &mut noise);
    let best = select(mechanism.event()).unwrap();
    assert!(best.index() == 1 && best.is_insecure());
    let less = DpEvent::BoundedRange {
        epsilon: mechanism.epsilon().next_down(),
        relation: Relation::AddRemove,
    };
    for wrong in [less, DpEvent::gaussian(1.0)] {
        assert!(matches!(select(wrong), Err(Error::WrongSpend { .. })));
    }
    let paid = spend(mechanism.event());
    assert!(matches!(
        mechanism.select(&[], paid, &mut noise),
        Err(Error::Shape(_))
    ));
}
