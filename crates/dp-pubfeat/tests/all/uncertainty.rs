//! Standard errors of item vectors: coverage where the truth is known.

use dp_core::{Interactions, InteractionsBuilder, Private};
use dp_data::{GeneratedLabels, PublicFeatureTask};
use dp_linalg::cholesky_in_place;
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    AmResidualSspParams, ApproxDp, FeaturePrior, ItemFeatures, ItemFeaturesBuilder, ItemKernel,
    ItemStatistics, KernelRidge, LevelStep, PriorVariances, ProblemSetup, RidgeNoise, SparseKernel,
    SspParams, StatisticsLearner, Trainer,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};

use crate::support::{ADD_REMOVE, made, pay};

/// Counts how many 95 % intervals contain the truth.
#[derive(Default)]
struct Coverage {
    n: f64,
    covered: f64,
}

impl Coverage {
    fn add(&mut self, found: &[f64], errors: &[f64], truth: &[f64]) {
        for ((v, e), t) in found.iter().zip(errors).zip(truth) {
            self.n += 1.0;
            self.covered += f64::from(u8::from((v - t).abs() <= 1.96 * e));
        }
    }

    fn share(&self) -> f64 {
        self.covered / self.n
    }
}

fn normals(rng: &mut ChaCha20Rng, n: usize) -> Vec<f64> {
    (0..n).map(|_| StandardNormal.sample(rng)).collect()
}

/// `n_items` items with two of six features each.
fn features_of(n_items: usize) -> ItemFeatures {
    let mut builder = ItemFeaturesBuilder::new(n_items, &[6]).unwrap();
    for item in 0..n_items as u32 {
        builder.push(item, item % 6, 1.0).unwrap();
        builder.push(item, (item + 1 + item % 4) % 6, 0.5).unwrap();
    }
    builder.build()
}

/// The upper factor of a kernel: `K = U^T U`.
fn factor(kernel: &SparseKernel) -> Vec<f64> {
    let n = kernel.n_items();
    let mut dense = vec![0.0; n * n];
    for item in 0..n {
        let mut unit = vec![0.0; n];
        unit[item] = 1.0;
        kernel.apply(1, &unit, &mut dense[item * n..][..n]);
    }
    cholesky_in_place(&mut dense, n).unwrap();
    dense
}

/// `sqrt(variance) U^T z`: rows drawn from `N(0, variance K)`, shape `(m, dim)`.
fn drawn(rng: &mut ChaCha20Rng, factor: &[f64], dim: usize, variance: f64) -> Vec<f64> {
    let n = factor.len().isqrt();
    let z = normals(rng, n * dim);
    let mut out = vec![0.0; n * dim];
    for (item, out) in out.chunks_exact_mut(dim).enumerate() {
        for k in 0..=item {
            for (o, z) in out.iter_mut().zip(&z[k * dim..][..dim]) {
                *o += variance.sqrt() * factor[k * n + item] * z;
            }
        }
    }
    out
}

#[test]
fn intervals_of_a_closed_form_cover_values_drawn_from_its_prior() {
    // 200 runs of 60 coordinates. If all coordinates of a run were covered together or not at all,
    // the share would have a standard deviation of .015, and a false alarm would occur once in six
    // tests; if 10 of a run were independent, .005, and once in 20000
    let (n_items, dim, variance, of_rhs, of_labels) = (30, 2, 0.4_f64, 2.0, 0.5);
    let kernel = SparseKernel::of_features(&features_of(n_items), 0.3).unwrap();
    let factor = factor(&kernel);
    let noise = RidgeNoise::FromRelease {
        item_norm: (variance * dim as f64).sqrt(),
    };
    let start = KernelRidge::new(kernel, dim, noise, of_labels / variance).unwrap();
    let mut coverage = Coverage::default();
    for seed in 0..200 {
        let rng = &mut ChaCha20Rng::seed_from_u64(seed);
        let truth = drawn(rng, &factor, dim, variance);
        let (mut matrices, mut rhs) = (Vec::new(), Vec::new());
        for (item, v) in truth.chunks_exact(dim).enumerate() {
            let (mut a, mut b) = ([0.0; 4], [0.0; 2]);
            // the first items have no records, the last have many
            for _ in 0..item / 3 {
                let u = normals(rng, dim);
                let label = u[0] * v[0] + u[1] * v[1] + of_labels.sqrt() * normals(rng, 1)[0];
                for k in 0..4 {
                    a[k] += u[k / 2] * u[k % 2];
                }
                (b[0], b[1]) = (b[0] + label * u[0], b[1] + label * u[1]);
            }
            a[2] = a[1];
            matrices.extend(a);
            rhs.extend(b.iter().zip(normals(rng, dim)).map(|(b, z)| b + of_rhs * z));
        }
        let statistics = ItemStatistics::new(dim, matrices, rhs, [0.0, of_rhs]).unwrap();
        let mut learner = start.clone();
        learner.learn(&statistics).unwrap();
        let errors = learner.standard_errors(&statistics).unwrap();
        coverage.add(&learner.item_vectors().unwrap(), &errors, &truth);
    }
    let share = coverage.share();
    assert!((share - 0.95).abs() < 0.02, "{share}");
}

