//! Whole runs of learning with public features: L3 on statistics, L2 on samples, L4 on neighbouring tables.
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers of items are small here"
)]

mod gradients;
mod neighbours;
mod rounds;
mod statistics;

use dp_audit::{
    AuditedRun, AuditedTrainer, Canaries, Oracle, PublicFeatures, PublicFeaturesOracle, View,
};
use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private};
use dp_mechanism::{NoiseSource, Trainer};
use dp_pubfeat::{
    AmSspParams, ConvexSspParams, Descent, EncoderDescent, ExampleWeights, FeatureKernel,
    FeatureModel, ItemFeatures, ItemFeaturesBuilder, ItemNumbers, KernelRidge, LikesModel,
    LinearEncoder, Logistic, Optimiser, ProblemSetup, PublicEncoder, ResidualSspParams, RidgeNoise,
    SspParams, StatisticsLearner, UserStep, WeightRule,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

const DIM: usize = 3;
/// Number of items that ordinary users have.
const COMMON: usize = 12;
const N_ORDINARY: u32 = 24;
const N_CANARIES: usize = 30;
const ITEMS_EACH: usize = 4;
const N_ITEMS: usize = COMMON + N_CANARIES * ITEMS_EACH;
const DELTA: f64 = 1e-5;
/// The labels of canaries: beyond every bound.
const FAR: f32 = 1e4;
/// A canary's vector, also beyond its bound.
const LONG: [f32; DIM] = [2.0, 0.0, 0.0];

/// Ordinary users, and some without records, on `n_items` items.
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

/// Four genres of the common items; each other item has a separate feature.
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

type Steps = EncoderDescent<LinearEncoder, ChaCha20Rng>;

fn encoder_steps() -> Steps {
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

/// The same with weights that differ between items, including those of a canary.
fn weighted() -> ProblemSetup {
    let values = (0..N_ITEMS).map(|j| 1.0 + (j % 7) as f64).collect();
    let omega = ItemNumbers::Public { values };
    ProblemSetup {
        weights: ExampleWeights::given(omega, WeightRule::Normalise).unwrap(),
        ..setup()
    }
}

/// The learned parameters of a run, and its releases.
type Learned = (Vec<f64>, Vec<View>);

/// A trainer under audit, whatever it learns.
trait Case: AuditedRun {
    fn n_planned(&self) -> usize;
    fn learn(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> dp_audit::Result<Learned>;
}

impl<T, O> Case for AuditedTrainer<T, O>
where
    T: Trainer<Model: ItemVectors, Error = dp_pubfeat::Error>,
    O: Oracle<T::Model>,
{
    fn n_planned(&self) -> usize {
        self.plan().releases().len()
    }

    fn learn(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> dp_audit::Result<Learned> {
        let (fitted, views) = self.run(data, canaries, noise)?;
        Ok((fitted.model.vectors(), views))
    }
}

trait ItemVectors {
    fn vectors(&self) -> Vec<f64>;
}

impl ItemVectors for KernelRidge {
    fn vectors(&self) -> Vec<f64> {
        self.item_vectors().unwrap()
    }
}

impl ItemVectors for Steps {
    fn vectors(&self) -> Vec<f64> {
        self.item_vectors().unwrap()
    }
}

impl ItemVectors for FeatureModel {
    fn vectors(&self) -> Vec<f64> {
        self.item_vectors().to_vec()
    }
}

impl ItemVectors for LikesModel {
    fn vectors(&self) -> Vec<f64> {
        self.item_vectors().to_vec()
    }
}

type Cases = Vec<(&'static str, Box<dyn Case>)>;

/// A trainer of a learner and its oracle.
fn audited<T>(
    (trainer, learner): (T, &T::Model),
    fit: PublicFeatures,
    target: ApproxDp,
    adjacency: Adjacency,
) -> Box<dyn Case>
where
    T: Trainer<Data = Private<Interactions>, Error = dp_pubfeat::Error> + 'static,
    T::Model: StatisticsLearner + Clone + ItemVectors + 'static,
{
    let oracle = PublicFeaturesOracle::new(fit, learner.clone());
    let trainer = AuditedTrainer::new(trainer, learner.n_items(), target, adjacency);
    Box::new(trainer.unwrap().checked_by(oracle))
}

fn known_noise() -> KernelRidge {
    ridge(RidgeNoise::FromRelease { item_norm: 1.0 })
}

/// Item vectors that stay near 0, where the logistic loss has the largest curvature.
fn timid() -> KernelRidge {
    ridge(RidgeNoise::Given { ratio: 1e4 })
}

fn target(epsilon: f64) -> ApproxDp {
    ApproxDp::target(epsilon, DELTA).unwrap()
}

/// All fits with given user vectors.
fn on_given_vectors(epsilon: f64, adjacency: Adjacency) -> Cases {
    let ssp = |setup, n_resamples| {
        let params = SspParams {
            n_resamples,
            ..SspParams::new(setup)
        };
        params.check().unwrap()
    };
    let (collective, resampled) = (ssp(setup(), 1), ssp(weighted(), 3));
    let residual = ResidualSspParams::new(setup(), 3, 0.6, 0.2)
        .check()
        .unwrap();
    let mut convex = ConvexSspParams::new(ProblemSetup::new(DIM, 1.0), 2);
    convex.slope_norm = 0.3;
    let convex = convex.check().unwrap();
    let (target, ridge, timid) = (target(epsilon), known_noise(), timid());
    vec![
        (
            "SSP-c",
            audited(
                (collective.with(ridge.clone()), &ridge),
                PublicFeatures::Ssp(collective),
                target,
                adjacency,
            ),
        ),
        (
            "SSP-i, weights",
            audited(
                (resampled.with(ridge.clone()), &ridge),
                PublicFeatures::Ssp(resampled),
                target,
                adjacency,
            ),
        ),
        (
            "residual",
            audited(
                (residual.with(ridge.clone()), &ridge),
                PublicFeatures::Residual(residual),
                target,
                adjacency,
            ),
        ),
        (
            "logistic",
            audited(
                (convex.with(Logistic, timid.clone()), &timid),
                PublicFeatures::Logistic(convex),
                target,
                adjacency,
            ),
        ),
    ]
}

fn alternating(epsilon: f64, adjacency: Adjacency) -> Box<dyn Case> {
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
    let (fit, steps) = (params.check().unwrap(), encoder_steps());
    audited(
        (fit.with(steps.clone()), &steps),
        PublicFeatures::AmSsp(fit),
        target(epsilon),
        adjacency,
    )
}

/// All of them.
fn all(epsilon: f64, adjacency: Adjacency) -> Cases {
    let mut cases = on_given_vectors(epsilon, adjacency);
    cases.push(("AM-SSP", alternating(epsilon, adjacency)));
    cases
}
