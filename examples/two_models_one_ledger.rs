//! A recommender and a survey of the same users: what do they cost together?
//!
//! `cargo run --release -p dp-examples --example two_models_one_ledger`

use dp_accounting::{Budget, Ledger, Plan, ReleaseRequest, gdp, usable_delta};
use dp_core::{Adjacency, ApproxDp, ReplaceFactor, UserRow};
use dp_data::LongTailRatings;
use dp_mechanism::{Grid, NoiseSource, SparseBuffer, VectorContribution, VectorSum};
use dp_multitask::{FactorizationParams, Trainer};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

/// A user's shares of ratings below 3, from 3 to below 4, and 4 or above: they sum to 1, so their
/// norm is at most 1.
struct Moods;

impl VectorContribution for Moods {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let share = 1.0 / user.len() as f64;
        for &rating in user.values() {
            out.push(u32::from(rating >= 3.0) + u32::from(rating >= 4.0), share);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ratings = LongTailRatings::movielens_1m().generate(&mut ChaCha20Rng::seed_from_u64(1))?;
    let (users, adjacency) = (ratings.interactions(), Adjacency::AddRemoveUser);
    let noise = &mut NoiseSource::operating_system();

    // one budget for everything that is ever released about these users
    let whole = ApproxDp::target(3.0, 1e-6)?;
    let mut ledger = Ledger::in_memory("ratings", Budget::new(whole, adjacency)?)?;
    let spent = |ledger: &Ledger| -> Result<f64, dp_accounting::Error> {
        Ok(gdp::epsilon(ledger.spent()?.mu, usable_delta(whole.delta)))
    };

    // dp-mechanism: the survey
    let target = ApproxDp::target(1.0, 1e-6)?;
    let request = ReleaseRequest::new("moods", 1.0, ReplaceFactor::Two, 3);
    let plan = Plan::calibrate(target, adjacency, &[request])?;
    let spend = ledger.reserve(&plan)?.remove(0);
    let grid = Grid::new(spend.noise_multiplier()?, 1.0)?;
    let moods = VectorSum::accumulate(users, 3, grid, &Moods)?.release(spend, noise)?;
    println!(
        "ratings low, middling, high: {:.0?} users' worth",
        moods.values()
    );
    println!("spent: epsilon {:.3}", spent(&ledger)?);

    // dp-multitask: the recommender
    let target = ApproxDp::target(2.5, 1e-6)?;
    let fit = FactorizationParams::for_target(target).check()?;
    let plan = fit.plan(ratings.catalogue().len(), target, adjacency)?;
    let fitted = fit.fit(users, &plan, ledger.reserve(&plan)?, noise)?;
    println!(
        "factors of {} items, {} numbers each",
        fitted.model.n_items(),
        fitted.model.dim()
    );
    // Gaussian noise composes in squares: less than 1 + 2.5
    println!("spent: epsilon {:.3}", spent(&ledger)?);

    // a second recommender exceeds the budget, and nothing of it is computed
    match ledger.reserve(&plan) {
        Err(refused) => println!("once more: {refused}"),
        Ok(_) => return Err("the budget should be used up".into()),
    }
    Ok(())
}
