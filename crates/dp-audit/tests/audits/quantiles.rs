//! Private quantiles on every small data set.

use dp_audit::audit_frequencies;
use dp_audit::audit_range;
use dp_audit::testing::Payer;
use dp_core::{Adjacency, Private, Relation, UserRow};
use dp_mechanism::{NoiseSource, PrivateQuantile};

use crate::support::{LEVEL, claimed_range, table};

/// Draws on each data set.
const N: u64 = 10_000;
const POINTS: [f64; 4] = [0.0, 1.0, 2.0, 3.0];

/// A user's value is the largest of its records.
fn value(user: UserRow<'_>) -> f64 {
    user.values()
        .iter()
        .copied()
        .map(f64::from)
        .fold(0.0, f64::max)
}

/// `exp(epsilon u_i / (2 s))` with `u_i = -max(0, L_i - q n, q n - R_i)`, normalised.
fn exact(values: &[f64], level: f64, epsilon: f64) -> Vec<f64> {
    let aim = level * values.len() as f64;
    let s = level.max(1.0 - level);
    let weight = |t: &f64| {
        let below = values.iter().filter(|&v| v < t).count() as f64;
        let upto = values.iter().filter(|&v| v <= t).count() as f64;
        let off = (below - aim).max(aim - upto).max(0.0);
        (-epsilon * off / (2.0 * s)).exp()
    };
    let weights: Vec<f64> = POINTS.iter().map(weight).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

/// Number of selections of each grid point for users with these largest values; users with larger
/// values have more records.
fn selected(quantile: &PrivateQuantile, values: &[f32], noise: &mut NoiseSource) -> [u64; 4] {
    let users: Vec<Vec<(u32, f32)>> = values
        .iter()
        .map(|&v| {
            (0..6_u8)
                .filter(|&item| item == 0 || f32::from(item) <= v)
                .map(|item| (item.into(), v))
                .collect()
        })
        .collect();
    let data = Private::new(table(6, &users));
    let payer = Payer::new(quantile.event(), 0, Adjacency::AddRemoveUser).unwrap();
    let mut counts = [0; 4];
    for _ in 0..N {
        let spend = payer.spend().unwrap();
        let released = quantile
            .release(&data, value, spend, noise)
            .unwrap()
            .value();
        let point = POINTS.iter().position(|p| (p - released).abs() < 1e-12);
        counts[point.expect("a point of the public grid")] += 1;
    }
    counts
}

/// All data sets of up to two users with values in 0, 1, 2, 3 or 1e6: 21 of them, 10,000 selections on
/// each, and each pair of neighbours among them.
#[test]
fn quantiles_of_all_small_data_sets_have_their_probabilities() {
    let quantile = PrivateQuantile::new(0.75, (0.0, 3.0), 4, 2.0, Relation::AddRemove).unwrap();
    let epsilon = claimed_range(&quantile.event());
    let noise = &mut NoiseSource::operating_system();
    let mut audited = |values: &[f32]| {
        let counts = selected(&quantile, values, noise);
        let clipped: Vec<f64> = values.iter().map(|&v| f64::from(v.min(3.0))).collect();
        let expected = exact(&clipped, quantile.level(), epsilon);
        let audit = audit_frequencies("quantile", N, &counts, &expected, LEVEL).unwrap();
        assert!(audit.verdict.holds(), "{values:?}: {audit}");
        counts
    };
    let range = |a: &[u64], b: &[u64]| {
        let audit = audit_range("quantile", epsilon, a, b, LEVEL).unwrap();
        assert!(audit.verdict.holds(), "{audit}");
    };
    let all = [0.0, 1.0, 2.0, 3.0, 1e6];
    let nobody = audited(&[]);
    let ones = all.map(|v| audited(&[v]));
    for (at, one) in ones.iter().enumerate() {
        range(&nobody, one);
        for (other_at, other) in ones.iter().enumerate().skip(at) {
            let two = audited(&[all[at], all[other_at]]);
            range(one, &two);
            range(other, &two);
        }
    }
}
