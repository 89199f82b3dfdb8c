//! The split depends on each record's own ids alone.

use std::collections::BTreeMap;

use dp_core::{Interactions, ParamError, Private};
use dp_data::{
    Error, ItemCatalogue, LongTailRatings, RatingSplit, Ratings, RatingsFormat, SplitFractions,
    UserSplit, read_ratings_from,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

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
    let split = ratings
        .split(SplitFractions::new(0.5, 0.25, 0.25).unwrap(), seed)
        .unwrap();
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
        let split = ratings.split(fractions, 9).unwrap();
        assert!((n(&split.train) + n(&split.valid) + n(&split.test) - 1e5).abs() < 0.5);
        for (part, share) in [(&split.valid, valid), (&split.test, test)] {
            // six standard deviations: false-alarm rate 2e-8 over the eight parts
            let tolerance = 6.0 * (1e5 * share * (1.0 - share)).sqrt();
            assert!((n(part) - 1e5 * share).abs() <= tolerance, "{share}");
        }
    }
    let whole = ratings
        .split(SplitFractions::new(1.0, 0.0, 0.0).unwrap(), 9)
        .unwrap();
    assert!((n(&whole.train) - 1e5).abs() < 0.5);
}

/// From an independent computation with Python's hashlib (seed 42, user "ann", fractions
/// .5/.25/.25): results depend on this rule, so it must not change.
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

fn read_whole(text: &str) -> Ratings {
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

fn five_parts(split: &UserSplit) -> [&Private<Interactions>; 5] {
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
    let ratings = read_whole(&file(0..1000));
    let split = UserSplit::new(&ratings, fractions(), 0.8, 3).unwrap();
    let sizes = five_parts(&split).map(|part| part.expose().n_records());
    assert_eq!(sizes.iter().sum::<usize>(), 20_000);
    let mut users = [0; 3];
    for user in 0..1000 {
        let [train, vh, vt, th, tt] = five_parts(&split).map(|part| part.expose().user(user).len());
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
    let all = read_whole(&file(0..200));
    let fewer = read_whole(&file((0..200).rev().filter(|&user| user != 17)));
    let of_all = UserSplit::new(&all, fractions(), 0.8, 3).unwrap();
    let of_fewer = UserSplit::new(&fewer, fractions(), 0.8, 3).unwrap();
    for (a, b) in five_parts(&of_all).into_iter().zip(five_parts(&of_fewer)) {
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
    let ratings = read_whole(&file(0..3));
    for share in [0.0, 1.0, f64::NAN] {
        let split = UserSplit::new(&ratings, fractions(), share, 0);
        assert!(matches!(split, Err(dp_data::Error::Param(_))));
    }
}

#[test]
fn the_threshold_keeps_users_and_items_and_forgets_values() {
    let ratings = read_whole(&file(0..50));
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
