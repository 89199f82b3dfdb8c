//! Where minibatches come from.

use dp_core::{Interactions, Private, SampleRows, UserRow, UserSamples, params};

use crate::{Minibatch, Result};

/// The users' data, a minibatch at a time.
///
/// # Privacy
/// [`fill`](Self::fill) runs where the user's data are and may use that user's row and public values only: it decides what a
/// user's gradient depends on. Wrapping it in a type like [`HeldBatches`] or [`StreamedBatches`] keeps that in one place.
pub trait UserBatches: Sync {
    /// The users. Only their rows' places in memory and what `fill` reads of them are used. The table needs features.
    fn table(&self) -> &Private<Interactions>;

    /// Numbers in `x`.
    fn n_features(&self) -> usize;

    /// Replaces the rows of `out` with those of the user's local step number `step`, from 0.
    fn fill(&self, user: UserRow<'_>, step: u64, out: &mut Minibatch);
}

/// Rows that users hold, `batch_size` at a time in their order and round again from the first.
///
/// A user with fewer rows than that gives all of them in every step, one without rows none: its gradient is 0.
///
/// # Examples
/// ```
/// use dp_core::UserSamplesBuilder;
/// use dp_fedsgd::{HeldBatches, Minibatch, UserBatches};
/// let mut builder = UserSamplesBuilder::new(1, 3)?;
/// for x in [1.0, 2.0, 3.0] {
///     builder.push(0, &[x], 0.0)?;
/// }
/// let samples = builder.build().0;
/// let batches = HeldBatches::new(&samples, 2)?;
/// let mut batch = Minibatch::new(1);
/// batches.fill(samples.table().expose().user(0), 1, &mut batch);
/// let rows: Vec<f32> = batch.rows().map(|(x, _)| x[0]).collect();
/// assert_eq!(rows, [3.0, 1.0]); // the second step
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
#[allow(
    missing_debug_implementations,
    reason = "refers to private records; printing them is never wanted"
)]
pub struct HeldBatches<'a> {
    samples: &'a UserSamples,
    batch_size: usize,
}

impl<'a> HeldBatches<'a> {
    /// Minibatches of `batch_size` rows of these users.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `batch_size` is 0.
    pub fn new(samples: &'a UserSamples, batch_size: usize) -> Result<Self> {
        params::at_least_one("batch_size", batch_size)?;
        Ok(Self {
            samples,
            batch_size,
        })
    }
}

impl UserBatches for HeldBatches<'_> {
    fn table(&self) -> &Private<Interactions> {
        self.samples.table()
    }

    fn n_features(&self) -> usize {
        self.samples.n_features()
    }

    fn fill(&self, user: UserRow<'_>, step: u64, out: &mut Minibatch) {
        out.clear();
        let rows = SampleRows::of(user, self.samples.n_features());
        let n = rows.iter().count();
        if n == 0 {
            return;
        }
        let size = self.batch_size.min(n);
        let first = step.wrapping_mul(size as u64) % n as u64;
        let first = usize::try_from(first).unwrap_or(0);
        let round_again = rows.iter().chain(rows.iter());
        for (x, y) in round_again.skip(first).take(size) {
            out.push(x, y);
        }
    }
}

/// Rows made or fetched as they are asked for, by a function of the user's own row and the step.
///
/// # Examples
/// ```
/// use dp_data::PersonalOffsets;
/// use dp_fedsgd::StreamedBatches;
/// use rand::SeedableRng;
/// let set_up = PersonalOffsets { n_users: 3, ..PersonalOffsets::figure_1a() };
/// let data = set_up.generate(&mut rand_chacha::ChaCha8Rng::seed_from_u64(1))?;
/// let batches = StreamedBatches::new(&data.table, set_up.dim, |user, step, out| {
///     data.rows(user, step, 10, out.cells_mut());
/// });
/// # let _ = batches;
/// # Ok::<(), dp_data::Error>(())
/// ```
#[allow(
    missing_debug_implementations,
    reason = "refers to private records; printing them is never wanted"
)]
pub struct StreamedBatches<'a, F> {
    table: &'a Private<Interactions>,
    n_features: usize,
    fill: F,
}

impl<'a, F: Fn(UserRow<'_>, u64, &mut Minibatch) + Sync> StreamedBatches<'a, F> {
    /// Minibatches of these users, of rows with `n_features` numbers, written by `fill`.
    #[must_use]
    pub const fn new(table: &'a Private<Interactions>, n_features: usize, fill: F) -> Self {
        Self {
            table,
            n_features,
            fill,
        }
    }
}

impl<F: Fn(UserRow<'_>, u64, &mut Minibatch) + Sync> UserBatches for StreamedBatches<'_, F> {
    fn table(&self) -> &Private<Interactions> {
        self.table
    }

    fn n_features(&self) -> usize {
        self.n_features
    }

    fn fill(&self, user: UserRow<'_>, step: u64, out: &mut Minibatch) {
        out.clear();
        (self.fill)(user, step, out);
    }
}
