//! Sums on samples: which users they contain, what they cost, and what clients may send.
//!
//! Keys are seeded, so the outcomes are reproducible; with new seeds, each false-alarm rate is
//! below 1e-9.

use dp_accounting::{Budget, Ledger, Plan, PlannedRelease, Spend};
use dp_core::{Adjacency, ApproxDp, DpEvent, ReplaceFactor, UserRow};

use super::bounded::square;
use super::*;
use crate::contribution::SparseBuffer;
use crate::test_support::{
    DRAWS_FOR_ONE_PERCENT, LEVEL_1E_9, Lcg, spends, spends_of, table, variance_score,
};
use crate::{ClientSample, FixedSizeSampling, PaidSample, PoissonSampling};

const N_ITEMS: usize = 12;

struct Votes;

impl VectorContribution for Votes {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        for (item, value) in user.iter() {
            out.push(item, f64::from(value) * 0.4);
        }
    }
}

fn grid() -> Grid {
    Grid::new(2.0, 2.0).unwrap()
}

fn poisson(q: f64) -> ClientSampling {
    PoissonSampling::new(q).unwrap().into()
}

fn fixed(m: usize, n: usize) -> ClientSampling {
    FixedSizeSampling::new(m, n).unwrap().into()
}

fn seeded(seed: u64) -> NoiseSource {
    NoiseSource::insecure_seeded(seed)
}

/// What users send, dense, one row each.
fn rows(data: &Interactions) -> Vec<Vec<i64>> {
    let dense = |user| {
        let mut row = vec![0; N_ITEMS];
        for (item, z) in vector_contribution(&grid(), N_ITEMS, &Votes, user) {
            row[item] = z;
        }
        row
    };
    data.users().map(dense).collect()
}

/// The sum of some rows in wide integers, wrapped at the end.
fn sum_of<'r>(rows: impl IntoIterator<Item = &'r Vec<i64>>) -> Vec<i64> {
    let mut sums = [0_i128; N_ITEMS];
    for row in rows {
        for (sum, &z) in sums.iter_mut().zip(row) {
            *sum += i128::from(z);
        }
    }
    let wrap = |s: &i128| i64::try_from(s.rem_euclid(1 << 64) - (1 << 63)).unwrap() ^ i64::MIN;
    sums.iter().map(wrap).collect()
}

/// A given sample with a spend that is cheap to create, for sums that are not released.
fn paid_for(sample: ClientSample, n_draws: u64) -> PaidSample {
    let spend = spends(&[(2.0, ReplaceFactor::Two, n_draws)]).remove(0);
    PaidSample::for_tests(sample, spend)
}

/// A spend for one release of an event.
fn step(event: DpEvent, n_draws: u64) -> Spend {
    steps(event, n_draws, 1).remove(0)
}

/// Spends for releases of an event, under the adjacency for which it is defined.
fn steps(event: DpEvent, n_draws: u64, n: usize) -> Vec<Spend> {
    let adjacency = match event {
        DpEvent::SampledWithoutReplacement { .. } => Adjacency::ReplaceUser,
        _ => Adjacency::AddRemoveUser,
    };
    spends_of(
        vec![PlannedRelease::new("step", event, n_draws); n],
        adjacency,
    )
}

mod messages;
mod sums;