#[test]
fn intervals_after_a_private_release_cover_the_vectors_behind_the_labels() {
    // 30 releases. All 480 coordinates of a release follow from 40 x 8 weights; if 40 of them were
    // independent, the share would have a standard deviation of .006: a false alarm once in a
    // million tests
    let mut coverage = Coverage::default();
    for seed in 0..30 {
        let set_up = PublicFeatureTask {
            n_users: 1500,
            n_items: 60,
            items_per_user: 15,
            n_features: 40,
            features_per_item: 5,
            dim: 8,
            labels: GeneratedLabels::Values { noise: 0.3 },
        };
        let (data, _, features) = made(set_up, seed);
        let mut setup = ProblemSetup::new(8, 5.0);
        setup.label_norm = 2.0;
        let ssp = SspParams::new(setup).check().unwrap();
        let target = ApproxDp::target(5.0, 1e-5).unwrap();
        let plan = ssp.plan(60, target, ADD_REMOVE).unwrap();
        let noise = &mut NoiseSource::insecure_seeded(seed);
        let released = ssp.fit(&data.examples, &plan, pay(&plan), noise).unwrap();
        let kernel = SparseKernel::of_features(&features, 0.0).unwrap();
        let of_noise = RidgeNoise::FromRelease { item_norm: 1.0 };
        // each example has the weight 1/sqrt(15)
        let l2_penalty = 0.3_f64.powi(2) / 15_f64.sqrt() * 8.0;
        let mut learner = KernelRidge::new(kernel, 8, of_noise, l2_penalty).unwrap();
        learner.learn(&released.model[0]).unwrap();
        let errors = learner.standard_errors(&released.model[0]).unwrap();
        coverage.add(
            &learner.item_vectors().unwrap(),
            &errors,
            &data.item_vectors,
        );
    }
    let share = coverage.share();
    assert!((share - 0.95).abs() < 0.03, "{share}");
}

/// Ratings of users with a level around 3, of items with these biases.
fn ratings(rng: &mut ChaCha20Rng, biases: &[f64], n_users: u32) -> Private<Interactions> {
    let mut out = InteractionsBuilder::new(biases.len());
    for user in 0..n_users {
        let level = 3.0 + 0.4 * normals(rng, 1)[0];
        for i in 0..15_u32 {
            // low numbers are rated often
            let item = (user * 31 + i * i) % biases.len() as u32;
            let item = item * (user % 7 + 1) / 7;
            let y = level + biases[item as usize] + 0.8 * normals(rng, 1)[0];
            let _ = out.push(user, item, y as f32);
        }
    }
    Private::new(out.build().0)
}

#[test]
fn intervals_of_residual_rounds_cover_the_biases_behind_the_ratings() {
    // 20 runs of 90 biases. Their common parts have been released from the same sums, so a run
    // counts as perhaps 20 independent ones: a standard deviation of .011, and 1 false alarm in
    // 3000 at .95 with a tolerance of .04; at .9 the deviation is .015 and the rate 1 in 130
    let n_items = 90;
    let features = features_of(n_items);
    let kernel = SparseKernel::of_features(&features, 0.3).unwrap();
    let factor = factor(&kernel);
    // at epsilon 1 the noise of the items' total weights, which are taken as known, costs 5 percent
    for (epsilon, expected) in [(1.0, 0.9), (10.0, 0.95)] {
        let mut coverage = Coverage::default();
        for seed in 0..20 {
            let rng = &mut ChaCha20Rng::seed_from_u64(seed);
            let truth = drawn(rng, &factor, 1, 0.15);
            let data = ratings(rng, &truth, 1500);
            let target = ApproxDp::target(epsilon, 1e-5).unwrap();
            let mut params = AmResidualSspParams::for_target(target);
            params.dim = 1;
            // users have about 12 different items, each with the weight 1/sqrt(12)
            params.label_variance = 0.64 / 12_f64.sqrt();
            params.user_step = LevelStep {
                label_center: 3.0,
                level_penalty: 4.0,
                l2_penalty: 1.0,
            };
            let fit = params.check().unwrap();
            let prior =
                FeaturePrior::new(&features, PriorVariances::for_features(&features)).unwrap();
            let plan = fit.plan(n_items, target, ADD_REMOVE).unwrap();
            let noise = &mut NoiseSource::insecure_seeded(seed);
            let model = fit.with(&prior).fit(&data, &plan, pay(&plan), noise);
            let model = model.unwrap().model;
            let errors = model.standard_errors().unwrap().unwrap();
            // users' levels absorb what all biases have in common
            let found = model.item_vectors();
            let above = found.iter().zip(&truth).map(|(f, t)| f - t);
            let shift = above.sum::<f64>() / n_items as f64;
            let found: Vec<f64> = found.iter().map(|f| f - shift).collect();
            coverage.add(&found, &errors.items, &truth);
        }
        let share = coverage.share();
        assert!(
            (share - expected).abs() < 0.04,
            "epsilon {epsilon}: {share}"
        );
    }
}
