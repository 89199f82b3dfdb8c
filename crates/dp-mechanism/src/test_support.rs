//! Data, spends and statistics shared by this crate's tests.

use dp_accounting::{Budget, Ledger, Plan, PlannedRelease, Spend};
use dp_core::{Adjacency, Interactions, InteractionsBuilder, Private, ReplaceFactor};

/// A small deterministic generator, sufficient for test data.
pub(crate) struct Lcg(pub(crate) u64);

impl Lcg {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Uniform in [-1, 1).
    pub(crate) fn signed(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    /// A number that a careless or malicious client might send.
    pub(crate) fn hostile(&mut self) -> f64 {
        match self.below(12) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => f64::MAX,
            4 => -f64::MAX,
            5 => 5e-324,
            6 => -0.0,
            7 => 1e38,
            8 => self.signed() * 1e6,
            _ => self.signed(),
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "values are drawn in [-3, 3)"
)]
/// A table of `n_users` with up to `most` items each; a few users have none.
pub(crate) fn table(n_users: u32, n_items: usize, most: u64, seed: u64) -> Interactions {
    let mut rng = Lcg(seed);
    let mut builder = InteractionsBuilder::new(n_items);
    for user in 0..n_users {
        for _ in 0..rng.below(most + 1) {
            let item = u32::try_from(rng.below(n_items as u64)).unwrap();
            builder.push(user, item, rng.signed() as f32 * 3.0).unwrap();
        }
    }
    builder.push(n_users - 1, 0, 1.0).unwrap();
    builder.ensure_users(n_users as usize);
    builder.build().0
}

/// The table without one user; all others keep their records and move up by one.
pub(crate) fn without_user(table: &Interactions, gone: usize) -> Private<Interactions> {
    rebuilt(table, (0..table.n_users()).filter(|&user| user != gone))
}

/// The users in another order.
pub(crate) fn rebuilt(
    table: &Interactions,
    order: impl IntoIterator<Item = usize>,
) -> Private<Interactions> {
    let mut builder = InteractionsBuilder::new(table.n_items());
    for (new, old) in (0..).zip(order) {
        builder.ensure_users(new as usize + 1);
        for (item, value) in table.user(old).iter() {
            builder.push(new, item, value).unwrap();
        }
    }
    Private::new(builder.build().0)
}

/// Spends for releases with the given noise multipliers and draws.
pub(crate) fn spends(releases: &[(f64, ReplaceFactor, u64)]) -> Vec<Spend> {
    let releases = releases
        .iter()
        .map(|&(z, factor, draws)| PlannedRelease::gaussian("test", z, factor, draws).unwrap())
        .collect();
    spends_of(releases, Adjacency::AddRemoveUser)
}

/// Spends for releases of any kind.
pub(crate) fn spends_of(releases: Vec<PlannedRelease>, adjacency: Adjacency) -> Vec<Spend> {
    let plan = Plan::with_noise_multipliers(1e-5, adjacency, releases).unwrap();
    let mut target = plan.target();
    target.epsilon += 1.0;
    let budget = Budget::schedule(target, adjacency).unwrap();
    Ledger::in_memory("test", budget)
        .unwrap()
        .reserve(&plan)
        .unwrap()
}

/// Standard score of `sum r^2` relative to chi-square with `n` degrees of freedom, for noise of
/// scale `sigma` floored to integers: `r = (Y - S + 1/2) / sigma`.
///
/// The normal approximation of chi-square is more than accurate enough for n >= 5e5. Flooring adds
/// a variance of 1/12 of a squared integer, which is negligible at the scales used here.
pub(crate) fn variance_score(released: &[i64], sums: &[i64], sigma: impl Fn(usize) -> f64) -> f64 {
    let n = released.len() as f64;
    let total: f64 = released
        .iter()
        .zip(sums)
        .enumerate()
        .map(|(at, (&y, &s))| {
            let r = (y.wrapping_sub(s) as f64 + 0.5) / sigma(at);
            r * r
        })
        .sum();
    (total - n) / (2.0 * n).sqrt()
}

/// Number of draws that detect noise too small by 1 percent with level 1e-9 and power 1 - 1e-6.
pub(crate) const DRAWS_FOR_ONE_PERCENT: usize = 572_618;
/// Standard score of level 1e-9, one-sided.
pub(crate) const LEVEL_1E_9: f64 = 5.998;
