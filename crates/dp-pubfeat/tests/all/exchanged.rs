//! Replacement neighbours: how far one user or one record moves the first release of every fit, in
//! exact integers.

use std::collections::BTreeMap;

use dp_core::{Adjacency, Interactions, InteractionsBuilder, Private};

use crate::first_release::{Release, of_all, of_ratings};
use crate::support::{DIM, N_ITEMS, setup};

const N: u32 = 12;

/// Vectors by user, labels by user and item; repeats are merged, so each pair occurs at most once.
#[derive(Clone)]
struct Records {
    vectors: Vec<[f32; DIM]>,
    labels: BTreeMap<(u32, u32), f32>,
}

impl Records {
    /// Five items per user, labels of either sign at or above the bound, vectors near it; user 3
    /// has no items.
    fn made() -> Self {
        let vector = |user: u32| {
            let k = user as f32;
            [(k * 0.7).sin(), (k * 1.3).cos(), 0.8]
        };
        let item = |user, i| (user * 3 + i * (1 + user % 3)) % N_ITEMS as u32;
        let label = |user, i| if (user + i) % 3 == 0 { -1.0 } else { 1.5 };
        let users = (0..N).filter(|&user| user != 3);
        let labels = users.flat_map(|u| (0..5).map(move |i| ((u, item(u, i)), label(u, i))));
        Self {
            labels: labels.collect(),
            vectors: (0..N).map(vector).collect(),
        }
    }

    fn table(&self) -> Private<Interactions> {
        let mut out = InteractionsBuilder::new(N_ITEMS).with_feature_dim(DIM);
        for (user, vector) in (0..).zip(&self.vectors) {
            out.set_features(user, vector).unwrap();
        }
        for (&(user, item), &label) in &self.labels {
            out.push(user, item, label).unwrap();
        }
        Private::new(out.build().0)
    }

    /// One user replaced by another with these items, all with one label.
    fn with_user(&self, user: u32, vector: [f32; DIM], items: &[u32], label: f32) -> Self {
        let mut other = self.clone();
        other.labels.retain(|&(u, _), _| u != user);
        other.vectors[user as usize] = vector;
        let records = items.iter().map(|&item| ((user, item), label));
        other.labels.extend(records);
        other
    }

    /// One record replaced by another, as a table merges it: the last record of a pair wins.
    fn with_record(&self, old: (u32, u32), new: (u32, u32), label: f32) -> Self {
        let mut other = self.clone();
        assert!(other.labels.remove(&old).is_some());
        other.labels.insert(new, label);
        other
    }

    /// The items of user 5, and one item that the user does not have.
    fn items_of_five(&self) -> (Vec<u32>, u32) {
        let own = |item: &u32| self.labels.contains_key(&(5, *item));
        let (has, not): (Vec<u32>, Vec<u32>) = (0..N_ITEMS as u32).partition(own);
        (has, not[0])
    }
}

/// Largest distance between `replaced` tables, as a share of the bound, by name of the sum.
fn largest(releases: &[Release], all: &Records, others: &[Records]) -> BTreeMap<String, f64> {
    let mut shares = BTreeMap::new();
    for release in releases {
        let before = release.sums(&all.table());
        for other in others {
            for (a, b) in before.iter().zip(&release.sums(&other.table())) {
                let share: &mut f64 = shares.entry(a.name.clone()).or_default();
                *share = share.max(a.squared_distance(b) as f64 / a.squared_bound() as f64);
            }
        }
    }
    shares
}

/// Squared distances divided by the squared add/remove bound: 2 for matrices and 4 for everything
/// else, which is more than add/remove allows.
fn check_replaced(shares: &BTreeMap<String, f64>) {
    for (name, &share) in shares {
        let factor = if name.contains("matrices") { 2.0 } else { 4.0 };
        assert!(share <= factor, "{name}: {share}");
        assert!(
            share > 1.0,
            "{name}: replacing moves no more than adding, {share}"
        );
    }
}

