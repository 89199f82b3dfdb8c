//! How do I release my own statistic through the kernel?
//!
//! `cargo run --release -p dp-examples --example release_a_count`

use dp_accounting::{Budget, Ledger, Plan, ReleaseRequest};
use dp_core::{Adjacency, ApproxDp, InteractionsBuilder, Private, ReplaceFactor, UserRow};
use dp_mechanism::{Grid, NoiseSource, SparseBuffer, VectorContribution, VectorSum};

/// Histogram of a user's ratings over five stars, not centred, scaled so that its norm is at most 1
/// whatever the user did.
struct StarShares;

impl VectorContribution for StarShares {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        // a user's shares sum to 1, so their L2 norm is at most 1: that is the sensitivity
        let share = 1.0 / user.len() as f64;
        for &stars in user.values() {
            let bin = (1_u8..5)
                .rfind(|&n| stars >= f32::from(n) + 0.5)
                .unwrap_or(0);
            out.push(bin.into(), share);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = InteractionsBuilder::new(100);
    for user in 0..2_000 {
        for item in 0..20 {
            builder.push(
                user,
                (user * 7 + item * 3) % 100,
                (1 + (user + item) % 5) as f32,
            )?;
        }
    }
    // one user who rates everything with an absurd value changes only that user's own vote
    for item in 0..100 {
        builder.push(2_000, item, 1e30)?;
    }
    let data = Private::new(builder.build().0);

    let target = ApproxDp::target(1.0, 1e-6)?;
    let adjacency = Adjacency::AddRemoveUser;
    let requests = [ReleaseRequest::new(
        "star shares",
        1.0,
        ReplaceFactor::Two,
        5,
    )];
    let plan = Plan::calibrate(target, adjacency, &requests)?;
    let mut ledger = Ledger::in_memory("stars", Budget::new(target, adjacency)?)?;
    let spend = ledger.reserve(&plan)?.remove(0);

    let grid = Grid::new(spend.noise_multiplier()?, 1.0)?;
    let released = VectorSum::accumulate(&data, 5, grid, &StarShares)?
        .release(spend, &mut NoiseSource::operating_system())?;
    println!(
        "noise standard deviation {:.2} users",
        released.noise_stddev()
    );
    for (star, users) in (1..).zip(released.values()) {
        println!("{star} stars: {users:>7.1} users' worth of ratings");
    }
    Ok(())
}
