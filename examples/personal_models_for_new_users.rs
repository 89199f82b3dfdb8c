//! A user joins after training, with five rows. How much does the shared subspace help that user?
//!
//! `cargo run --release -p dp-examples --example personal_models_for_new_users`

use dp_accounting::{Budget, Ledger};
use dp_core::{Adjacency, ApproxDp, UserSamplesBuilder};
use dp_data::SharedSubspace;
use dp_mechanism::NoiseSource;
use dp_personalize::{
    LocalFit, PersonalModel, ResidualAltMinParams, Trainer, own_data_model, zero_model,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

const DIM: usize = 20;
const N_TRAINED: usize = 10_000;
const N_NEW: usize = 1_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let set_up = SharedSubspace {
        n_users: N_TRAINED + N_NEW,
        rows_per_user: 5,
        dim: DIM,
        ..SharedSubspace::section_6()
    };
    let all = set_up.generate(&mut ChaCha20Rng::seed_from_u64(1))?;
    let mut trained = UserSamplesBuilder::new(DIM, set_up.rows_per_user)?;
    for user in 0..N_TRAINED {
        for (x, y) in all.samples.rows(user).iter() {
            trained.push(u32::try_from(user)?, x, y)?;
        }
    }
    let trained = trained.build().0;

    // the server learns the subspace from the first users, once, for epsilon 2
    let (target, adjacency) = (ApproxDp::target(2.0, 1e-6)?, Adjacency::AddRemoveUser);
    let fit = ResidualAltMinParams::new(set_up.rank).check()?;
    let plan = fit.plan(DIM, target, adjacency)?;
    let mut ledger = Ledger::in_memory("made rows", Budget::new(target, adjacency)?)?;
    let noise = &mut NoiseSource::operating_system();
    let fitted = fit.fit(&trained, &plan, ledger.reserve(&plan)?, noise)?;

    // new users fit on their own devices: none of their data was in training, nothing is sent,
    // nothing is spent
    let local = LocalFit::default();
    let mut errors = [0.0; 3];
    for user in N_TRAINED..N_TRAINED + N_NEW {
        let own = all.samples.rows(user);
        let truth = &all.coefficients[user * DIM..][..DIM];
        let models = [
            local.fit(&fitted.model, own),
            own_data_model(own, DIM),
            zero_model(DIM),
        ];
        for (error, model) in errors.iter_mut().zip(&models) {
            *error += squared_error(model, truth) / N_NEW as f64;
        }
    }
    println!("mean squared error of predictions for {N_NEW} new users with 5 rows each:");
    for (name, error) in ["private subspace", "own rows alone", "predicting 0"]
        .iter()
        .zip(errors)
    {
        println!("  {name:<17} {error:.4}");
    }
    Ok(())
}

/// Over features of variance 1, without label noise.
fn squared_error(model: &PersonalModel, truth: &[f64]) -> f64 {
    let pairs = model.coefficients().iter().zip(truth);
    pairs.map(|(a, b)| (a - b) * (a - b)).sum()
}
