//! Runs of every trainer.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod cases;

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_mechanism::NoiseSource;
use sha2::{Digest, Sha256};
use cases::*;

fn pay(plan: &Plan) -> Vec<Spend> {
    let budget = Budget::new(plan.target(), ADJACENCY).unwrap();
    Ledger::in_memory("test", budget).unwrap().reserve(plan).unwrap()
}

fn say(name: &str, values: &[f64], counts: Option<&dp_multitask::NoisyCounts>) {
    let mut hash = Sha256::new();
    for v in values { hash.update(v.to_bits().to_le_bytes()); }
    for v in counts.map(|c| c.values().to_vec()).unwrap_or_default() { hash.update(v.to_bits().to_le_bytes()); }
    let d = hash.finalize();
    let hex: String = d.iter().take(8).map(|b| format!("{b:02x}")).collect();
    eprintln!("    (\"{name}\", \"{hex}\"),");
}

#[test]
fn golden() {
    let data = users();
    for (name, fit) in factorizations() {
        let plan = fit.plan(N_ITEMS, target(), ADJACENCY).unwrap();
        let f = fit.fit(&data, &plan, pay(&plan), &mut NoiseSource::insecure_seeded(3), &mut |_| {}).unwrap();
        say(name, f.model.item_factors(), f.counts.as_ref());
    }
    for (name, fit) in tunings() {
        let plan = fit.plan(N_ITEMS, target(), ADJACENCY).unwrap();
        let f = fit.fit(&data, &plan, pay(&plan), &mut NoiseSource::insecure_seeded(3), &mut |_| {}).unwrap();
        let mut v = f.fitted.model.item_factors().to_vec();
        v.extend(&f.scores);
        say(name, &v, f.fitted.counts.as_ref());
    }
    for (name, fit) in statistics() {
        let plan = fit.plan(N_ITEMS, target(), ADJACENCY).unwrap();
        let f = fit.fit(&data, &plan, pay(&plan), &mut NoiseSource::insecure_seeded(3)).unwrap();
        say(name, f.model.coefficients(), f.counts.as_ref());
    }
    for (name, fit) in descents() {
        let plan = fit.plan(N_ITEMS, target(), ADJACENCY).unwrap();
        let f = fit.fit(&data, &plan, pay(&plan), &mut NoiseSource::insecure_seeded(3)).unwrap();
        say(name, f.model.coefficients(), f.counts.as_ref());
    }
    for (name, fit) in refinements() {
        let plan = fit.plan(N_ITEMS, target(), ADJACENCY).unwrap();
        let f = fit.fit(&data, &plan, pay(&plan), &mut NoiseSource::insecure_seeded(3)).unwrap();
        say(name, f.model.coefficients(), f.counts.as_ref());
    }
}
