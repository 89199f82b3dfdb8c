//! What one user adds to residual rounds: within the bound, and as good as at it.

use dp_core::{Interactions, InteractionsBuilder, Private};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{AmResidualSsp, ObservedSums};

use crate::am_residual::{prior, rounds};
use crate::support::{ADD_REMOVE, N_ITEMS, Seen, look, observed, table, target};

/// Least squared norm, over the squared bound, of a user whose residuals are clipped: a bound that is wrong by .1 % in either direction fails, since a user beyond it is left out.
const REACHED: f64 = 0.998;

/// All releases on a table, with repeatable noise.
fn releases(fit: &AmResidualSsp, data: &Private<Interactions>) -> Vec<Seen> {
    let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let (mut seen, noise) = (Vec::new(), &mut NoiseSource::insecure_seeded(4));
    observed(&fit.with(&prior()), data, &plan, noise, |o| {
        seen.extend(look(o));
    })
    .unwrap();
    seen
}

#[test]
fn a_user_moves_the_first_releases_within_their_bounds_and_not_by_nothing() {
    for dim in [1, 3] {
        let fit = rounds(dim, 1);
        let all = releases(&fit, &table(40, None));
        let labels: Vec<&str> = all.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(labels, ["total weights", "residuals 1"]);
        let mut largest = [0.0_f64; 2];
        for user in 0..40 {
            let less = releases(&fit, &table(40, Some(user)));
            for ((a, b), largest) in all.iter().zip(&less).zip(&mut largest) {
                let (moved, bound) = (a.squared_distance(b), u128::from(a.l2_bound).pow(2));
                assert!(moved <= bound, "{} by user {user}", a.label);
                // user 2 is hostile in all ways and still heard; user 3 has no items
                assert_eq!(moved > 0, user != 3, "{} by user {user}", a.label);
                *largest = largest.max(moved as f64 / bound as f64);
            }
        }
        assert!(largest.iter().all(|s| *s > REACHED), "{largest:?}");
    }
}

/// The table, and behind it users whose ratings lie so far apart that residuals are clipped whatever the vectors: by how much and on how many items differs.
fn with_users_at_the_bound() -> (Private<Interactions>, std::ops::Range<usize>) {
    let mut out = InteractionsBuilder::new(N_ITEMS);
    for (user, row) in (0..).zip(table(40, None).expose().users()) {
        for (item, y) in row.iter() {
            out.push(user, item, y).unwrap();
        }
    }
    for (user, n) in [(40, 1), (41, 2), (42, 7), (43, N_ITEMS as u32)] {
        for item in 0..n {
            let apart = [-1e3, 1e4, 50.0, -77.0][(item % 4) as usize];
            out.push(user, item, apart).unwrap();
        }
    }
    let data = out.build().0;
    let n = data.n_users();
    (Private::new(data), n - 4..n)
}

#[test]
fn every_round_s_bound_is_reached_and_passed_by_nobody_whatever_was_released_before() {
    for dim in [1, 3] {
        let (fit, (data, at_the_bound)) = (rounds(dim, 5), with_users_at_the_bound());
        let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
        let noise = &mut NoiseSource::insecure_seeded(4);
        let (mut round, data) = (0, &data);
        observed(&fit.with(&prior()), data, &plan, noise, |observed| {
            let ObservedSums::Vector { grid, one_user, .. } = observed.sums else {
                panic!("another release")
            };
            let norm = |row: Vec<(usize, i64)>| -> u128 {
                row.iter()
                    .map(|(_, z)| u128::from(z.unsigned_abs()).pow(2))
                    .sum()
            };
            let bound = u128::from(grid.l2_bound()).pow(2);
            for (number, user) in data.expose().users().enumerate() {
                let norm = norm(one_user(user));
                assert!(norm <= bound);
                assert_eq!(norm > 0, !user.is_empty(), "user {number}, round {round}");
                if at_the_bound.contains(&number) {
                    let share = norm as f64 / bound as f64;
                    assert!(share > REACHED, "user {number}, round {round}: {share}");
                }
            }
            // c sqrt(1 + .1^2), c shrinking by rounds
            let c = fit.params().bound.at(round);
            let stated = if round == 0 { 1.0 } else { 1.01_f64.sqrt() * c };
            assert!((grid.clip_norm() / stated - 1.0).abs() < 1e-12);
            round += 1;
        })
        .unwrap();
        assert_eq!(round, 6);
    }
}
