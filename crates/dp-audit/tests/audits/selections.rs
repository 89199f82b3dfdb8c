//! The exponential mechanism: draws on small neighbouring data sets compared with exact
//! probabilities.

use dp_audit::testing::Payer;
use dp_audit::{audit_frequencies, audit_range};
use dp_core::{Adjacency, DpEvent, Interactions, Private, Relation};
use dp_mechanism::{ExponentialMechanism, NoiseSource, ScoreChange, ScoreSum};

use crate::support::{Halves, LEVEL, claimed_range, table};

/// Draws on each data set.
const N: u64 = 40_000;

fn mechanism(sensitivity: f64, change: ScoreChange) -> ExponentialMechanism {
    ExponentialMechanism::new(1.0, sensitivity, change, Relation::AddRemove).unwrap()
}

/// How often each candidate was selected.
fn selected(
    n: usize,
    event: DpEvent,
    mut select: impl FnMut(dp_accounting::Spend) -> usize,
) -> Vec<u64> {
    let payer = Payer::new(event, 0, Adjacency::AddRemoveUser).unwrap();
    let mut counts = vec![0; n];
    for _ in 0..N {
        counts[select(payer.spend().unwrap())] += 1;
    }
    counts
}

/// `exp(epsilon u / (2 s))`, or without the 2 for a monotone change, normalised.
fn exact(mechanism: &ExponentialMechanism, change: ScoreChange, scores: &[f64]) -> Vec<f64> {
    let both = if change == ScoreChange::General {
        2.0
    } else {
        1.0
    };
    let epsilon = claimed_range(&mechanism.event()) / both;
    let weights: Vec<f64> = scores.iter().map(|u| (epsilon * u).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

/// Two data sets whose scores differ by the sensitivity everywhere, in both directions if the
/// change is general; 40,000 selections on each.
#[test]
fn selections_have_the_probabilities_and_the_range_of_their_claim() {
    // in units of the sensitivity
    let scores = [0.0, 1.0, 0.5, 0.0];
    let general = [1.0, 0.0, 1.5, -1.0];
    let monotone = [1.0, 1.0, 1.5, 0.0];
    for sensitivity in [1.0, 2.0] {
        for (change, neighbour) in [
            (ScoreChange::General, general),
            (ScoreChange::Monotone, monotone),
        ] {
            let mechanism = mechanism(sensitivity, change);
            let noise = &mut NoiseSource::operating_system();
            let mut audited = |scores: &[f64; 4]| {
                let units = scores.map(|u| u * sensitivity);
                let counts = selected(4, mechanism.event(), |spend| {
                    mechanism.select(&units, spend, noise).unwrap().index()
                });
                let expected = exact(&mechanism, change, scores);
                let audit = audit_frequencies("selection", N, &counts, &expected, LEVEL).unwrap();
                assert!(audit.verdict.holds(), "{change:?}, {sensitivity}: {audit}");
                counts
            };
            let (first, second) = (audited(&scores), audited(&neighbour));
            let claim = claimed_range(&mechanism.event());
            let audit = audit_range("selection", claim, &first, &second, LEVEL).unwrap();
            assert!(audit.verdict.holds(), "{change:?}: {audit}");
            // these neighbours reach the claim, and the bound comes close to it
            assert!(
                audit.lower_bound_epsilon > 0.6 * claim,
                "{change:?}: {audit}"
            );
        }
    }
}

/// Each user gives a point to each of their items, in two halves; the last user would give
/// millions.
#[test]
fn no_user_moves_a_score_further_than_paid_for() {
    let change = ScoreChange::Monotone;
    let mechanism = mechanism(1.0, change);
    let ordinary: Vec<Vec<(u32, f32)>> = vec![vec![(0, 1.0)], vec![(1, 1.0)], vec![(1, 0.5)]];
    let mut hostile = ordinary.clone();
    // the third is what clipping each half separately would let through
    hostile.push(vec![(0, 3e6), (1, -3e6), (2, 1.5)]);
    let noise = &mut NoiseSource::operating_system();
    let mut audited = |data: Interactions, scores: &[f64]| {
        let data = Private::new(data);
        let counts = selected(3, mechanism.event(), |spend| {
            let sums = ScoreSum::accumulate(&data, 3, mechanism, &Halves).unwrap();
            sums.select(spend, noise).unwrap().index()
        });
        let expected = exact(&mechanism, change, scores);
        let audit = audit_frequencies("score sums", N, &counts, &expected, LEVEL).unwrap();
        assert!(audit.verdict.holds(), "{audit}");
        counts
    };
    let without = audited(table(3, &ordinary), &[1.0, 1.5, 0.0]);
    let with = audited(table(3, &hostile), &[2.0, 1.5, 1.0]);
    let claim = claimed_range(&mechanism.event());
    let audit = audit_range("score sums", claim, &without, &with, LEVEL).unwrap();
    assert!(audit.verdict.holds(), "{audit}");
}
