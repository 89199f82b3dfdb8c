//! The split treats every record by its own ids alone.

#![allow(clippy::unwrap_used, reason = "a test stops where a step fails")]

use dp_core::{Interactions, ParamError, Private};
use dp_data::{
    Error, ItemCatalogue, LongTailRatings, RatingSplit, Ratings, RatingsFormat, SplitFractions,
    read_ratings_from,
};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::collections::BTreeMap;

type Record = (String, String);

fn read(lines: &[String], catalogue: Option<ItemCatalogue>) -> Ratings {
    let text = format!("user,item,rating\n{}\n", lines.join("\n"));
    read_ratings_from(
        text.as_bytes(),
        "made",
        &RatingsFormat::default(),
        catalogue,
    )
    .unwrap()
}

/// Users 0..30 with 1..20 items each out of 25.
fn lines() -> Vec<String> {
    let pairs = (0..30_u32).flat_map(|u| (0..=u * 7 % 20).map(move |i| (u, (i * 3 + u) % 25)));
    pairs.map(|(u, i)| format!("u{u},i{i},{}", i % 5)).collect()
}

/// The part of every record, by ids.
fn parts(ratings: &Ratings, seed: u64) -> BTreeMap<Record, &'static str> {
    let split = ratings.split(SplitFractions::new(0.5, 0.25, 0.25).unwrap(), seed);
    let RatingSplit { train, valid, test } = split;
    let mut parts = BTreeMap::new();
    for (name, part) in [("train", train), ("valid", valid), ("test", test)] {
        let users = ratings.user_ids().expose();
        let table: &Interactions = part.expose();
        assert_eq!(table.n_users(), users.len());
        for (user, row) in users.iter().zip(table.users()) {
            for &item in row.items() {
                let id = ratings.catalogue().ids()[item as usize].clone();
                let before = parts.insert((user.clone(), id), name);
                assert_eq!(before, None, "a record is in one part only");
            }
        }
    }
    parts
}

#[test]
fn removing_any_user_leaves_the_others_where_they_were() {
    let all = parts(&read(&lines(), None), 5);
    for user in 0..30 {
        let own = format!("u{user},");
        let fewer: Vec<_> = lines()
            .into_iter()
            .filter(|l| !l.starts_with(&own))
            .collect();
        let mut others = all.clone();
        others.retain(|(u, _), _| *u != format!("u{user}"));
        assert_eq!(parts(&read(&fewer, None), 5), others);
    }
}

#[test]
fn order_of_the_file_and_size_of_the_catalogue_do_not_matter() {
    let all = parts(&read(&lines(), None), 5);
    let mut shuffled = lines();
    shuffled.reverse();
    shuffled.swap(3, 100);
    shuffled.rotate_left(57);
    assert_eq!(parts(&read(&shuffled, None), 5), all);
    let wide = ItemCatalogue::from_ids((0..400).map(|i| format!("i{i}")));
    assert_eq!(parts(&read(&lines(), Some(wide)), 5), all);
}

#[test]
fn parts_of_one_users_records_do_not_depend_on_the_others_of_that_user() {
    let all = parts(&read(&lines(), None), 5);
    let halved: Vec<_> = lines().into_iter().step_by(2).collect();
    let half = parts(&read(&halved, None), 5);
    assert!(half.iter().all(|(record, part)| all[record] == *part));
}

#[test]
fn seeds_give_different_splits() {
    let ratings = read(&lines(), None);
    assert_ne!(parts(&ratings, 1), parts(&ratings, 2));
}

#[test]
fn user_and_item_ids_do_not_run_into_each_other() {
    let lines: Vec<_> = (0..64)
        .flat_map(|i| [format!("u,1{i:02},3"), format!("u1,{i:02},3")])
        .collect();
    let parts = parts(&read(&lines, None), 3);
    let part = |user: &str, item: String| parts[&(user.to_owned(), item)];
    let equal = (0..64).filter(|i| part("u", format!("1{i:02}")) == part("u1", format!("{i:02}")));
    assert!(
        equal.count() < 48,
        "independent parts agree in 3 of 8 cases"
    );
}

#[test]
fn shares_are_as_asked() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let ratings = LongTailRatings::new(1_000, 500, 100_000)
        .generate(&mut rng)
        .unwrap();
    let n = |part: &Private<Interactions>| part.expose().n_records() as f64;
    for (valid, test) in [(0.1, 0.1), (0.3, 0.02), (0.0, 0.5), (0.2, 0.0)] {
        let fractions = SplitFractions::new(1.0 - valid - test, valid, test).unwrap();
        let split = ratings.split(fractions, 9);
        assert!((n(&split.train) + n(&split.valid) + n(&split.test) - 1e5).abs() < 0.5);
        for (part, share) in [(&split.valid, valid), (&split.test, test)] {
            // six standard deviations: false-alarm rate 2e-8 over the eight parts
            let tolerance = 6.0 * (1e5 * share * (1.0 - share)).sqrt();
            assert!((n(part) - 1e5 * share).abs() <= tolerance, "{share}");
        }
    }
    let whole = ratings.split(SplitFractions::new(1.0, 0.0, 0.0).unwrap(), 9);
    assert!((n(&whole.train) - 1e5).abs() < 0.5);
}

/// From an independent computation with Python's hashlib (seed 42, user "ann", fractions
/// .5/.25/.25): the rule is part of what a result depends on, so it must not drift.
#[test]
fn the_rule_is_the_documented_one() {
    let lines: Vec<_> = (0..16).map(|i| format!("ann,{i},1")).collect();
    let parts = parts(&read(&lines, None), 42);
    let letters: String = (0..16)
        .map(|i| match parts[&("ann".to_owned(), i.to_string())] {
            "train" => 'T',
            "valid" => 'v',
            _ => 't',
        })
        .collect();
    assert_eq!(letters, "vTTTtTttvTTTTTTt");
}

#[test]
fn fractions_are_checked() {
    assert!(SplitFractions::new(0.8, 0.1, 0.1).is_ok());
    assert!(SplitFractions::new(1.0, 0.0, 0.0).is_ok());
    for (train, valid, test) in [
        (0.0, 0.5, 0.5),
        (0.8, 0.1, 0.2),
        (0.7, 0.1, 0.1),
        (1.1, -0.1, 0.0),
        (1.1, 0.0, -0.1),
        (f64::NAN, 0.1, 0.1),
        (0.8, f64::NAN, 0.1),
        (0.8, 0.1, f64::NAN),
        (f64::INFINITY, 0.0, 0.0),
    ] {
        let error = SplitFractions::new(train, valid, test).unwrap_err();
        assert!(matches!(error, Error::Param(ParamError { .. })));
    }
}
