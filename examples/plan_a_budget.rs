//! One budget for a year of refits: how much noise does each need, and what happens when it is used up?
//!
//! `cargo run --release -p dp-examples --example plan_a_budget`

use dp_accounting::{Budget, Ledger, Plan, ReleaseRequest, calibrate, gdp, usable_delta};
use dp_core::{Adjacency, ApproxDp, DpEvent, ReplaceFactor};

const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let year = ApproxDp::target(4.0, 1e-6)?;
    println!("epsilon 4, delta 1e-6 for the year");
    println!("refits   noise of each   epsilon of one   epsilon of one if epsilons were added");
    for (name, n_refits) in [("monthly", 12), ("weekly", 52), ("nightly", 365)] {
        let noise = calibrate::noise(year, ADJACENCY, |z| DpEvent::gaussian(z).repeated(n_refits))?;
        let one = gdp::epsilon(1.0 / noise.value, year.delta);
        let added = year.epsilon / n_refits as f64;
        println!("{name:<8} {:>13.2} {one:>16.3} {added:>18.3}", noise.value);
    }

    // the ledger refuses before any noise is drawn; on disk, `Ledger::open` keeps its state across
    // processes
    let mut ledger = Ledger::in_memory("ratings", Budget::new(year, ADJACENCY)?)?;
    let refit = refit_at(ledger.remaining()?.mu / 12_f64.sqrt(), year.delta)?;
    for release in refit.releases() {
        let z = release.noise_multiplier()?;
        println!("monthly {:<9} noise multiplier {z:.1}", release.label());
    }
    for month in 1.. {
        match ledger.reserve(&refit) {
            // a real refit passes the spends to a fit, which draws its noise for them
            Ok(spends) => drop(spends),
            Err(refused) => {
                println!("month {month}: {refused}");
                break;
            }
        }
        if month % 4 == 0 {
            let spent = gdp::epsilon(ledger.spent()?.mu, usable_delta(year.delta));
            println!("after month {month:>2}: epsilon {spent:.3} is spent");
        }
    }
    Ok(())
}

/// Counts, matrices and vectors of 500 items that cost `mu` together: squares of mu add up.
fn refit_at(mu: f64, delta: f64) -> Result<Plan, Box<dyn std::error::Error>> {
    let target = ApproxDp::target(gdp::epsilon(mu, usable_delta(delta)), delta)?;
    let requests = [
        ("counts", 0.1, 500),
        ("matrices", 0.45, 50_000),
        ("vectors", 0.45, 5_000),
    ];
    let requests =
        requests.map(|(label, share, n)| ReleaseRequest::new(label, share, ReplaceFactor::Two, n));
    Ok(Plan::calibrate(target, ADJACENCY, &requests)?)
}
