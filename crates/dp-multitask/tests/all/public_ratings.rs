//! Item biases and taste factors of public ratings, against the numbers they were generated from.

use chacha20::ChaCha20Rng;
use dp_core::{Interactions, InteractionsBuilder};
use dp_multitask::{PublicFeatures, PublicRatings};
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;

const N_ITEMS: usize = 300;
/// Items from here on have no ratings.
const N_RATED: usize = 250;
const N_USERS: u32 = 400;

/// Ratings of 400 users, 20 each, with noise of standard deviation .5. An item's bias is .6 with an
/// even feature of the first source and -.6 with an odd one, plus its own part of standard deviation
/// .3; its taste factor follows from the first source too. The second source is unrelated.
struct World {
    first: Vec<u32>,
    biases: Vec<f64>,
    tastes: Vec<f64>,
    ratings: Interactions,
    features: PublicFeatures,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let first: Vec<u32> = (0..N_ITEMS).map(|_| rng.random_range(0..8)).collect();
        let second: Vec<u32> = (0..N_ITEMS).map(|_| rng.random_range(8..38)).collect();
        let biases: Vec<f64> = (first.iter())
            .map(|f| [0.6, -0.6][*f as usize % 2] + 0.3 * normal(&mut rng))
            .collect();
        let tastes: Vec<f64> = (first.iter())
            .map(|f| [0.7, -0.7][*f as usize / 4] + 0.2 * normal(&mut rng))
            .collect();
        let both = first.iter().zip(&second);
        let rows = both.map(|(a, b)| vec![(*a, 1.0), (*b, 1.0)]).collect();
        Self {
            ratings: ratings_of(&mut rng, &biases, &tastes),
            features: PublicFeatures::new(rows, vec![8, 30]).unwrap(),
            first,
            biases,
            tastes,
        }
    }
}

fn normal(rng: &mut ChaCha20Rng) -> f64 {
    rng.sample(StandardNormal)
}

/// 20 ratings of each user, of rated items.
fn ratings_of(rng: &mut ChaCha20Rng, biases: &[f64], tastes: &[f64]) -> Interactions {
    let mut builder = InteractionsBuilder::new(N_ITEMS);
    for user in 0..N_USERS {
        let (offset, liking) = (0.4 * normal(rng), normal(rng));
        for _ in 0..20 {
            let item = rng.random_range(0..N_RATED);
            let rating = 3.0 + offset + biases[item] + liking * tastes[item];
            let rating = (rating + 0.5 * normal(rng)) as f32;
            let item = u32::try_from(item).unwrap();
            builder.push(user, item, rating).unwrap();
        }
    }
    builder.build().0
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

fn correlation(x: &[f64], y: &[f64]) -> f64 {
    let (a, b) = (mean(x), mean(y));
    let products = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| f(x - a, y - b)).sum()
    };
    products(&|x, y| x * y) / (products(&|x, _| x * x) * products(&|_, y| y * y)).sqrt()
}

#[test]
fn biases_and_tastes_of_rated_items_are_found_and_those_of_others_follow_from_features() {
    let world = World::new(1);
    let fit = PublicRatings { n_tastes: 1 };
    let found = fit.fit(&world.ratings, &world.features).unwrap();
    let column = |k: usize| -> Vec<f64> { found.rows.iter().skip(k).step_by(2).copied().collect() };
    let (biases, tastes) = (column(0), column(1));
    let of = |x: &[f64], y: &[f64]| correlation(x, y).abs();
    // 32 ratings an item, noise .5: the error of a bias is about .1 of a standard deviation of .67
    assert!(of(&biases[..N_RATED], &world.biases[..N_RATED]) > 0.97);
    assert!(of(&tastes[..N_RATED], &world.tastes[..N_RATED]) > 0.97);
    // features explain .8 of the variance of biases and .92 of that of tastes
    assert!(of(&biases[N_RATED..], &world.biases[N_RATED..]) > 0.8);
    assert!(of(&tastes[N_RATED..], &world.tastes[N_RATED..]) > 0.9);

    let without = fit.fit(&world.ratings, &PublicFeatures::default()).unwrap();
    let unknown: Vec<f64> = without.rows[2 * N_RATED..].to_vec();
    assert!(unknown.chunks(2).all(|row| row == &unknown[..2]));
}

#[test]
fn features_that_say_nothing_get_no_weight() {
    let world = World::new(2);
    let fit = PublicRatings { n_tastes: 0 };
    let found = fit.fit(&world.ratings, &world.features).unwrap();
    // items without ratings and with the same feature of the first source differ by the second
    // alone: without shrinkage by about .3 / sqrt(8) = .1
    let mut by_feature = [const { Vec::new() }; 8];
    for item in N_RATED..N_ITEMS {
        by_feature[world.first[item] as usize].push(found.rows[item]);
    }
    let own = by_feature.iter().filter(|own| !own.is_empty());
    let rests = own.flat_map(|own| own.iter().map(|x| x - mean(own)));
    let squares: Vec<f64> = rests.map(|x| x * x).collect();
    assert!(mean(&squares).sqrt() < 0.02, "{}", mean(&squares).sqrt());
}

