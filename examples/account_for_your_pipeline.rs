//! My own pipeline adds noise in several places. What does it guarantee, how much noise does a
//! target need, and how do I keep a record?
//!
//! `cargo run --release -p dp-examples --example account_for_your_pipeline`

use dp_accounting::{
    Accountant, Budget, Certificate, GdpAccountant, Ledger, Plan, ReleaseRequest, Spend,
    TightestAccountant, calibrate,
};
use dp_core::{Adjacency, ApproxDp, DpEvent, ReplaceFactor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // what the pipeline does today: one histogram, twelve monthly sums of user vectors
    for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
        let mut accountant = GdpAccountant::new(adjacency);
        accountant.compose(&DpEvent::gaussian(4.0), 1)?;
        accountant.compose(&DpEvent::gaussian(10.0), 12)?;
        let epsilon = accountant.epsilon(1e-6);
        println!(
            "{adjacency:<16} mu {:.4}, epsilon {epsilon:.4} at delta 1e-6",
            accountant.gdp().mu
        );
    }

    // the same with a model trained by private SGD and one Laplace count: no closed form, so the
    // answer is a bracket
    let mut accountant = TightestAccountant::new(Adjacency::AddRemoveUser);
    accountant.compose(&DpEvent::gaussian(4.0), 1)?;
    accountant.compose(&DpEvent::laplace(20.0), 1)?;
    accountant.compose(&DpEvent::sampled_gaussian(1.0, 0.01), 1_000)?;
    let bound = accountant.epsilon(1e-6)?;
    println!(
        "with SGD         epsilon {:.9} to {:.9} by {}",
        bound.lower, bound.upper, bound.method
    );

    // the noise of SGD for a total of epsilon 2
    let noise = calibrate::noise(
        ApproxDp::target(2.0, 1e-6)?,
        Adjacency::AddRemoveUser,
        |z| {
            DpEvent::composed(vec![
                DpEvent::gaussian(4.0),
                DpEvent::laplace(20.0),
                DpEvent::sampled_gaussian(z, 0.01).repeated(1_000),
            ])
        },
    )?;
    println!(
        "SGD noise {:.4} gives epsilon {:.6}",
        noise.value, noise.bound.upper
    );

    // the noise needed for epsilon 1, with a tenth of the budget on the histogram
    let target = ApproxDp::target(1.0, 1e-6)?;
    let adjacency = Adjacency::AddRemoveUser;
    let mut requests = vec![ReleaseRequest::new(
        "histogram",
        0.1,
        ReplaceFactor::Two,
        1_000,
    )];
    for month in 1..=12 {
        let label = format!("sum of month {month}");
        requests.push(ReleaseRequest::new(
            label,
            0.9 / 12.0,
            ReplaceFactor::Two,
            64,
        ));
    }
    let plan = Plan::calibrate(target, adjacency, &requests)?;
    for release in plan.releases().iter().take(2) {
        println!(
            "{:<16} noise multiplier {:.2}",
            release.label(),
            release.noise_multiplier()?
        );
    }

    // reserve before drawing noise; the certificate can be checked by anyone
    let mut ledger = Ledger::in_memory("my users", Budget::new(target, adjacency)?)?;
    let spends = ledger.reserve(&plan)?;
    let certificate = Certificate::builder(&plan, "my users")
        .releases(spends.iter().map(Spend::record).collect())
        .released_output("histogram and monthly sums", "analysts")
        .build()?;
    println!("certificate holds: {}", certificate.verify()?.is_private());
    println!(
        "a second run is refused: {}",
        ledger.reserve(&plan).is_err()
    );
    Ok(())
}
