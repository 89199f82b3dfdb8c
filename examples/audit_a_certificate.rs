//! I have received a certificate. Is it valid, and how much does its epsilon depend on the
//! accounting method?
//!
//! `cargo run --release -p dp-examples --example audit_a_certificate -- certificate.json` (without
//! a file it creates one)

use dp_accounting::{
    Accountant, Certificate, Plan, PlannedRelease, PldAccountant, PrivacyStatement, RdpAccountant,
    SaddlePointAccountant, Spend, TightestAccountant, ZcdpAccountant,
};
use dp_accounting::{Budget, Ledger, usable_delta};
use dp_core::{Adjacency, DpEvent};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let text = match std::env::args().nth(1) {
        Some(path) => std::fs::read_to_string(path)?,
        None => sample()?.to_json(),
    };

    // reading refuses any edit; verification recomputes every number from the events
    let certificate = Certificate::from_json(&text)?;
    let verified = certificate.verify()?;
    println!("private: {}", verified.is_private());
    for line in PrivacyStatement::of(&certificate)?.meaning() {
        println!("  {line}");
    }
    if let Some(guarantee) = &certificate.guarantee {
        println!(
            "claimed: epsilon {} at delta {}",
            guarantee.epsilon, guarantee.delta
        );
    }

    // the same events by each method; a millionth of delta is for the sampler
    let adjacency = certificate.adjacency;
    let delta = usable_delta(certificate.target.delta);
    let accountants: [Box<dyn Accountant>; 5] = [
        Box::new(TightestAccountant::new(adjacency)),
        Box::new(SaddlePointAccountant::new(adjacency)),
        Box::new(PldAccountant::new(adjacency)),
        Box::new(RdpAccountant::new(adjacency)),
        Box::new(ZcdpAccountant::new(adjacency)),
    ];
    for mut accountant in accountants {
        let mut compose = || {
            for release in &certificate.releases {
                accountant.compose(&release.event, 1)?;
            }
            accountant.epsilon(delta)
        };
        match compose() {
            Ok(bound) => println!(
                "{:<12} {:.9} to {:.9}",
                bound.method, bound.lower, bound.upper
            ),
            Err(refusal) => println!("{refusal}"),
        }
    }
    Ok(())
}

/// The certificate of a small run: private SGD and one count.
fn sample() -> Outcome<Certificate> {
    let releases = vec![
        PlannedRelease::new(
            "model",
            DpEvent::sampled_gaussian(1.0, 0.01).repeated(1_000),
            64_000,
        ),
        PlannedRelease::new("count", DpEvent::laplace(20.0), 1),
    ];
    let plan = Plan::with_noise_multipliers(1e-6, Adjacency::AddRemoveUser, releases)?;
    let budget = Budget::schedule(plan.target(), plan.adjacency())?;
    let spends = Ledger::in_memory("my users", budget)?.reserve(&plan)?;
    let certificate = Certificate::builder(&plan, "my users")
        .releases(spends.iter().map(Spend::record).collect())
        .released_output("model and count", "anyone")
        .build()?;
    Ok(certificate)
}
