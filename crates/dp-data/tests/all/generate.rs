//! Generated ratings have the documented size and tails.

use dp_data::{
    CatalogueSource, Error, LongTailRatings, Ratings, RatingsFormat, read_ratings, write_csv,
};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn made(params: LongTailRatings, seed: u64) -> Ratings {
    params
        .generate(&mut ChaCha8Rng::seed_from_u64(seed))
        .unwrap()
}

/// Sorted numbers of ratings per user and per item.
fn counts(ratings: &Ratings) -> (Vec<usize>, Vec<usize>) {
    let table = ratings.interactions().expose();
    let mut per_user: Vec<_> = table.users().map(|row| row.len()).collect();
    let mut per_item = vec![0; table.n_items()];
    for row in table.users() {
        for &item in row.items() {
            per_item[item as usize] += 1;
        }
    }
    per_user.sort_unstable();
    per_item.sort_unstable();
    (per_user, per_item)
}

/// Counts of MovieLens-1M at given ranks, and how far the generated ones may differ.
#[test]
fn the_1m_preset_has_the_tails_of_movielens_1m() {
    let ratings = made(LongTailRatings::movielens_1m(), 1);
    let (per_user, per_item) = counts(&ratings);
    assert_eq!((per_user.len(), per_item.len()), (6_040, 3_706));
    assert_eq!(per_user.iter().sum::<usize>(), 1_000_209);
    assert_eq!(ratings.catalogue_source(), CatalogueSource::Declared);
    assert_eq!(ratings.summary().expose().dropped.repeated, 0);
    assert!(per_user[0] >= 20);
    let near = |sorted: &[usize], rank: f64, real: f64, factor: f64| {
        let made = quantile(sorted, rank);
        assert!(
            made / real < factor && real / made < factor,
            "{rank}: {made} for {real}"
        );
    };
    for (rank, real) in [
        (0.1, 27.0),
        (0.25, 44.0),
        (0.5, 96.0),
        (0.75, 208.0),
        (0.9, 400.0),
        (0.99, 907.0),
    ] {
        near(&per_user, rank, real, 1.3);
    }
    for (rank, real) in [
        (0.1, 7.0),
        (0.25, 33.0),
        (0.5, 123.0),
        (0.75, 350.0),
        (0.9, 730.0),
        (0.99, 1785.0),
    ] {
        near(&per_item, rank, real, 1.6);
    }
    near(&per_item, 1.0, 3428.0, 1.6);
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank from 0 to 1"
)]
fn quantile(sorted: &[usize], rank: f64) -> f64 {
    sorted[(rank * (sorted.len() - 1) as f64).round() as usize] as f64
}

/// MovieLens-1M: constant 1.117, user mean 1.028, item mean .975 (means of the same records).
#[test]
fn the_1m_preset_is_as_predictable_from_means_as_movielens_1m() {
    let ratings = made(LongTailRatings::movielens_1m(), 2);
    let table = ratings.interactions().expose();
    let triples: Vec<(usize, usize, f64)> = (0..)
        .zip(table.users())
        .flat_map(|(u, row)| row.iter().map(move |(i, v)| (u, i as usize, f64::from(v))))
        .collect();
    assert!(
        triples
            .iter()
            .all(|t| [1.0, 2.0, 3.0, 4.0, 5.0].contains(&t.2))
    );
    let rmse_of_means = |group: &dyn Fn(&(usize, usize, f64)) -> usize, n: usize| {
        let (mut sums, mut counts) = (vec![0.0; n], vec![0.0; n]);
        for triple in &triples {
            sums[group(triple)] += triple.2;
            counts[group(triple)] += 1.0;
        }
        dp_data::rmse(
            triples
                .iter()
                .map(|t| (sums[group(t)] / counts[group(t)], t.2)),
        )
        .unwrap()
    };
    for (rmse, real) in [
        (rmse_of_means(&|_| 0, 1), 1.117),
        (rmse_of_means(&|t| t.0, table.n_users()), 1.028),
        (rmse_of_means(&|t| t.1, table.n_items()), 0.975),
    ] {
        assert!((rmse - real).abs() < 0.03, "{rmse} for {real}");
    }
}

#[test]
fn a_seed_fixes_the_table_and_one_generator_gives_many() {
    let params = LongTailRatings::new(60, 120, 2_500);
    let table = |ratings: &Ratings| ratings.interactions().expose().clone();
    assert!(table(&made(params, 3)) == table(&made(params, 3)));
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let first = params.generate(&mut rng).unwrap();
    let second = params.generate(&mut rng).unwrap();
    assert!(table(&first) != table(&second));
}

