//! Cost of the audits of dp-audit compared with the draws and releases that they check.
//!
//! `cargo bench -p dp-benches --bench audit`

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark may stop at a broken invariant"
)]

use std::hint::black_box;

use dp_audit::{audit_release, audit_sampler, observe_vector, testing};
use dp_benches::{Contestant, take_turns};
use dp_core::{Interactions, InteractionsBuilder, Private, ReplaceFactor, UserRow};
use dp_mechanism::{NoiseSource, SparseBuffer, VectorContribution};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};

const N_DRAWS: usize = 1 << 18;
const DIM: usize = 20_000;
const LEVEL: f64 = 1e-9;
/// Scale of the draws, on the integers.
const SIGMA: u64 = 1024;

/// One half for each of the user's items.
struct Vote;

impl VectorContribution for Vote {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, _: &mut (), out: &mut SparseBuffer) {
        for &item in user.items() {
            out.push(item, 0.5);
        }
    }
}

fn main() {
    let data = Private::new(votes());
    let view = || {
        let spend = testing::spends(&[(3.0, ReplaceFactor::Two, DIM as u64)])
            .unwrap()
            .remove(0);
        observe_vector(
            &data,
            DIM,
            1.0,
            &Vote,
            spend,
            &mut NoiseSource::insecure_seeded(1),
        )
        .unwrap()
    };
    let seen = view();
    let draws = draws();
    let mut contestants = [
        Contestant::new(|| drop(black_box(view()))),
        Contestant::new(|| drop(black_box(audit_release(&seen, LEVEL).unwrap()))),
        Contestant::new(|| {
            let audit = audit_sampler(black_box(&draws).iter().copied(), SIGMA, LEVEL);
            drop(black_box(audit.unwrap()));
        }),
    ];
    let times = take_turns(&mut contestants, 21, 0.02);
    println!("                                          ns a number   (fastest turns)");
    let rows = [
        ("a release of 20,000 numbers, observed", DIM),
        ("audit_release of it", DIM),
        ("audit_sampler of 262,144 draws", N_DRAWS),
    ];
    for ((name, n), time) in rows.iter().zip(&times) {
        println!("{name:42} {:8.1}", time.best / *n as f64 * 1e9);
    }
}

/// Normal numbers rounded down: the distribution of the draws does not affect the cost of checking
/// them.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a few thousand at the most"
)]
fn draws() -> Vec<i64> {
    let rng = ChaCha8Rng::seed_from_u64(2);
    let normal = Normal::new(0.0, SIGMA as f64).unwrap();
    let made = normal.sample_iter(rng).map(|x: f64| x.floor() as i64);
    made.take(N_DRAWS).collect()
}

fn votes() -> Interactions {
    let mut builder = InteractionsBuilder::new(DIM);
    for user in 0..1000_u32 {
        for at in 0..20 {
            builder.push(user, (user * 20 + at) % 20_000, 1.0).unwrap();
        }
    }
    builder.build().0
}
