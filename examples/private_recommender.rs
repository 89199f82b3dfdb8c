//! How do I train private item factors and give one user recommendations?
//!
//! `cargo run --release -p dp-examples --example private_recommender`

use dp_accounting::{Budget, Ledger};
use dp_core::{Adjacency, ApproxDp};
use dp_data::{LongTailRatings, SplitFractions, rmse};
use dp_mechanism::NoiseSource;
use dp_multitask::{FactorizationParams, NonPrivateAls, Trainer};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ratings = LongTailRatings::movielens_1m().generate(&mut ChaCha20Rng::seed_from_u64(1))?;
    let split = ratings.split(SplitFractions::default(), 0)?;
    let n_items = ratings.catalogue().len();

    // public decisions first: settings, plan, budget
    let target = ApproxDp::target(5.0, 1e-5)?;
    let adjacency = Adjacency::AddRemoveUser;
    let fit = FactorizationParams::for_target(target).check()?;
    let plan = fit.plan(n_items, target, adjacency)?;
    let mut ledger = Ledger::in_memory("generated ratings", Budget::new(target, adjacency)?)?;

    // the budget is spent before any noise is drawn
    let spends = ledger.reserve(&plan)?;
    let mut noise = NoiseSource::operating_system();
    let fitted = fit.fit(&split.train, &plan, spends, &mut noise)?;
    let verified = fitted.certificate.verify()?;
    let epsilon = verified.guarantee.map_or(f64::INFINITY, |g| g.epsilon);
    println!(
        "epsilon {epsilon:.4}, delta {:e}, {adjacency}",
        target.delta
    );

    // internal evaluation: how good is the model?
    for (name, model) in [
        ("private", &fitted.model),
        ("no privacy", &NonPrivateAls::default().fit(&split.train)?),
    ] {
        let pairs = model.predict_held_out(&split.train, &split.test)?;
        println!("test RMSE {name:<10} {:.4}", rmse(pairs.into_exposed())?);
    }

    // on the user's device: released factors and the user's own ratings, nothing else
    let own_ratings = split.train.expose().user(42);
    let personal = fitted.model.fold_in(own_ratings)?;
    println!("for one user with {} ratings:", own_ratings.len());
    for (item, rating) in fitted.model.recommend(&personal, 5, own_ratings.items())? {
        println!(
            "  item {:<6} {rating:.2}",
            ratings.catalogue().ids()[item as usize]
        );
    }
    Ok(())
}