#[test]
fn extreme_sizes_work() {
    let least = made(LongTailRatings::new(7, 60, 7 * 20), 4);
    assert!(counts(&least).0.iter().all(|&n| n == 20));
    let dense = made(LongTailRatings::new(30, 100, 30 * 90), 5);
    assert_eq!(counts(&dense).0.iter().sum::<usize>(), 2_700);
    let flat = LongTailRatings::new(50, 100, 50 * 30)
        .with_spreads(0.0, 0.0)
        .with_shares(0.0, 0.0, 0.0)
        .with_rank(1);
    assert!(counts(&made(flat, 6)).0.iter().all(|&n| n == 30));
    let steep = LongTailRatings::new(50, 100, 50 * 30).with_spreads(5.0, 5.0);
    assert_eq!(counts(&made(steep, 7)).0.iter().sum::<usize>(), 1_500);
    let single = made(LongTailRatings::new(1, 10, 3).with_min_per_user(1), 8);
    assert_eq!(single.interactions().expose().n_records(), 3);
}

#[test]
fn parameters_are_checked_before_anything_is_drawn() {
    /// A generator that must not be used.
    struct Untouched;
    impl rand::TryRng for Untouched {
        type Error = std::convert::Infallible;
        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            panic!("drew a number")
        }
        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            panic!("drew a number")
        }
        fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Self::Error> {
            panic!("drew a number")
        }
    }
    let good = LongTailRatings::new(10, 100, 300);
    for bad in [
        LongTailRatings::new(0, 100, 0),
        LongTailRatings::new(10, 0, 300),
        LongTailRatings::new(10, 100, 199),
        LongTailRatings::new(10, 100, 901),
        good.with_min_per_user(0),
        good.with_rank(0),
        good.with_rank(1001),
        good.with_shares(0.5, 0.3, 0.2),
        good.with_shares(-0.1, 0.3, 0.2),
        good.with_shares(0.1, f64::NAN, 0.2),
        good.with_spreads(-0.1, 1.0),
        good.with_spreads(1.0, 5.1),
        good.with_spreads(f64::NAN, 1.0),
    ] {
        let error = bad.generate(&mut Untouched).err();
        assert!(matches!(error, Some(Error::Param(_))), "{bad:?}");
    }
}

#[test]
fn written_ratings_read_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let ratings = made(LongTailRatings::new(40, 90, 1_500), 9);
    for name in ["r.csv", "r.csv.gz"] {
        let path = folder.path().join(name);
        std::fs::write(&path, "old").unwrap();
        write_csv(&path, &ratings).unwrap();
        let catalogue = ratings.catalogue().clone();
        let back =
            dp_data::read_ratings_with_catalogue(&path, &RatingsFormat::default(), catalogue)
                .unwrap();
        assert!(back.interactions().expose() == ratings.interactions().expose());
        assert_eq!(back.user_ids().expose(), ratings.user_ids().expose());
    }
    let starts = |name: &str| std::fs::read(folder.path().join(name)).unwrap()[..2].to_vec();
    assert_eq!(starts("r.csv"), b"us");
    assert_eq!(starts("r.csv.gz"), [0x1f, 0x8b]);
    let n_files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(n_files, 2, "no partial file stays");
}

#[test]
fn ids_that_need_quotes_survive() {
    let text = "user\titem\trating\na,b\t\"x\"\t3\nc\ty,\t0.5\n";
    let format = RatingsFormat::default();
    let ratings = dp_data::read_ratings_from(text.as_bytes(), "made", &format, None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.csv");
    write_csv(&path, &ratings).unwrap();
    let back = read_ratings(&path, &format).unwrap();
    assert_eq!(back.user_ids().expose(), &["a,b", "c"]);
    assert_eq!(back.catalogue(), ratings.catalogue());
    assert!(back.interactions().expose() == ratings.interactions().expose());
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let ratings = made(LongTailRatings::new(5, 60, 100), 10);
    let taken = folder.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    let missing = folder.path().join("none").join("r.csv");
    for path in [&taken, &missing] {
        let error = write_csv(path, &ratings).unwrap_err();
        assert!(matches!(error, Error::Write { .. }));
        assert!(error.to_string().ends_with("cannot be written"));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
