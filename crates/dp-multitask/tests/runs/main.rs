//! Every trainer's model is a function of its releases, and has the bits that it had.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]
#![allow(clippy::disallowed_types, reason = "tests drive runs")]

mod cases;

use dp_mechanism::{ReleaseEntry, TrainerCheck};
use dp_multitask::{
    Budget, Error, Interactions, Ledger, NoiseSource, Observer, Plan, Private, ReleaseList, Round,
    Run, Trainer,
};
use sha2::{Digest, Sha256};

use cases::{
    ADJACENCY, Check, N_ITEMS, Numbers, factorizations, for_each_trainer, nobody, target, users,
};

fn plan_of<T: Trainer<Error = Error>>(trainer: &T) -> Plan {
    trainer.plan(N_ITEMS, target(), ADJACENCY).unwrap()
}

fn ledger(plan: &Plan) -> Ledger {
    let budget = Budget::new(plan.target(), ADJACENCY).unwrap();
    Ledger::in_memory("made", budget).unwrap()
}

/// Resumed, replayed, in shards and with workers: [`TrainerCheck`].
struct Laws(Private<Interactions>);

impl Check for Laws {
    fn check<T>(&mut self, name: &str, trainer: &T)
    where
        T: Trainer<Data = Private<Interactions>, Error = Error> + Sync,
        T::Model: Numbers,
    {
        let (data, nobody, plan) = (&self.0, nobody(), plan_of(trainer));
        let check = TrainerCheck {
            trainer,
            plan: &plan,
            data,
            nobody: &nobody,
            table: &|data| data,
            deal: &|k, part| {
                let shards = data.expose().deal(k, part).into_iter();
                shards.map(|shard| Box::new(Private::new(shard))).collect()
            },
            bits: &|model| model.bits(),
        };
        if let Err(broken) = check.all() {
            panic!("{name}: {broken}");
        }
    }
}

#[test]
fn every_model_is_a_function_of_its_list_of_releases() {
    for_each_trainer(&mut Laws(users()));
}

/// Beginnings of SHA-256 of the models' bits under one seed, on processors with AVX-512: shorter vectors add in another order.
const GOLDEN: [(&str, &str); 22] = [
    ("statistics", "44d95e3f3d26baf0"),
    ("statistics without tastes", "a3a3adec85ec96a0"),
    ("length by rule", "44d95e3f3d26baf0"),
    ("no counts, some records", "081c93b32ba6db15"),
    (
        "rare records of the head without biases",
        "b5ddad3877baa81a",
    ),
    ("pooled statistics", "9cd73c9967c718d9"),
    ("gradients", "a2e8ca3d8acf664c"),
    ("residuals", "af77123086d5bc9c"),
    ("pooled residuals", "44ea9f396b2cca6b"),
    ("likes, pooled", "c290e1451cd419fc"),
    ("likes, per item", "0ef3f126400e474d"),
    ("likes, per item alone", "20c20eada36e67bb"),
    ("likes without biases", "8fc273a3c295a8c0"),
    ("choice among ratings", "4f8a5a9be7d51278"),
    ("choice among lists", "2e825b6180f59867"),
    ("regression: shrinkage", "2d578a296777ed66"),
    ("regression: ridge", "b355ba4989b7c116"),
    ("regression: pseudo-inverse", "10ebf658f2b66ba6"),
    ("regression: descent", "fb12c5eb45609c25"),
    ("regression: descent on Huber's loss", "45f70381f09a82a8"),
    ("regression: pooled residuals", "0321df2367b5464f"),
    ("regression: residuals per task", "6d83618bafd23eaa"),
];

struct Hashes {
    data: Private<Interactions>,
    found: Vec<(String, String)>,
}

impl Check for Hashes {
    fn check<T>(&mut self, name: &str, trainer: &T)
    where
        T: Trainer<Data = Private<Interactions>, Error = Error> + Sync,
        T::Model: Numbers,
    {
        let plan = plan_of(trainer);
        let spends = ledger(&plan).reserve(&plan).unwrap();
        let noise = &mut NoiseSource::insecure_seeded(3);
        let fitted = trainer.fit(&self.data, &plan, spends, noise).unwrap();
        let mut hash = Sha256::new();
        for bits in fitted.model.bits() {
            hash.update(bits.to_le_bytes());
        }
        let hash = hash.finalize();
        let hex = hash.iter().take(8).map(|byte| format!("{byte:02x}"));
        self.found.push((name.to_owned(), hex.collect()));
    }
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn models_have_the_bits_that_they_had() {
    if !std::arch::is_x86_feature_detected!("avx512f") {
        return;
    }
    let mut hashes = Hashes {
        data: users(),
        found: Vec::new(),
    };
    for_each_trainer(&mut hashes);
    let pairs = hashes.found.iter().map(|(name, hash)| (&**name, &**hash));
    assert_eq!(pairs.collect::<Vec<_>>(), GOLDEN);
}

/// Keeps the list and the parameters after each round.
#[derive(Default)]
struct Keep {
    entries: Vec<ReleaseEntry>,
    rounds: Vec<Vec<u64>>,
}

impl Observer for Keep {
    fn listed(&mut self, entry: &ReleaseEntry) {
        self.entries.push(entry.clone());
    }

    fn round(&mut self, round: &Round<'_>) {
        assert_eq!(round.round, self.rounds.len());
        let bits = round.parameters.iter().map(|x| x.to_bits());
        self.rounds.push(bits.collect());
    }
}

#[test]
fn a_list_that_ends_early_gives_the_model_of_its_last_whole_round() {
    let data = users();
    for (name, fit) in factorizations() {
        let plan = plan_of(&fit);
        let (mut keep, mut ledger) = (Keep::default(), ledger(&plan));
        let noise = &mut NoiseSource::insecure_seeded(3);
        let run = Run::paying(&plan, &mut ledger, noise).unwrap();
        let list = ReleaseList::hashes_only("r", &plan).unwrap();
        fit.run(&data, run.listed_in(list).observed_by(&mut keep))
            .unwrap();
        for n_entries in 0..=keep.entries.len() {
            let part = keep.entries[..n_entries].to_vec();
            let n_paid = part.iter().map(|entry| entry.paid().len()).sum();
            let list = ReleaseList::of_entries("r", &plan, part).unwrap();
            let made = fit.run(&nobody(), Run::replay(&plan, list).unwrap());
            let n_rounds = fit.n_rounds_after(n_paid);
            if n_rounds == 0 {
                let ended = matches!(made, Err(Error::Mechanism(dp_mechanism::Error::EndOfList)));
                assert!(ended, "{name}");
                continue;
            }
            let made = made.unwrap();
            let factors = made.model.item_factors().iter();
            let bits: Vec<u64> = factors.map(|x| x.to_bits()).collect();
            assert_eq!(bits, keep.rounds[n_rounds], "{name}");
            assert_eq!(made.certificate.releases.len(), n_paid, "{name}");
            made.certificate.verify().unwrap();
        }
        assert_eq!(keep.rounds.len(), fit.params().n_rounds + 1);
    }
}
