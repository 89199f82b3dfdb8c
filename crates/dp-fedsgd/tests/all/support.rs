//! Data and payments shared by these tests.

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, UserRow, UserSamples, UserSamplesBuilder};
use dp_data::{OffsetData, PersonalOffsets};
use dp_fedsgd::{AdditiveLoss, AdditiveModel, Observed, ObservedSums, Observer, PpSgdModel, Round};
use dp_mechanism::{ClientPolicy, ClientRecord, Grid, ReleasedVector};
use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};

/// Spends of a plan, from a separate ledger.
pub(crate) fn paid(plan: &Plan) -> Vec<Spend> {
    let budget = Budget::schedule(plan.target(), plan.adjacency()).unwrap();
    Ledger::in_memory("test", budget)
        .unwrap()
        .reserve(plan)
        .unwrap()
}

/// A client's record that refuses nothing except repeats.
pub(crate) fn trusting() -> ClientRecord {
    ClientRecord::in_memory(ClientPolicy::trusting()).unwrap()
}

/// Observes releases.
pub(crate) struct OnRelease<F>(pub(crate) F);

impl<F: FnMut(Release<'_>)> Observer for OnRelease<F> {
    fn release(&mut self, seen: &Observed<'_>) {
        if let ObservedSums::Vector {
            grid,
            released,
            one_user,
        } = seen.sums
        {
            (self.0)(Release {
                grid,
                released,
                one_user,
            });
        }
    }
}

/// The release of a round, with each user's contribution.
pub(crate) struct Release<'a> {
    pub(crate) grid: &'a Grid,
    pub(crate) released: &'a ReleasedVector,
    pub(crate) one_user: &'a dyn Fn(UserRow<'_>) -> Vec<(usize, i64)>,
}

/// Observes rounds.
pub(crate) struct OnRound<F>(pub(crate) F);

impl<F: FnMut(&Round<'_>)> Observer for OnRound<F> {
    fn round(&mut self, round: &Round<'_>) {
        (self.0)(round);
    }
}

/// Bits of the shared parameters and their averages, and of the local ones of `n_users` users.
pub(crate) fn bits(model: &PpSgdModel, n_users: usize) -> Vec<u64> {
    let (shared, own) = (&model.shared, model.local.expose());
    let users = (0..n_users).flat_map(|user| [Some(own.last(user)), own.average(user)]);
    let all = [Some(shared.last()), shared.average()]
        .into_iter()
        .chain(users);
    let kept = shared.kept().iter().flat_map(|kept| &kept.shared);
    let numbers = all.flatten().flatten().chain(kept);
    numbers.map(|x| x.to_bits()).collect()
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

/// Small pseudo-random numbers in [-1, 1).
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
