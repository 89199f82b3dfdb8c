//! The machine crashed half-way through training. What has been paid, and how do I resume?
//!
//! `cargo run --release -p dp-examples --example resume_after_a_crash`

use std::ops::ControlFlow;
use std::path::Path;

use dp_data::LongTailRatings;
use dp_multitask::{
    Adjacency, ApproxDp, Budget, FactorModel, FactorizationParams, Fitted, Interactions, Ledger,
    NoiseSource, Observer, Private, Progress, RunFolder, Trainer,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

const N_ITEMS: usize = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shape = LongTailRatings::new(2_000, N_ITEMS, 60_000);
    let ratings = shape.generate(&mut ChaCha20Rng::seed_from_u64(1))?;
    let folder = std::env::temp_dir().join(format!("dp-resume-{}", std::process::id()));
    std::fs::create_dir(&folder)?;

    // the first process crashes after its second release
    match run(&folder, ratings.interactions(), 2) {
        Err(stopped) => println!("first process: {stopped}"),
        Ok(_) => return Err("the first process should have been stopped".into()),
    }
    report(&folder)?;

    // the second process replays the releases in the list, and makes and pays for only the
    // remaining ones
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

/// Ends a process after this many releases.
struct Dies(usize);

impl Observer for Dies {
    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        self.0 -= 1;
        if self.0 == 0 {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// One process of a run; its ledger and its release list are files in `folder`.
fn run(
    folder: &Path,
    users: &Private<Interactions>,
    n_releases: usize,
) -> Result<Fitted<FactorModel>, Box<dyn std::error::Error>> {
    let (target, adjacency) = (ApproxDp::target(5.0, 1e-6)?, Adjacency::AddRemoveUser);
    let fit = FactorizationParams::for_target(target).check()?;
    let plan = fit.plan(N_ITEMS, target, adjacency)?;
    let budget = Budget::new(target, adjacency)?;
    let ledgers = &mut [Ledger::open_or_create(
        folder.join("ledger"),
        "ratings",
        budget,
    )?];
    // every release is paid for, on disk, before its noise is drawn, and listed, on disk, before
    // anyone sees it
    let public = format!("{:?}", fit.params());
    let (noise, dies) = (&mut NoiseSource::operating_system(), &mut Dies(n_releases));
    let folder = RunFolder::new(folder);
    Ok(folder.train(&fit, users, &plan, ledgers, &public, noise, dies)?)
}

/// Prints what the ledger file shows.
fn report(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let summary = Ledger::audit(folder.join("ledger"))?;
    let balance = summary.balance;
    println!(
        "ledger: {} releases paid, {:.1} % of the budget",
        summary.releases.len(),
        100.0 * balance.spent / balance.budget
    );
    Ok(())
}
