//! L4: the exact change of a sum when one user is removed.

use std::fmt;

use dp_core::{Interactions, InteractionsBuilder, Private};
use dp_mechanism::NoiseSource;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::canary::push_user;
use crate::report::Verdict;
use crate::view::View;

/// Outcome of [`audit_sensitivity`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SensitivityAudit {
    /// Name of the release.
    pub label: String,
    /// Number of users removed, one at a time.
    pub n_users: u64,
    /// Largest integer norm that the charged noise allows for one user.
    pub allowed: u64,
    /// Largest norm of the change caused by one user.
    pub largest: f64,
    /// Number of users who changed the sum by more than allowed, in exact integers.
    pub n_breaches: u64,
    /// Outcome.
    pub verdict: Verdict,
}

/// Removes users one at a time and measures the exact change of the integer sum.
///
/// ```text
/// (S + e) - (S' + e) = S - S',    sum_k (S - S')_k^2 <= D^2,   D = floor(sigma / z)
/// ```
///
/// Both releases draw the same repeatable noise `e`, which cancels in integers. So this measures
/// the production path from data to release, without a switch that turns noise off. `z` is the
/// charged noise multiplier, and `D` is computed from it here, not taken from the kernel.
/// Off-diagonal entries of symmetric matrices count twice.
///
/// # Arguments
/// * `data` - the whole table
/// * `users` - the users to remove
/// * `release` - makes one release of a table; called with the same seed each time. For a trainer
///   whose later releases depend on earlier ones, use the first release: only the user may differ.
///
/// # Errors
/// The errors of `release`; [`crate::Error::Shape`] if two releases differ in length.
pub fn audit_sensitivity(
    data: &Interactions,
    users: &[usize],
    mut release: impl FnMut(&Private<Interactions>, &mut NoiseSource) -> Result<View>,
) -> Result<SensitivityAudit> {
    const SEED: u64 = 4;
    let mut run = |table: Private<Interactions>| {
        let view = release(&table, &mut NoiseSource::insecure_seeded(SEED))?;
        view.check()?;
        Ok::<_, crate::Error>(view)
    };
    let whole = run(Private::new(data.clone()))?;
    let allowed = whole.allowed_norm();
    let (mut largest, mut n_breaches) = (0_u128, 0);
    for &user in users {
        let less = run(without_user(data, user)?)?;
        dp_core::params::same_size("release", less.integers.len(), whole.integers.len())?;
        let change: Vec<i64> = whole
            .integers
            .iter()
            .zip(&less.integers)
            .map(|(a, b)| a.wrapping_sub(*b))
            .collect();
        let moved = whole.squared_norm(&change);
        largest = largest.max(moved);
        n_breaches += u64::from(moved > u128::from(allowed).pow(2));
    }
    Ok(SensitivityAudit {
        label: whole.label,
        n_users: users.len() as u64,
        allowed,
        largest: (largest as f64).sqrt(),
        n_breaches,
        verdict: Verdict::of(n_breaches == 0),
    })
}

/// The table without the records of one user.
///
/// # Errors
/// [`crate::Error::Data`] if the table cannot be rebuilt, which does not happen for a valid table.
pub fn without_user(data: &Interactions, gone: usize) -> Result<Private<Interactions>> {
    let dim = data.feature_dim();
    let mut builder = InteractionsBuilder::new(data.n_items()).with_feature_dim(dim);
    let kept = data.users().enumerate().filter(|&(user, _)| user != gone);
    for (new, (_, row)) in (0..).zip(kept) {
        push_user(&mut builder, new, row)?;
    }
    Ok(Private::new(builder.build().0))
}

impl fmt::Display for SensitivityAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}; {} users taken out, the sum moved by at most {:.5} of what is paid for, {} \
             above it",
            self.label,
            self.verdict,
            self.n_users,
            self.largest / self.allowed as f64,
            self.n_breaches
        )
    }
}
