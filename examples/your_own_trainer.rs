//! How do I add an algorithm? Write its releases and the model that follows from them; resuming,
//! workers, audit, certificate and verification are provided.
//!
//! `cargo run --release -p dp-examples --example your_own_trainer`

use dp_accounting::{Budget, CertificateBuilder, Ledger, ReleaseRequest, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, ReplaceFactor, UserRow};
use dp_data::LongTailRatings;
use dp_mechanism::{
    Error, NoiseSource, ReleaseList, Result, Run, RunFolder, SparseBuffer, Trainer, TrainerCheck,
    VectorContribution,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

/// Settings, all public, for the mean rating of every item, from the items' counts and sums.
struct ItemMeans {
    centre: f64,
    half_range: f64,
    items_in_full: f64,
}

/// A user's contribution: at each of the user's items `weight * f(rating)`, where `f` is at most 1
/// in absolute value and the weight keeps the norm of the whole at most `sqrt(items_in_full)`. It
/// reads one user's records and public values, nothing else.
struct Votes<'a> {
    of: &'a ItemMeans,
    rated: bool,
}

impl VectorContribution for Votes<'_> {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let weight = (self.of.items_in_full / user.len() as f64).sqrt().min(1.0);
        for (item, rating) in user.iter() {
            let off = (f64::from(rating) - self.of.centre) / self.of.half_range;
            let vote = if self.rated {
                off.clamp(-1.0, 1.0)
            } else {
                1.0
            };
            out.push(item, weight * vote);
        }
    }
}

impl Trainer for ItemMeans {
    type Data = Private<Interactions>;
    type Model = Vec<f64>;
    type Error = Error;

    fn width(&self, users: &Private<Interactions>) -> usize {
        users.expose().n_items() // public: the catalogue
    }

    /// A fifth of the budget for the counts, the rest for the sums. Replacing a user moves a sum
    /// twice as far as adding one.
    fn requests(&self, n_items: usize, _: Adjacency) -> Result<Requests> {
        let sum =
            |label, share| ReleaseRequest::new(label, share, ReplaceFactor::Two, n_items as u64);
        Ok(Requests::Shares(vec![
            sum("counts", 0.2),
            sum("ratings", 0.8),
        ]))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        certificate
            .released_output("mean rating of every item", "anyone")
            .assumption("one person has one user id")
            .assumption("settings were not chosen by looking at this data set")
            .tuning_included(false)
    }

    /// Makes the releases, and a model that depends on nothing else.
    fn train(&self, users: &Private<Interactions>, run: &mut Run<'_>) -> Result<Vec<f64>> {
        let shape = (self.width(users), self.items_in_full.sqrt());
        let counts = run.vector(
            users,
            shape,
            &Votes {
                of: self,
                rated: false,
            },
        )?;
        let sums = run.vector(
            users,
            shape,
            &Votes {
                of: self,
                rated: true,
            },
        )?;
        let least = counts.noise_stddev();
        let pairs = sums.values().into_iter().zip(counts.values());
        Ok(pairs
            .map(|(sum, count)| {
                self.centre + self.half_range * (sum / count.max(least)).clamp(-1.0, 1.0)
            })
            .collect())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let made =
        LongTailRatings::new(2_000, 100, 40_000).generate(&mut ChaCha20Rng::seed_from_u64(1))?;
    let users = made.interactions();
    let trainer = ItemMeans {
        centre: 3.0,
        half_range: 2.0,
        items_in_full: 20.0,
    };
    let (target, adjacency) = (ApproxDp::target(1.0, 1e-6)?, Adjacency::AddRemoveUser);
    let plan = trainer.plan(100, target, adjacency)?;

    // a run in a folder: the same call resumes after a crash, and pays for what is missing
    let path = std::env::temp_dir().join(format!("dp-own-trainer-{}", std::process::id()));
    std::fs::create_dir_all(&path)?;
    let (folder, settings) = (RunFolder::new(path.join("run")), "item means 3 2 20");
    let mut ledgers = [Ledger::open_or_create(
        path.join("ledger"),
        "made",
        Budget::new(target, adjacency)?,
    )?];
    let noise = &mut NoiseSource::operating_system();
    let fitted = folder.train(
        &trainer,
        users,
        &plan,
        &mut ledgers,
        settings,
        noise,
        &mut (),
    )?;
    let epsilon = fitted.certificate.verify()?.guarantee.map(|g| g.epsilon);
    println!(
        "item 0 has mean {:.2}, at epsilon {:.4}",
        fitted.model[0],
        epsilon.unwrap_or(f64::INFINITY)
    );

    // anyone who has the release list can recompute the same model, without users
    let nobody = Private::new(users.expose().without_users());
    let list = ReleaseList::read(folder.list_path(), settings, &plan)?;
    let again = trainer.run(&nobody, Run::replay(&plan, list)?)?;
    println!(
        "made again from {} releases: {}",
        again.n_releases,
        again.model == fitted.model
    );

    // resumed after any release, replayed, in shards, and with 1 to 8 workers: the same bits
    let deal = |k: usize, part: &dyn Fn(u128) -> usize| -> Vec<Box<Private<Interactions>>> {
        let parts = users.expose().deal(k, part).into_iter();
        parts.map(|table| Box::new(Private::new(table))).collect()
    };
    let check = TrainerCheck {
        trainer: &trainer,
        plan: &plan,
        data: users,
        nobody: &nobody,
        table: &|users| users,
        deal: &deal,
        bits: &|model| model.iter().map(|x| x.to_bits()).collect(),
    };
    check.all()?;
    println!("a function of its releases, wherever the users are");
    std::fs::remove_dir_all(&path)?;
    Ok(())
}
