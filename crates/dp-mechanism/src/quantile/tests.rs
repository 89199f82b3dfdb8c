use dp_accounting::PlannedRelease;
use dp_core::Adjacency;

use super::*;
use crate::test_support::{Lcg, rebuilt, spends_of, table};

fn quantile(level: f64, relation: Relation) -> PrivateQuantile {
    PrivateQuantile::new(level, (0.0, 10.0), 11, 1.0, relation).unwrap()
}

/// Scores in users, computed from the definition with sorted values.
fn by_definition(values: &[usize], level: f64, n_points: usize) -> Vec<f64> {
    let aim = level * values.len() as f64;
    (0..n_points)
        .map(|i| {
            let below = values.iter().filter(|&&v| v < i).count() as f64;
            let upto = values.iter().filter(|&&v| v <= i).count() as f64;
            -(below - aim).max(aim - upto).max(0.0)
        })
        .collect()
}

fn counts_of(values: &[usize]) -> Vec<i64> {
    let mut counts = vec![0; 11];
    for &v in values {
        counts[v] += 1;
    }
    counts
}

#[test]
fn scores_are_those_of_the_definition() {
    let values = [0, 3, 3, 3, 4, 7, 10, 10];
    for level in [0.25, 0.5, 0.75] {
        let quantile = quantile(level, Relation::Replace);
        // a step is 2^-10 of a user; scores of this example are whole multiples of it
        let found = quantile.scores(&counts_of(&values));
        let expected = by_definition(&values, level, 11);
        for (f, e) in found.iter().zip(&expected) {
            assert!((*f as f64 / 1024.0 - e).abs() < 1e-12, "{level}: {found:?}");
        }
    }
}

/// s / step, s = max(q, 1 - q) or 1, in steps of the mechanism.
fn largest_move(quantile: &PrivateQuantile, relation: Relation) -> f64 {
    let q = quantile.level();
    let bound = if relation == Relation::Replace {
        1.0
    } else {
        q.max(1.0 - q)
    };
    let step = ((bound * f64::from(LEVEL_ONE)).log2().floor() - 10.0).exp2();
    (bound * f64::from(LEVEL_ONE) / step).ceil()
}

#[test]
fn no_score_moves_further_than_the_sensitivity_between_neighbours() {
    let mut rng = Lcg(1);
    for level in [0.01, 0.3, 0.5, 0.9] {
        for relation in [Relation::AddRemove, Relation::Replace] {
            let quantile = quantile(level, relation);
            let bound = largest_move(&quantile, relation);
            let mut widest = 0.0_f64;
            for _ in 0..2000 {
                let n = 1 + rng.below(12);
                let mut draw = || usize::try_from(rng.below(11)).unwrap();
                let mut values: Vec<usize> = (0..n).map(|_| draw()).collect();
                let before = quantile.scores(&counts_of(&values));
                if relation == Relation::Replace {
                    values[0] = draw();
                } else {
                    values.push(draw());
                }
                let after = quantile.scores(&counts_of(&values));
                for (a, b) in before.iter().zip(&after) {
                    widest = widest.max(a.abs_diff(*b) as f64);
                }
            }
            assert!(widest <= bound, "{level}: {widest} of {bound}");
            assert!(widest + 1.0 >= bound, "{level}: the bound is not tight");
        }
    }
}

#[test]
fn values_go_to_their_nearest_point_and_bad_ones_to_an_end() {
    let quantile = quantile(0.5, Relation::AddRemove);
    for (value, point) in [
        (0.0, 0),
        (0.49, 0),
        (0.51, 1),
        (10.0, 10),
        (11.0, 10),
        (-3.0, 0),
        (f64::NAN, 0),
        (f64::INFINITY, 10),
        (f64::NEG_INFINITY, 0),
        (f64::MAX, 10),
        (5e-324, 0),
    ] {
        assert_eq!(quantile.point_of(value), point, "{value}");
    }
    for point in 0..=10 {
        assert_eq!(quantile.point_of(quantile.value_of(point)), point);
    }
}

#[test]
fn a_hundred_thousand_hostile_values_move_no_score_beyond_the_sensitivity() {
    for (level, relation) in [(0.1, Relation::AddRemove), (0.5, Relation::Replace)] {
        let quantile = quantile(level, relation);
        let bound = largest_move(&quantile, relation);
        let mut rng = Lcg(9);
        let mut counts: Vec<i64> = (0..11).map(|_| rng.below(1_000).cast_signed()).collect();
        let (mut before, mut reached) = (quantile.scores(&counts), false);
        for _ in 0..100_000 {
            let point = quantile.point_of(rng.hostile() * 20.0);
            counts[point] += 1; // an index outside the grid would panic here
            if relation == Relation::Replace {
                let gone = (0..11).find(|&p| counts[p] > 0).unwrap();
                counts[gone] -= 1;
            }
            let after = quantile.scores(&counts);
            for (a, b) in after.iter().zip(&before) {
                let moved = a.abs_diff(*b) as f64;
                assert!(moved <= bound, "{a} {b}");
                reached |= moved + 1.0 >= bound;
            }
            before = after;
        }
        assert!(reached, "the bound is never reached: the test is too tame");
    }
}

