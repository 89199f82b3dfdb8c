//! Whole runs of learning with public features: L3 on statistics, L2 on samples, L4 on neighbouring tables.
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers of items are small here"
)]

mod gradients;
mod neighbours;
mod rounds;
mod statistics;

use dp_audit::{AuditedPublicFeatures, Canaries, PublicFeatures};
use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private};
use dp_pubfeat::{
    AmSspParams, ConvexSspParams, Descent, EncoderDescent, ExampleWeights, FeatureKernel,
    ItemFeatures, ItemFeaturesBuilder, ItemNumbers, KernelRidge, LinearEncoder, Optimiser,
    ProblemSetup, PublicEncoder, ResidualSspParams, RidgeNoise, SspParams, UserStep, WeightRule,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

const DIM: usize = 3;
/// Items that ordinary users have.
const COMMON: usize = 12;
const N_ORDINARY: u32 = 24;
const N_CANARIES: usize = 30;
const ITEMS_EACH: usize = 4;
const N_ITEMS: usize = COMMON + N_CANARIES * ITEMS_EACH;
const DELTA: f64 = 1e-5;
/// What canaries say of their items: beyond every bound.
const FAR: f32 = 1e4;
/// A canary's vector, beyond its bound too.
const LONG: [f32; DIM] = [2.0, 0.0, 0.0];

/// Ordinary users, and some that have nothing, on `n_items` items.
fn ordinary(n_items: usize, n_idle: u32) -> Interactions {
    let mut out = InteractionsBuilder::new(n_items).with_feature_dim(DIM);
    for user in 0..N_ORDINARY + n_idle {
        let x = user as f32;
        let vector = [(0.7 * x).sin(), (1.3 * x).cos(), 0.4];
        out.set_features(user, &vector).unwrap();
        for i in 0..if user < N_ORDINARY { 3 + user % 3 } else { 0 } {
            let item = (user * 5 + i * (1 + user % 3)) % COMMON as u32;
            out.push(user, item, 1.0 + (x + i as f32).sin()).unwrap();
        }
    }
    out.build().0
}

fn canaries() -> Canaries {
    let base = Private::new(ordinary(COMMON, 0));
    let canaries = Canaries::new(base, N_CANARIES, ITEMS_EACH, FAR).unwrap();
    canaries.with_features(&LONG).unwrap()
}

/// Four genres of the common items; each other item has a feature of its own.
fn features() -> ItemFeatures {
    let mut features = ItemFeaturesBuilder::new(N_ITEMS, &[4, N_ITEMS - COMMON]).unwrap();
    for item in 0..N_ITEMS as u32 {
        let feature = match item.checked_sub(COMMON as u32) {
            None => item % 4,
            Some(own) => 4 + own,
        };
        features.push(item, feature, 1.0).unwrap();
    }
    features.build()
}

fn ridge(noise: RidgeNoise) -> KernelRidge {
    let kernel = FeatureKernel::new(&features(), 0.1).unwrap();
    KernelRidge::new(kernel, DIM, noise, 0.0).unwrap()
}

fn encoder_steps() -> EncoderDescent<LinearEncoder, ChaCha20Rng> {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut encoder = LinearEncoder::random(features().into(), DIM, &mut rng).unwrap();
    encoder.parameters_mut().iter_mut().for_each(|t| *t *= 10.0);
    let descent = Descent::new(20, Optimiser::Adam { rate: 0.03 });
    EncoderDescent::new(encoder, descent, rng).unwrap()
}

/// Labels far beyond what item vectors could explain, so that canaries stay at their bounds.
fn setup() -> ProblemSetup {
    ProblemSetup {
        label_norm: 0.7,
        ..ProblemSetup::new(DIM, 50.0)
    }
}

/// The same with weights that differ between items, those of a canary's own too.
fn weighted() -> ProblemSetup {
    let values = (0..N_ITEMS).map(|j| 1.0 + (j % 7) as f64).collect();
    let omega = ItemNumbers::Public { values };
    ProblemSetup {
        weights: ExampleWeights::given(omega, WeightRule::Normalise).unwrap(),
        ..setup()
    }
}

type OfRidge = AuditedPublicFeatures<fn() -> KernelRidge>;

fn known_noise() -> KernelRidge {
    ridge(RidgeNoise::FromRelease { item_norm: 1.0 })
}

/// Item vectors that stay near 0, where the logistic loss is curved most.
fn timid() -> KernelRidge {
    ridge(RidgeNoise::Given { ratio: 1e4 })
}

fn target(epsilon: f64) -> ApproxDp {
    ApproxDp::target(epsilon, DELTA).unwrap()
}

/// All fits on users' given vectors.
fn on_given_vectors(epsilon: f64, adjacency: Adjacency) -> Vec<(&'static str, OfRidge)> {
    let ssp = |setup, n_resamples| {
        let params = SspParams {
            n_resamples,
            ..SspParams::new(setup)
        };
        PublicFeatures::Ssp(params.check().unwrap())
    };
    let residual = ResidualSspParams::new(setup(), 3, 0.6, 0.2).check();
    let mut convex = ConvexSspParams::new(ProblemSetup::new(DIM, 1.0), 2);
    convex.slope_norm = 0.3;
    let known_noise: fn() -> KernelRidge = known_noise;
    let timid: fn() -> KernelRidge = timid;
    let made = vec![
        ("SSP-c", ssp(setup(), 1), known_noise),
        ("SSP-i, weights", ssp(weighted(), 3), known_noise),
        (
            "residual",
            PublicFeatures::Residual(residual.unwrap()),
            known_noise,
        ),
        (
            "logistic",
            PublicFeatures::Logistic(convex.check().unwrap()),
            timid,
        ),
    ];
    let audited = |(name, fit, learner)| {
        let made = AuditedPublicFeatures::new(fit, learner, target(epsilon), adjacency);
        (name, made.unwrap())
    };
    made.into_iter().map(audited).collect()
}

fn alternating(
    epsilon: f64,
    adjacency: Adjacency,
) -> AuditedPublicFeatures<fn() -> EncoderDescent<LinearEncoder, ChaCha20Rng>> {
    let params = AmSspParams {
        setup: ProblemSetup::new(DIM, 1.0),
        user_step: UserStep {
            label_center: 0.2,
            offset_shrinkage: None,
            l2_penalty: 0.05,
        },
        n_rounds: 2,
        matrix_share: 0.5,
    };
    let fit = PublicFeatures::AmSsp(params.check().unwrap());
    AuditedPublicFeatures::new(fit, encoder_steps as fn() -> _, target(epsilon), adjacency).unwrap()
}
