//! Peak memory of the whole process for private training on generated ratings:
//!
//! `cargo run --release -p dp-benches --bin memory -- 100` for 100 million (default 10).

use std::time::Instant;

use dp_accounting::{Budget, Ledger};
use dp_benches::peak_megabytes;
use dp_core::{Adjacency, ApproxDp};
use dp_data::LongTailRatings;
use dp_mechanism::NoiseSource;
use dp_multitask::{FactorizationParams, Trainer};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

const DIM: usize = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let millions: usize = (std::env::args().nth(1)).map_or(Ok(10), |text| text.parse())?;
    let n_ratings = millions * 1_000_000;
    let shape = LongTailRatings::new(6_988 * millions, 10_677, n_ratings);
    let start = Instant::now();
    let ratings = shape.generate(&mut ChaCha20Rng::seed_from_u64(1))?;
    report("generated", n_ratings, start);

    let (target, adjacency) = (ApproxDp::target(5.0, 1e-8)?, Adjacency::AddRemoveUser);
    let mut params = FactorizationParams::adadpals_for_target(target);
    (params.dim, params.n_rounds) = (Some(DIM), 2);
    let fit = params.check()?;
    let n_items = ratings.catalogue().len();
    let plan = fit.plan(n_items, target, adjacency)?;
    let spends = Ledger::in_memory("generated", Budget::new(target, adjacency)?)?.reserve(&plan)?;
    let start = Instant::now();
    let noise = &mut NoiseSource::operating_system();
    let fitted = fit.fit(ratings.interactions(), &plan, spends, noise)?;
    report("trained, 2 rounds of dim 32", n_ratings, start);

    let statistics = n_items * (DIM * (DIM + 1) / 2 + DIM) * 8;
    println!(
        "item factors {:.0} MB; statistics of a round, once {:.0} MB",
        megabytes(fitted.model.item_factors().len() * 8),
        megabytes(statistics)
    );
    Ok(())
}

fn report(what: &str, n_ratings: usize, start: Instant) {
    let peak = peak_megabytes();
    println!(
        "{what}: {:.1} s, peak so far {peak:.0} MB, {:.1} bytes a rating",
        start.elapsed().as_secs_f64(),
        peak * 1_048_576.0 / n_ratings as f64
    );
}

fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1_048_576.0
}
