//! AM-SSP: ratings without users' vectors, unseen users, unseen items.

use dp_core::{Interactions, Private};
use dp_data::{GeneratedLabels, PublicFeatureTask};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    AmSsp, AmSspParams, Descent, DpSgdParams, EncoderDescent, ItemFeatures, LinearEncoder,
    ObservedSums, Optimiser, ProblemSetup, PublicEncoder, StatisticsLearner, Trainer, UserStep,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use std::sync::Arc;

use crate::support::{ADD_REMOVE, made, observed, pay};

const N_ITEMS: usize = 80;
const DIM: usize = 4;

/// Few features, so that they are informative; the last ten items are never rated in training.
const SET_UP: PublicFeatureTask = PublicFeatureTask {
    n_users: 2500,
    n_items: N_ITEMS,
    items_per_user: 25,
    n_features: 20,
    features_per_item: 4,
    dim: DIM,
    labels: GeneratedLabels::Values { noise: 0.1 },
};

fn am_ssp() -> AmSsp {
    let params = AmSspParams {
        setup: ProblemSetup {
            label_norm: 0.6,
            ..ProblemSetup::new(DIM, 1.5)
        },
        user_step: UserStep {
            label_center: 0.0,
            offset_shrinkage: Some(5.0),
            l2_penalty: 0.3,
        },
        n_rounds: 5,
        matrix_share: 0.4,
    };
    params.check().unwrap()
}

fn learner(features: &Arc<ItemFeatures>) -> EncoderDescent<LinearEncoder, ChaCha20Rng> {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let mut encoder = LinearEncoder::random(features.clone(), DIM, &mut rng).unwrap();
    let parameters = dp_pubfeat::PublicEncoder::parameters_mut(&mut encoder);
    parameters.iter_mut().for_each(|t| *t *= 10.0); // vectors of norm about 2
    let descent = Descent::new(100, Optimiser::Adam { rate: 0.03 });
    EncoderDescent::new(encoder, descent, rng).unwrap()
}

/// Squared errors of a model and of the user's level alone, on one table, for users who fold in
/// from another.
fn errors(history: &Interactions, target: &Interactions, vectors: &[f64]) -> (f64, f64) {
    let step = am_ssp().params().user_step;
    let (mut of_model, mut of_level) = (0.0, 0.0);
    for (seen, asked) in history.users().zip(target.users()) {
        let own = step.fold_in(vectors, DIM, seen).unwrap();
        for (item, y) in asked.iter() {
            let score = own.predict(&vectors[item as usize * DIM..][..DIM]);
            of_model += (score - f64::from(y)).powi(2);
            of_level += (own.level - f64::from(y)).powi(2);
        }
    }
    (of_model, of_level)
}

#[test]
fn ratings_alone_teach_items_and_items_never_rated() {
    let (data, _, features) = made(SET_UP, 8);
    let all = data.examples.expose();
    // history: four fifths of the ratings of all items except the last ten; target: the other
    // fifth, and the last ten items
    let parts = all.partition(3, |user, item, _| match item {
        70.. => 2,
        _ => usize::from((user * 7 + item as usize).is_multiple_of(5)),
    });
    let [history, held_out, cold] = <[Interactions; 3]>::try_from(parts.unwrap()).ok().unwrap();
    let history = Private::new(history);
    let (am, target) = (am_ssp(), dp_core::ApproxDp::target(10.0, 1e-5).unwrap());
    let plan = am.plan(N_ITEMS, target, ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(3);
    let fitted = am
        .with(learner(&features))
        .fit(&history, &plan, pay(&plan), noise)
        .unwrap();
    let vectors = fitted.model.item_vectors().unwrap();
    let (model, level) = errors(history.expose(), &held_out, &vectors);
    assert!(model < 0.5 * level, "{model} {level}");
    let (model, level) = errors(history.expose(), &cold, &vectors);
    assert!(
        cold.n_records() > 1000 && model < 0.6 * level,
        "cold: {model} {level}"
    );
}

#[test]
fn gradients_with_local_user_steps_learn_too() {
    let (data, _, features) = made(SET_UP, 8);
    let all = data.examples.expose();
    let parts = all.partition(2, |user, item, _| {
        usize::from((user * 7 + item as usize).is_multiple_of(5))
    });
    let [history, held_out] = <[Interactions; 2]>::try_from(parts.unwrap()).ok().unwrap();
    let history = Private::new(history);
    let params = DpSgdParams {
        setup: am_ssp().params().setup.clone(),
        n_steps: 60,
        sampling_probability: 0.2,
        gradient_norm: 0.5,
        optimiser: Optimiser::Adam { rate: 0.05 },
    };
    let sgd = params.check().unwrap();
    let target = dp_core::ApproxDp::target(10.0, 1e-5).unwrap();
    let plan = sgd.plan(20, target, ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(3);
    let step = am_ssp().params().user_step;
    let encoder = learner(&features).into_encoder();
    let trainer = sgd.alternating(encoder, step, 10).unwrap();
    let fitted = trainer.fit(&history, &plan, pay(&plan), noise).unwrap();
    let mut vectors = vec![0.0; N_ITEMS * DIM];
    let items: Vec<u32> = (0..N_ITEMS as u32).collect();
    fitted.model.forward(&items, &mut vectors).unwrap();
    let (model, level) = errors(history.expose(), &held_out, &vectors);
    assert!(model < 0.7 * level, "{model} {level}");
    assert!(sgd.alternating(fitted.model, step, 0).is_err());
}

#[test]
fn every_round_bounds_every_user() {
    let (data, _, features) = made(
        PublicFeatureTask {
            n_users: 60,
            ..SET_UP
        },
        9,
    );
    let (am, target) = (am_ssp(), dp_core::ApproxDp::target(10.0, 1e-5).unwrap());
    let plan = am.plan(N_ITEMS, target, ADD_REMOVE).unwrap();
    assert_eq!(plan.releases().len(), 10);
    let (table, noise) = (&data.examples, &mut NoiseSource::insecure_seeded(3));
    let mut rounds = 0;
    let learner = learner(&features);
    observed(&am.with(learner), table, &plan, noise, |observed| {
        let ObservedSums::Grams {
            grids, one_user, ..
        } = observed.sums
        else {
            panic!("another release")
        };
        rounds += 1;
        for row in table.expose().users() {
            let one = one_user(row).unwrap();
            let (mut matrix, mut rhs) = (0_u128, 0_u128);
            for (x, l) in one.factors.chunks_exact(DIM).zip(&one.labels) {
                let norm: u128 = x.iter().map(|x| u128::from(x.unsigned_abs()).pow(2)).sum();
                matrix += norm * norm;
                rhs += norm * u128::from(l.unsigned_abs()).pow(2);
            }
            assert!(matrix > 0 && matrix <= u128::from(grids.matrix().l2_bound()).pow(2));
            assert!(rhs > 0 && rhs <= u128::from(grids.rhs().l2_bound()).pow(2));
        }
    })
    .unwrap();
    assert_eq!(rounds, 5);
}

#[test]
fn examples_cannot_be_units_of_fitted_vectors() {
    let mut params = am_ssp().params().clone();
    params.setup = params.setup.example_level();
    assert!(params.check().is_err());
    let mut params = am_ssp().params().clone();
    params.user_step.offset_shrinkage = Some(-1.0);
    assert!(params.check().is_err());
}
