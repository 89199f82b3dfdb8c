//! Item biases and taste factors of public ratings, against the numbers they were generated from.

use dp_core::{Interactions, InteractionsBuilder};
use dp_multitask::{PublicFeatures, PublicRatings};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rand_distr::StandardNormal;

const N_ITEMS: usize = 300;
/// Items from here on have no ratings.
const N_RATED: usize = 250;
const N_USERS: u32 = 400;

/// Ratings of 400 users, 20 each, with noise of standard deviation .5. An item's bias is .6 with an
/// even feature of the first source and -.6 with an odd one, plus its own part of standard deviation
/// .3; its taste factor follows from the first source too. The second source is unrelated.
struct World {
    biases: Vec<f64>,
    tastes: Vec<f64>,
    ratings: Interactions,
    features: PublicFeatures,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let normal = |rng: &mut ChaCha20Rng| -> f64 { rng.sample(StandardNormal) };
        let first: Vec<u32> = (0..N_ITEMS).map(|_| rng.random_range(0..8)).collect();
        let second: Vec<u32> = (0..N_ITEMS).map(|_| rng.random_range(8..38)).collect();
        let biases: Vec<f64> = (first.iter())
            .map(|f| [0.6, -0.6][*f as usize % 2] + 0.3 * normal(&mut rng))
            .collect();
        let tastes: Vec<f64> = (first.iter())
            .map(|f| [0.7, -0.7][*f as usize / 4] + 0.2 * normal(&mut rng))
            .collect();
        let mut builder = InteractionsBuilder::new(N_ITEMS);
        for user in 0..N_USERS {
            let (offset, liking) = (0.4 * normal(&mut rng), normal(&mut rng));
            for _ in 0..20 {
                let item = rng.random_range(0..N_RATED);
                let rating = 3.0 + offset + biases[item] + liking * tastes[item];
                let rating = (rating + 0.5 * normal(&mut rng)) as f32;
                builder
                    .push(user, u32::try_from(item).unwrap(), rating)
                    .unwrap();
            }
        }
        let rows = first
            .iter()
            .zip(&second)
            .map(|(a, b)| vec![(*a, 1.0), (*b, 1.0)]);
        Self {
            features: PublicFeatures::new(rows.collect(), vec![8, 30]).unwrap(),
            ratings: builder.build().0,
            biases,
            tastes,
        }
    }
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
    let fit = PublicRatings { n_tastes: 1 };
    let found = fit.fit(&world.ratings, &world.features).unwrap();
    // unrated items with the same feature of the first source differ by the second alone
    let rows = found.rows.chunks_exact(2).skip(N_RATED);
    let mut biases: Vec<f64> = rows.map(|row| row[0] - mean(&found.rows)).collect();
    biases.sort_by(f64::total_cmp);
    let high: Vec<f64> = biases.iter().copied().filter(|b| *b > 0.0).collect();
    let spread =
        (high.iter().map(|b| (b - mean(&high)).powi(2)).sum::<f64>() / high.len() as f64).sqrt();
    // the four even features differ by sampling of their items' own parts: .3 / sqrt(31) = .05
    assert!(spread < 0.1, "{spread}");
}

/// Posterior standard deviations are right on average: 4 data sets, 1,000 rated and 200 other
/// items. Intervals of two of them cover .954 of normal errors; with 1,000 of them the share has a
/// standard error of .007, and errors of items in one data set share those of the offsets and
/// weights. The limits are 6 standard errors off or more: false alarms below 1e-6 if the posterior
/// is exact.
#[test]
fn standard_errors_are_those_of_the_biases() {
    let (mut of_rated, mut of_others) = (Vec::new(), Vec::new());
    for seed in 10..14 {
        let world = World::new(seed);
        let found = PublicRatings { n_tastes: 1 }
            .fit(&world.ratings, &world.features)
            .unwrap();
        let errors: Vec<f64> = (found.rows.chunks_exact(2).zip(&world.biases))
            .map(|(row, truth)| row[0] - truth)
            .collect();
        let center = mean(&errors[..N_RATED]); // the zero of biases is that of the ratings' mean
        for (item, error) in errors.iter().enumerate() {
            let within = (error - center).abs() < 2.0 * found.standard_errors[item];
            let all = if item < N_RATED {
                &mut of_rated
            } else {
                &mut of_others
            };
            all.push(f64::from(u8::from(within)));
        }
        let largest = found.standard_errors[..N_RATED]
            .iter()
            .copied()
            .fold(0.0, f64::max);
        assert!(
            found.standard_errors[N_RATED..]
                .iter()
                .all(|e| *e > largest)
        );
    }
    let (rated, others) = (mean(&of_rated), mean(&of_others));
    assert!((0.9..0.99).contains(&rated), "{rated}");
    assert!((0.86..=1.0).contains(&others), "{others}");
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
    let nobody = InteractionsBuilder::new(3).build().0;
    assert!(
        PublicRatings::default()
            .fit(&nobody, &PublicFeatures::default())
            .is_err()
    );
}
