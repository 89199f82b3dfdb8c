//! Passes the exact sum of each shard of users to a backend, once.

use std::sync::atomic::{AtomicUsize, Ordering};

use dp_core::{Interactions, Private, ShapeError, params};

use super::{SumBackend, SumRequest};
use crate::Result;

/// The sum over all users, computed by `backend`; `local` sums the users of one shard.
///
/// # Errors
/// The errors of `local` and `backend`; [`crate::Error::Shape`] if the backend requests a shard
/// twice, leaves one out or returns another length, [`crate::Error::Param`] if it has no shards.
pub(crate) fn sum_over_users(
    backend: &dyn SumBackend,
    data: &Interactions,
    request: &SumRequest,
    local: &(dyn Fn(&Interactions) -> Result<Vec<i64>> + Sync),
) -> Result<Vec<i64>> {
    let n_coordinates = request.n_coordinates;
    let n_shards = params::at_least_one("n_shards", backend.n_shards())?;
    let cut = match n_shards {
        1 => Vec::new(), // nothing to copy
        _ => data.shards(n_shards),
    };
    let shards: Vec<&Interactions> = match n_shards {
        1 => vec![data],
        _ => cut.iter().collect(),
    };
    let asked: Vec<AtomicUsize> = shards.iter().map(|_| AtomicUsize::new(0)).collect();
    let total = backend.sum(request, &|at| {
        let (Some(shard), Some(times)) = (shards.get(at), asked.get(at)) else {
            return Err(wrong(
                "number of a shard plus one",
                at.saturating_add(1),
                n_shards,
            ));
        };
        once(times.fetch_add(1, Ordering::Relaxed).saturating_add(1))?;
        Ok(Private::new(local(shard)?))
    })?;
    for times in asked.into_iter().filter(|_| !backend.is_remote()) {
        once(times.into_inner())?;
    }
    let total = total.into_exposed();
    params::same_size("sum of the backend", total.len(), n_coordinates)?;
    Ok(total)
}

/// A shard that is added twice would double what its users contribute.
fn once(times: usize) -> Result<()> {
    match times {
        1 => Ok(()),
        _ => Err(wrong("times that a shard was summed", times, 1)),
    }
}

fn wrong(name: &'static str, found: usize, expected: usize) -> crate::Error {
    ShapeError {
        name,
        found,
        expected,
    }
    .into()
}

/// Prefetches the features of the next user, which a task reads next.
pub(crate) fn fetch_next(data: &Interactions, user: usize) {
    let next = user.saturating_add(1);
    if next < data.n_users() {
        dp_linalg::prefetch(data.user(next).features());
    }
}
