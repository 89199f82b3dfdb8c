//! Fits approach the true parameters, with examples that lack features and with every kind of
//! encoder.

use dp_core::{ApproxDp, Interactions, Private};
use dp_data::{GeneratedLabels, PublicFeatureData, PublicFeatureTask};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    ConvexSspParams, Descent, DpSgdParams, EncoderDescent, Error, FeatureKernel, KernelRidge,
    LinearEncoder, Logistic, Optimiser, ProblemSetup, PublicEncoder, ResidualSspParams, RidgeNoise,
    SampledSspParams, SspParams, StatisticsLearner, Trainer, TwoLayerEncoder, ValueDescent,
    ValueDescentParams,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::support::{ADD_REMOVE, made, pay};

const SMALL: PublicFeatureTask = PublicFeatureTask {
    n_users: 1500,
    n_items: 60,
    items_per_user: 15,
    n_features: 40,
    features_per_item: 5,
    dim: 4,
    labels: GeneratedLabels::Values { noise: 0.1 },
};

fn target() -> ApproxDp {
    ApproxDp::target(8.0, 1e-5).unwrap()
}

fn setup() -> ProblemSetup {
    ProblemSetup {
        label_norm: 0.6,
        ..ProblemSetup::new(4, 2.0)
    }
}

fn ridge(kernel: &FeatureKernel) -> KernelRidge {
    let noise = RidgeNoise::FromRelease { item_norm: 1.0 };
    KernelRidge::new(kernel.clone(), 4, noise, 0.0).unwrap()
}

/// The model of a run with seeded noise.
fn learnt<T>(trainer: &T, data: &PublicFeatureData, noise: &mut NoiseSource) -> T::Model
where
    T: Trainer<Data = Private<Interactions>, Error = Error>,
{
    let width = trainer.width(&data.examples);
    let plan = trainer.plan(width, target(), ADD_REMOVE).unwrap();
    let fitted = trainer.fit(&data.examples, &plan, pay(&plan), noise);
    fitted.unwrap().model
}

/// Ratio of the remaining risk after such a run of a learner to the risk without any vectors.
fn left_by<T>(trainer: &T, data: &PublicFeatureData, noise: &mut NoiseSource) -> f64
where
    T: Trainer<Data = Private<Interactions>, Error = Error>,
    T::Model: StatisticsLearner,
{
    share(data, &learnt(trainer, data, noise).item_vectors().unwrap())
}

/// The same with SSP-c.
fn left(data: &PublicFeatureData, learner: impl StatisticsLearner + Clone) -> f64 {
    let ssp = SspParams::new(setup()).check().unwrap();
    let noise = &mut NoiseSource::insecure_seeded(1);
    left_by(&ssp.with(learner), data, noise)
}

fn share(data: &PublicFeatureData, vectors: &[f64]) -> f64 {
    data.excess_risk(vectors) / data.excess_risk(&vec![0.0; vectors.len()])
}

#[test]
fn statistics_teach_every_learner() {
    let (data, kernel, features) = made(SMALL, 1);
    let rng = &mut ChaCha20Rng::seed_from_u64(1);
    assert!(left(&data, ridge(&kernel)) < 0.15);
    let descent = ValueDescent::new(kernel, 4, ValueDescentParams::new(60)).unwrap();
    assert!(left(&data, descent) < 0.2);
    let encoder = LinearEncoder::zeros(features.clone(), 4).unwrap();
    let mut batches = Descent::new(300, Optimiser::Adagrad { rate: 0.1 });
    batches.item_batch = Some(20);
    let descent = EncoderDescent::new(encoder, batches, rng.clone());
    assert!(left(&data, descent.unwrap()) < 0.2);
    let encoder = TwoLayerEncoder::random(features, 4, rng).unwrap();
    let adam = Descent::new(150, Optimiser::Adam { rate: 0.02 });
    let descent = EncoderDescent::new(encoder, adam, rng.clone());
    assert!(left(&data, descent.unwrap()) < 0.2);
}

#[test]
fn residual_steps_come_nearer_than_statistics() {
    let (data, kernel, _) = made(SMALL, 2);
    let residual = ResidualSspParams::new(setup(), 4, 0.6, 0.12);
    let residual = residual.check().unwrap();
    let noise = &mut NoiseSource::insecure_seeded(2);
    let refined = left_by(&residual.with(ridge(&kernel)), &data, noise);
    let bound = (0.5 * left(&data, ridge(&kernel))).min(0.03);
    assert!(refined < bound, "{refined}");
}

#[test]
fn samples_and_gradients_learn_too() {
    let (data, kernel, features) = made(SMALL, 3);
    let sampled = SampledSspParams {
        setup: setup(),
        matrix_share: 0.3,
        n_steps: 6,
        sampling_probability: 0.3,
    };
    let sampled = sampled.check().unwrap();
    let noise = &mut NoiseSource::insecure_seeded(3);
    let descent = ValueDescent::new(kernel, 4, ValueDescentParams::new(3)).unwrap();
    let of_samples = left_by(&sampled.with(descent), &data, noise);
    assert!(of_samples < 0.7, "{of_samples}");

    let sgd = DpSgdParams {
        setup: setup(),
        n_steps: 40,
        sampling_probability: 0.3,
        gradient_norm: 0.3,
        optimiser: Optimiser::Momentum {
            rate: 2e-3,
            decay: 0.8,
        },
    };
    let sgd = sgd.check().unwrap();
    let encoder = LinearEncoder::zeros(features, 4).unwrap();
    let encoder = learnt(&sgd.with(encoder), &data, noise);
    let mut vectors = vec![0.0; 60 * 4];
    encoder
        .forward(&(0..60).collect::<Vec<_>>(), &mut vectors)
        .unwrap();
    let of_gradients = share(&data, &vectors);
    assert!(of_gradients < 0.3, "{of_gradients}");
}

#[test]
fn quadratic_steps_reduce_the_logistic_loss() {
    let labels = GeneratedLabels::Signs { scale: 8.0 };
    let (data, kernel, _) = made(PublicFeatureTask { labels, ..SMALL }, 4);
    let noise = &mut NoiseSource::insecure_seeded(4);
    let risk = |n_steps| {
        let mut params = ConvexSspParams::new(ProblemSetup::new(4, 1.0), n_steps);
        params.slope_norm = 0.5;
        let convex = params.check().unwrap();
        let prior = RidgeNoise::FromRelease { item_norm: 6.0 };
        let learner = KernelRidge::new(kernel.clone(), 4, prior, 0.0).unwrap();
        left_by(&convex.with(Logistic, learner), &data, noise)
    };
    let mut risk = risk;
    let (one, three) = (risk(1), risk(3));
    assert!(one < 0.4 && three < one, "{one} {three}");
}
