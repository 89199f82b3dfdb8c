//! Splits by users.

#![allow(clippy::unwrap_used, reason = "a test stops where a step fails")]

use dp_core::{Interactions, Private};
use dp_data::{
    ItemCatalogue, Ratings, RatingsFormat, SplitFractions, UserSplit, read_ratings_from,
};

fn file(users: impl Iterator<Item = usize>) -> String {
    let mut text = String::from("user,item,rating\n");
    for user in users {
        for k in 0..20 {
            let item = (user * 7 + k * 13) % 97;
            text.push_str(&format!("u{user},i{item},{}\n", 1 + (user + k) % 5));
        }
    }
    text
}

fn read(text: &str) -> Ratings {
    let catalogue = ItemCatalogue::from_ids((0..97).map(|i| format!("i{i}")));
    let format = RatingsFormat::default();
    read_ratings_from(text.as_bytes(), "ratings", &format, Some(catalogue)).unwrap()
}

fn fractions() -> SplitFractions {
    SplitFractions::new(0.5, 0.2, 0.3).unwrap()
}

/// Records by id, so that tables of different files can be compared.
fn records(ratings: &Ratings, table: &Private<Interactions>) -> Vec<(String, String)> {
    let ids = ratings.user_ids().expose();
    let items = ratings.catalogue().ids();
    let mut all = Vec::new();
    for (user, row) in table.expose().users().enumerate() {
        for &item in row.items() {
            all.push((ids[user].clone(), items[item as usize].clone()));
        }
    }
    all.sort();
    all
}

fn parts(split: &UserSplit) -> [&Private<Interactions>; 5] {
    let (valid, test) = (&split.valid, &split.test);
    [
        &split.train,
        &valid.history,
        &valid.targets,
        &test.history,
        &test.targets,
    ]
}

#[test]
fn every_record_is_in_one_part_and_every_user_on_one_side() {
    let ratings = read(&file(0..1000));
    let split = UserSplit::new(&ratings, fractions(), 0.8, 3).unwrap();
    let sizes = parts(&split).map(|part| part.expose().n_records());
    assert_eq!(sizes.iter().sum::<usize>(), 20_000);
    let mut users = [0; 3];
    for user in 0..1000 {
        let [train, vh, vt, th, tt] = parts(&split).map(|part| part.expose().user(user).len());
        let sides = [train > 0, vh + vt > 0, th + tt > 0];
        assert_eq!(sides.iter().filter(|&&side| side).count(), 1);
        for (n, side) in users.iter_mut().zip(sides) {
            *n += usize::from(side);
        }
    }
    // a fixed seed: shares within five binomial deviations (16, 13 and 15 users)
    assert!(users[0].abs_diff(500) < 80 && users[1].abs_diff(200) < 64);
    assert!(users[2].abs_diff(300) < 73);
    let history = sizes[1] + sizes[3];
    let share = history as f64 / (history + sizes[2] + sizes[4]) as f64;
    assert!((share - 0.8).abs() < 0.02, "history share {share}");
}

#[test]
fn a_user_less_or_another_order_moves_nobody_else() {
    let all = read(&file(0..200));
    let fewer = read(&file((0..200).rev().filter(|&user| user != 17)));
    let of_all = UserSplit::new(&all, fractions(), 0.8, 3).unwrap();
    let of_fewer = UserSplit::new(&fewer, fractions(), 0.8, 3).unwrap();
    for (a, b) in parts(&of_all).into_iter().zip(parts(&of_fewer)) {
        let mut expected = records(&all, a);
        expected.retain(|(user, _)| user != "u17");
        assert_eq!(expected, records(&fewer, b));
    }
    let other_seed = UserSplit::new(&all, fractions(), 0.8, 4).unwrap();
    assert_ne!(
        records(&all, &of_all.train),
        records(&all, &other_seed.train)
    );
}

#[test]
fn a_history_share_out_of_range_is_refused() {
    let ratings = read(&file(0..3));
    for share in [0.0, 1.0, f64::NAN] {
        let split = UserSplit::new(&ratings, fractions(), share, 0);
        assert!(matches!(split, Err(dp_data::Error::Param(_))));
    }
}

#[test]
fn the_threshold_keeps_users_and_items_and_forgets_values() {
    let ratings = read(&file(0..50));
    let liked = ratings.to_implicit(4.0).unwrap();
    let (before, after) = (
        ratings.interactions().expose(),
        liked.interactions().expose(),
    );
    assert_eq!((after.n_users(), after.n_items()), (50, before.n_items()));
    for (row, kept) in before.users().zip(after.users()) {
        let high = row.iter().filter(|&(_, value)| value >= 4.0);
        assert!(high.map(|(item, _)| item).eq(kept.items().iter().copied()));
        assert!(
            kept.values()
                .iter()
                .all(|&value| value.to_bits() == 1.0_f32.to_bits())
        );
    }
    assert!(matches!(
        ratings.to_implicit(f64::NAN),
        Err(dp_data::Error::Param(_))
    ));
}
