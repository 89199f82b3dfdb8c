//! Does a training run reveal more than it claims? And would the audit notice if it did?
//!
//! `cargo run --release -p dp-examples --example audit_a_run`

use dp_audit::{
    AuditedRun, AuditedTrainer, Canaries, FactorizationOracle, RunSettings, View, audit_run,
};
use dp_core::{Adjacency, ApproxDp, Gdp, Interactions, InteractionsBuilder, Private};
use dp_mechanism::NoiseSource;
use dp_multitask::FactorizationParams;

/// The same runs under a claim that is half of the true cost.
struct Boasting<T>(T);

impl<T: AuditedRun> AuditedRun for Boasting<T> {
    fn claim(&self) -> (ApproxDp, Gdp) {
        let (stated, gdp) = self.0.claim();
        let epsilon = stated.epsilon / 2.0;
        (ApproxDp { epsilon, ..stated }, Gdp { mu: gdp.mu / 2.0 })
    }

    fn train(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> dp_audit::Result<Vec<View>> {
        self.0.train(data, canaries, noise)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // ordinary users, and canaries, each of whom is included by a fair coin, with items of their
    // own
    let mut builder = InteractionsBuilder::new(30);
    for user in 0..120_u32 {
        for item in (0..8).map(|k| (user * 7 + k * 11) % 30) {
            builder.push(user, item, ((user + item) % 5 + 1) as f32)?;
        }
    }
    let canaries = Canaries::new(Private::new(builder.build().0), 500, 9, 1e4)?;

    let target = ApproxDp::target(8.0, 1e-5)?;
    let mut params = FactorizationParams::adadpals_for_target(target);
    (params.dim, params.n_rounds) = (Some(1), 2);
    (params.count_clip_norm, params.count_floor) = (3.0, 5.0);
    let fit = params.check()?;
    // recomputes, from releases alone, what every user must have added
    let oracle = FactorizationOracle::new(fit.clone());
    let adjacency = Adjacency::AddRemoveUser;
    let trainer = AuditedTrainer::new(fit, canaries.n_items(), target, adjacency)?;
    let trainer = trainer.checked_by(oracle);
    let runs = RunSettings {
        n_runs: 8,
        ..RunSettings::default()
    };

    let audit = audit_run(&trainer, &canaries, &runs, NoiseSource::operating_system)?;
    println!("the claim of the run\n{audit}\n");
    let audit = audit_run(
        &Boasting(trainer),
        &canaries,
        &runs,
        NoiseSource::operating_system,
    )?;
    println!("half of it\n{audit}");
    Ok(())
}