/// Shares of rated and other items whose bias is within two standard errors, over data sets with
/// these seeds.
fn coverage(seeds: std::ops::Range<u64>, world: impl Fn(u64) -> World) -> [f64; 2] {
    let (mut of_rated, mut of_others) = (Vec::new(), Vec::new());
    for seed in seeds {
        let world = world(seed);
        let fit = PublicRatings { n_tastes: 1 };
        let found = fit.fit(&world.ratings, &world.features).unwrap();
        let errors: Vec<f64> = (found.rows.chunks_exact(2).zip(&world.biases))
            .map(|(row, truth)| row[0] - truth)
            .collect();
        let center = mean(&errors[..N_RATED]); // the zero of biases is that of the ratings' mean
        for (item, error) in errors.iter().enumerate() {
            let within = (error - center).abs() < 2.0 * found.standard_errors[item];
            let all = match item < N_RATED {
                true => &mut of_rated,
                false => &mut of_others,
            };
            all.push(f64::from(u8::from(within)));
        }
    }
    [mean(&of_rated), mean(&of_others)]
}

/// Intervals of two standard errors cover .954 of normal errors. With 1,000 rated and 200 other
/// items in 4 data sets, the shares have standard errors of .007 and .015 if errors are
/// independent. Limits are more than 5 of these below: false alarms below 1e-6 for an exact
/// posterior.
#[test]
fn standard_errors_are_those_of_the_biases() {
    let [rated, others] = coverage(10..14, World::new);
    assert!((0.91..0.99).contains(&rated), "{rated}");
    assert!(others > 0.87, "{others}");
}

/// The same where items have 5 of 250 names each, so that names explain as much as items' own parts
/// and each is known from few items.
#[test]
fn standard_errors_hold_with_as_many_names_as_items() {
    let world = |seed: u64| {
        let mut world = World::new(seed);
        let mut rng = ChaCha20Rng::seed_from_u64(1000 + seed);
        let names: Vec<f64> = (0..250).map(|_| 0.2 * normal(&mut rng)).collect();
        let rows: Vec<Vec<(u32, f64)>> = (0..N_ITEMS)
            .map(|_| (0..5).map(|_| (rng.random_range(0..250), 1.0)).collect())
            .collect();
        for (bias, row) in world.biases.iter_mut().zip(&rows) {
            let of_names: f64 = row.iter().map(|(name, _)| names[*name as usize]).sum();
            *bias = of_names + 0.3 * normal(&mut rng);
        }
        world.ratings = ratings_of(&mut rng, &world.biases, &world.tastes);
        world.features = PublicFeatures::new(rows, vec![250]).unwrap();
        world
    };
    let [rated, others] = coverage(20..24, world);
    assert!((0.91..0.99).contains(&rated), "{rated}");
    assert!(others > 0.87, "{others}");
}

#[test]
fn few_and_equal_ratings_and_rare_features_are_fitted() {
    for values in [vec![3.0], vec![4.0; 6], vec![1.0, 5.0, 1.0, 5.0, 1.0, 5.0]] {
        let mut builder = InteractionsBuilder::new(5);
        for (at, value) in (0..).zip(&values) {
            builder.push(at / 3, at % 3, *value).unwrap();
        }
        let rows = (0..5).map(|item| vec![(item, 1.0), (5, 2.0)]).collect();
        let features = PublicFeatures::new(rows, vec![5, 1]).unwrap();
        let found = PublicRatings { n_tastes: 3 }
            .fit(&builder.build().0, &features)
            .unwrap();
        assert_eq!((found.rows.len(), found.standard_errors.len()), (20, 5));
        let all = found.rows.iter().chain(&found.standard_errors);
        assert!(
            all.clone().all(|x| x.is_finite() && x.abs() < 10.0),
            "{found:?}"
        );
    }
}

#[test]
fn wrong_sizes_are_refused() {
    let world = World::new(3);
    let fit = PublicRatings { n_tastes: 65 };
    assert!(fit.fit(&world.ratings, &world.features).is_err());
    let one = PublicFeatures::new(vec![vec![(0, 1.0)]], vec![1]).unwrap();
    assert!(PublicRatings::default().fit(&world.ratings, &one).is_err());
    assert!(PublicFeatures::new(vec![vec![(1, 1.0)]], vec![1]).is_err());
    assert!(PublicFeatures::new(vec![vec![(0, f64::NAN)]], vec![1]).is_err());
    assert!(PublicFeatures::new(vec![vec![(0, 1.0)]], vec![]).is_err());
    let twice = PublicFeatures::new(vec![vec![(1, 1.0), (0, 1.0), (1, 2.0)]], vec![2]).unwrap();
    let once = PublicFeatures::new(vec![vec![(0, 1.0), (1, 3.0)]], vec![2]).unwrap();
    assert_eq!(twice, once);
    let nobody = InteractionsBuilder::new(3).build().0;
    assert!(
        PublicRatings::default()
            .fit(&nobody, &PublicFeatures::default())
            .is_err()
    );
}
