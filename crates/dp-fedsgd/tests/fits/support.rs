//! Data and payment shared by these tests.

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, UserSamples, UserSamplesBuilder};
use dp_data::{OffsetData, PersonalOffsets};
use dp_fedsgd::{AdditiveLoss, AdditiveModel};
use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};

/// Spends of a plan, from a ledger of their own.
pub(crate) fn paid(plan: &Plan) -> Vec<Spend> {
    let budget = Budget::schedule(plan.target(), plan.adjacency()).unwrap();
    Ledger::in_memory("test", budget)
        .unwrap()
        .reserve(plan)
        .unwrap()
}

pub(crate) const ADD_REMOVE: Adjacency = Adjacency::AddRemoveUser;

pub(crate) fn squared(dim: usize) -> AdditiveModel {
    AdditiveModel::new(AdditiveLoss::Squared, dim).unwrap()
}

pub(crate) fn offsets(n_users: usize, dim: usize, seed: u64) -> OffsetData {
    let set_up = PersonalOffsets {
        n_users,
        dim,
        ..PersonalOffsets::figure_1a()
    };
    set_up
        .generate(&mut ChaCha20Rng::seed_from_u64(seed))
        .unwrap()
}

/// Small made numbers in [-1, 1).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn next(&mut self) -> f32 {
        (self.word() >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
    }
}

/// Users with 1 to `most` rows.
pub(crate) fn samples(n_users: u32, n_features: usize, most: usize, seed: u64) -> UserSamples {
    let mut numbers = Numbers(seed);
    let mut builder = UserSamplesBuilder::new(n_features, most).unwrap();
    for user in 0..n_users {
        for _ in 0..1 + user as usize % most {
            let x: Vec<f32> = (0..n_features).map(|_| numbers.next()).collect();
            let y = 2.0 * x[0] + 0.1 * numbers.next();
            builder.push(user, &x, y).unwrap();
        }
    }
    builder.build().0
}
