//! The machine died half-way through training. What was paid, and how do I go on?
//!
//! `cargo run --release -p dp-examples --example resume_after_a_crash`

use std::path::Path;

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp, Interactions, Private};
use dp_data::LongTailRatings;
use dp_mechanism::NoiseSource;
use dp_multitask::{CheckpointFolder, FactorizationParams, FittedModel};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

const N_ITEMS: usize = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shape = LongTailRatings::new(2_000, N_ITEMS, 60_000);
    let ratings = shape.generate(&mut ChaCha20Rng::seed_from_u64(1))?;
    let folder = std::env::temp_dir().join(format!("dp-resume-{}", std::process::id()));
    std::fs::create_dir(&folder)?;

    // the first process is stopped when it wants to pay for the third step
    match run(&folder, ratings.interactions(), 2) {
        Err(stopped) => println!("first process: {stopped}"),
        Ok(_) => return Err("the first process should have been stopped".into()),
    }
    report(&folder)?;

    // the second goes on behind the last step that was saved, and pays for the others only
    let fitted = run(&folder, ratings.interactions(), usize::MAX)?;
    report(&folder)?;
    let epsilon = fitted.certificate.verify()?.guarantee.map(|g| g.epsilon);
    println!(
        "epsilon of the model {:.4}",
        epsilon.unwrap_or(f64::INFINITY)
    );
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// One process of a run; its ledger and its checkpoint are files of `folder`.
fn run(
    folder: &Path,
    users: &Private<Interactions>,
    n_steps: usize,
) -> Result<FittedModel, Box<dyn std::error::Error>> {
    let (target, adjacency) = (ApproxDp::target(5.0, 1e-6)?, Adjacency::AddRemoveUser);
    let fit = FactorizationParams::for_target(target).check()?;
    let plan = fit.plan(N_ITEMS, target, adjacency)?;
    let budget = Budget::new(target, adjacency)?;
    let mut ledger = Ledger::open(folder.join("ledger"), "ratings", budget)?;
    let mut left = n_steps;
    let mut pay = |step: &Plan| -> Result<Vec<Spend>, dp_accounting::Error> {
        let died = || dp_accounting::Error::Io {
            path: folder.to_owned(),
            source: std::io::Error::other("the machine died"),
        };
        left = left.checked_sub(1).ok_or_else(died)?;
        ledger.reserve(step) // on disk before any noise is drawn
    };
    let checkpoint = CheckpointFolder::open(folder)?;
    let noise = &mut NoiseSource::operating_system();
    Ok(fit.fit_with_checkpoints(users, &plan, &mut pay, noise, &checkpoint, &mut |_| {})?)
}

/// What anybody can read from the ledger.
fn report(folder: &Path) -> Result<(), dp_accounting::Error> {
    let summary = Ledger::audit(folder.join("ledger"))?;
    let balance = summary.balance;
    println!(
        "ledger: {} releases paid, {:.1} % of the budget",
        summary.releases.len(),
        100.0 * balance.spent / balance.budget
    );
    Ok(())
}