#[test]
fn parameters_are_checked() {
    let new = |level, range, n_points, epsilon| {
        PrivateQuantile::new(level, range, n_points, epsilon, Relation::AddRemove).is_ok()
    };
    assert!(new(0.5, (0.0, 1.0), 2, 1.0) && new(0.5, (-1.0, 1.0), 1 << 20, 40.0));
    for level in [0.0, 1.0, -0.5, f64::NAN, 1e-7, 1.0 - 1e-7] {
        assert!(!new(level, (0.0, 1.0), 10, 1.0), "{level}");
    }
    for range in [
        (0.0, 0.0),
        (1.0, 0.0),
        (f64::NAN, 1.0),
        (0.0, f64::INFINITY),
        (-f64::MAX, f64::MAX),
    ] {
        assert!(!new(0.5, range, 10, 1.0), "{range:?}");
    }
    assert!(!new(0.5, (0.0, 1.0), 1, 1.0) && !new(0.5, (0.0, 1.0), (1 << 20) + 1, 1.0));
    assert!(!new(0.5, (0.0, 1.0), 10, 0.0));
}

fn spend(quantile: &PrivateQuantile) -> Spend {
    let release = PlannedRelease::new("quantile", quantile.event(), 0);
    spends_of(vec![release], Adjacency::AddRemoveUser).remove(0)
}

#[test]
fn released_rank_is_within_the_stated_error() {
    // beta = 1e-9 per release: off by at most 2 s ln(G / beta) users
    let table = table(5000, 60, 40, 2);
    let data = rebuilt(&table, 0..table.n_users());
    let mut lengths: Vec<usize> = (0..table.n_users()).map(|u| table.user(u).len()).collect();
    lengths.sort_unstable();
    let mut noise = NoiseSource::insecure_seeded(5);
    for level in [0.1, 0.5, 0.95] {
        let quantile =
            PrivateQuantile::new(level, (0.0, 60.0), 61, 1.0, Relation::AddRemove).unwrap();
        let released = quantile
            .release(
                &data,
                |user| user.len() as f64,
                spend(&quantile),
                &mut noise,
            )
            .unwrap();
        assert!(released.is_insecure());
        let below = lengths
            .iter()
            .filter(|&&l| (l as f64) < released.value())
            .count() as f64;
        let upto = lengths
            .iter()
            .filter(|&&l| l as f64 <= released.value())
            .count() as f64;
        let aim = level * lengths.len() as f64;
        let off = (below - aim).max(aim - upto).max(0.0);
        assert!(
            off <= 2.0 * (61.0 / 1e-9_f64).ln(),
            "{level}: off by {off} users"
        );
    }
}

#[test]
fn hostile_values_and_no_users_still_give_a_point_of_the_grid() {
    let table = table(50, 4, 3, 3);
    let data = rebuilt(&table, 0..table.n_users());
    let mut noise = NoiseSource::insecure_seeded(6);
    let quantile = quantile(0.5, Relation::AddRemove);
    for value in [f64::NAN, f64::INFINITY, -f64::MAX] {
        let released = quantile.release(&data, |_| value, spend(&quantile), &mut noise);
        assert!((0.0..=10.0).contains(&released.unwrap().value()));
    }
    // nobody: every point scores 0
    assert!(quantile.scores(&[0; 11]).iter().all(|&s| s == 0));
}

#[test]
fn a_spend_for_another_range_is_refused() {
    let table = table(5, 4, 3, 4);
    let data = rebuilt(&table, 0..table.n_users());
    let cheap = PrivateQuantile::new(0.5, (0.0, 1.0), 10, 0.5, Relation::AddRemove).unwrap();
    let dear = quantile(0.5, Relation::AddRemove);
    let mut noise = NoiseSource::insecure_seeded(7);
    let refused = dear.release(&data, |_| 0.0, spend(&cheap), &mut noise);
    assert!(matches!(refused, Err(Error::WrongSpend { .. })));
}

#[test]
fn probabilities_of_neighbours_keep_the_range_and_come_near_it() {
    // the worst case over all pairs of small data sets: range of ln P(i) / P'(i) over the outcomes
    for (level, relation) in [
        (0.5, Relation::AddRemove),
        (0.9, Relation::AddRemove),
        (0.5, Relation::Replace),
    ] {
        let quantile = quantile(level, relation);
        let DpEvent::BoundedRange { epsilon, .. } = quantile.event() else {
            unreachable!()
        };
        let probabilities = |values: &[usize]| {
            quantile
                .mechanism
                .probabilities(&quantile.scores(&counts_of(values)))
        };
        let mut widest = 0.0_f64;
        let mut rng = Lcg(8);
        for _ in 0..3000 {
            let mut draw = || usize::try_from(rng.below(11)).unwrap();
            let mut values: Vec<usize> = (0..6).map(|_| draw()).collect();
            let before = probabilities(&values);
            if relation == Relation::Replace {
                values[0] = draw();
            } else {
                values.push(draw());
            }
            let ratios = before
                .iter()
                .zip(probabilities(&values))
                .map(|(p, q)| (p / q).ln());
            let ratios: Vec<f64> = ratios.collect();
            let max = ratios.iter().copied().fold(f64::MIN, f64::max);
            widest = widest.max(max - ratios.iter().copied().fold(f64::MAX, f64::min));
        }
        assert!(widest <= epsilon + 1e-12, "{level}: {widest} of {epsilon}");
        assert!(widest > 0.5 * epsilon, "{level}: {widest} of {epsilon}");
    }
}
