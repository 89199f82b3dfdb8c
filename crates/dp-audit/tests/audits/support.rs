//! Contributions and tables.

use dp_core::{DpEvent, Interactions, InteractionsBuilder, UserRow};
use dp_mechanism::{FactorBuffer, FactorContribution, SparseBuffer, VectorContribution};

pub(crate) const LEVEL: f64 = 1e-9;

/// Contributes the user's values, each in two halves, without any clipping of its own.
pub(crate) struct Halves;

impl VectorContribution for Halves {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        for (item, value) in user.iter() {
            out.push(item, f64::from(value) / 2.0);
        }
        for (item, value) in user.iter() {
            out.push(item, f64::from(value) / 2.0);
        }
    }
}

/// Factors and labels from the user's first value, whose sign determines which of the two is large.
pub(crate) struct Lopsided {
    pub(crate) dim: usize,
}

impl FactorContribution for Lopsided {
    type Scratch = ();

    fn scratch(&self) {}

    fn dim(&self) -> usize {
        self.dim
    }

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut FactorBuffer) {
        let first = f64::from(user.values().first().copied().unwrap_or(0.0));
        let norm = if first >= 0.0 { first } else { 0.3 };
        out.factor.fill(norm / (self.dim as f64).sqrt());
        out.weights.fill(1.0);
        out.labels.fill(if first >= 0.0 { 0.0 } else { first });
    }
}

/// One user per list of (item, value).
pub(crate) fn table(n_items: usize, users: &[Vec<(u32, f32)>]) -> Interactions {
    let mut builder = InteractionsBuilder::new(n_items);
    for (user, records) in (0..).zip(users) {
        for &(item, value) in records {
            builder.push(user, item, value).unwrap();
        }
    }
    builder.ensure_users(users.len());
    builder.build().0
}

/// Users below, at and above a clip norm of 1, with one record and with many, and with numbers
/// whose squares overflow.
pub(crate) fn users_around_the_clip() -> Vec<Vec<(u32, f32)>> {
    let mut users: Vec<Vec<(u32, f32)>> = [
        0.5,
        1.0,
        -1.0,
        1.2,
        1.9,
        3.0,
        -3.0,
        1e6,
        1e30,
        -3e38,
        f32::MAX,
    ]
    .iter()
    .map(|&value| vec![(0, value)])
    .collect();
    for (n, value) in [
        (4, 0.5),
        (4, 0.6),
        (9, 0.9),
        (9, -0.9),
        (16, 0.25),
        (9, 2e38),
    ] {
        users.push((0..n).map(|item| (item, value)).collect());
    }
    users
}

/// The range that an event claims, nats.
pub(crate) fn claimed_range(event: &DpEvent) -> f64 {
    match event {
        DpEvent::BoundedRange { epsilon, .. } => *epsilon,
        _ => f64::NAN,
    }
}