#[test]
fn a_user_exchanged_for_another_moves_first_releases_within_the_bounds_of_replacement() {
    let all = Records::made();
    let (items, none) = all.items_of_five();
    let vector = all.vectors[5];
    let minus = vector.map(|x| -x);
    let turned = [vector[1], -vector[0], 0.0];
    let mut others = vec![
        all.with_user(5, minus, &items, 1.0), // the same items, other labels
        all.with_user(5, vector, &items, -1.5),
        all.with_user(5, turned, &[none], 1.0),
        all.with_user(5, [f32::MAX, -f32::MAX, 1e30], &items, f32::MAX),
        all.with_user(3, vector, &items, 1.0), // no items before
        all.with_user(5, vector, &[], 1.0),    // no items after
    ];
    // from one vector to its opposite
    let one = all.with_user(5, vector, &[0], 1.5);
    let shares = largest(
        &of_all(&setup(), Adjacency::ReplaceUser),
        &one,
        &[
            one.with_user(5, vector, &[0], -1.5),
            one.with_user(5, turned, &[1], 1.5),
        ],
    );
    check_replaced(&shares);
    others.push(one);
    for (name, share) in largest(&of_all(&setup(), Adjacency::ReplaceUser), &all, &others) {
        let factor = if name.contains("matrices") { 2.0 } else { 4.0 };
        assert!(share > 0.0 && share <= factor, "{name}: {share}");
    }
    // users' vectors are fitted on their ratings: those in the table are ignored
    for (name, share) in largest(&of_ratings(&setup(), Adjacency::ReplaceUser), &all, &others) {
        let factor = if name.contains("matrices") { 2.0 } else { 4.0 };
        assert!(share > 0.1 && share <= factor, "{name}: {share}");
    }
}

#[test]
fn a_record_exchanged_for_one_of_no_pair_moves_first_releases_within_the_bounds_of_replacement() {
    let all = Records::made();
    let (items, none) = all.items_of_five();
    let label = all.labels[&(5, items[0])];
    let others = [
        all.with_record((5, items[0]), (5, items[0]), -label), // another label
        all.with_record((5, items[0]), (5, none), label),
        all.with_record((5, items[0]), (3, items[1]), -label),
        all.with_record((5, items[0]), (5, none), f32::MAX),
    ];
    let releases = of_all(&setup().example_level(), Adjacency::ReplaceRecord);
    check_replaced(&largest(&releases, &all, &others));
    // a record uses its full bound, whatever else its user has: the opposite sign is twice the
    // bound away
    let turned = largest(&releases, &all, &others[..1]);
    assert!(turned["ssp: right-hand sides"] > 3.99, "{turned:?}");
    // and adding or removing one moves by at most the bound
    let mut less = all.clone();
    less.labels.remove(&(5, items[0]));
    for (name, share) in largest(&releases, &all, &[less]) {
        assert!(share > 0.3 && share <= 1.0, "{name}: {share}");
    }
}

#[test]
fn an_exchange_that_collides_moves_two_records_which_is_why_it_is_excluded() {
    let all = Records::made();
    let (items, _) = all.items_of_five();
    let other_label = -all.labels[&(5, items[1])];
    let collided = all.with_record((5, items[0]), (5, items[1]), other_label);
    assert_eq!(collided.labels.len() + 1, all.labels.len());
    let releases = of_all(&setup().example_level(), Adjacency::ReplaceRecord);
    let shares = largest(&releases, &all, &[collided]);
    for name in ["ssp: right-hand sides", "residual: right-hand sides"] {
        assert!(
            shares[name] > 4.5 && shares[name] <= 5.0,
            "{}",
            shares[name]
        );
    }
    // users are protected against this: all records of a user count once, whatever collides
    let items_twice = [items.clone(), items.clone()].concat();
    let user = all.with_user(5, all.vectors[5], &items_twice, -1.0);
    let releases = of_all(&setup(), Adjacency::ReplaceUser);
    for (name, share) in largest(&releases, &all, &[user]) {
        assert!(share <= 4.0, "{name}: {share}");
    }
}
