//! Sources of minibatches.

use std::ops::Deref;
use std::sync::Arc;

use dp_core::{Interactions, PerUser, Private, UserRow, UserSamples, params};

use crate::{Minibatch, Result};

/// The users' data, one minibatch at a time.
///
/// # Privacy
/// [`fill`](Self::fill) runs where the user's data are stored, and may use only that user's row and
/// public values: it decides what the user's gradient depends on. A wrapper type such as
/// [`HeldBatches`] or [`StreamedBatches`] keeps that code in one place.
pub trait UserBatches: Sync {
    /// The users. Only their keys are used, and whatever `fill` reads from their rows.
    fn table(&self) -> &Private<Interactions>;

    /// Number of features in `x`.
    fn n_features(&self) -> usize;

    /// Replaces the rows of `out` with the minibatch of the user's local step `step`, counted from
    /// 0.
    fn fill(&self, user: UserRow<'_>, step: u64, out: &mut Minibatch);
}

/// Rows that users hold, `batch_size` at a time in their order, starting again from the first after
/// the last.
///
/// A user with fewer rows than `batch_size` contributes all of them in every step. A user without
/// rows contributes none: their gradient is 0.
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
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "refers to private records; printing them is never wanted"
)]
pub struct HeldBatches<'a> {
    samples: Samples<'a>,
    batch_size: usize,
    /// Computed once for these users; for any other user, computed on request.
    usable: PerUser<UsableRows>,
    /// Upper bound on the norm of a row's features.
    most: Option<f64>,
}

/// Borrowed or owned rows.
#[derive(Clone)]
enum Samples<'a> {
    Borrowed(&'a UserSamples),
    Owned(Arc<UserSamples>),
}

impl Deref for Samples<'_> {
    type Target = UserSamples;

    fn deref(&self) -> &UserSamples {
        match self {
            Self::Borrowed(samples) => samples,
            Self::Owned(samples) => samples,
        }
    }
}

/// A user's rows with at least one non-zero feature.
#[derive(Clone, Copy)]
struct UsableRows {
    n: usize,
    /// Whether these are the first `n` rows, so that a row's number is its position.
    leading: bool,
}

impl UsableRows {
    fn of(user: UserRow<'_>, width: usize) -> Self {
        let rows = user.features().chunks_exact(width);
        let n = rows.clone().filter(|row| is_usable(row)).count();
        let leading = rows.take(n).all(is_usable);
        Self { n, leading }
    }
}

fn is_usable(row: &[f32]) -> bool {
    let x = row.split_last().map_or(row, |(_, x)| x);
    x.iter().any(|&x| x != 0.0)
}

impl<'a> HeldBatches<'a> {
    /// Minibatches of `batch_size` rows of these users.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `batch_size` is 0.
    pub fn new(samples: &'a UserSamples, batch_size: usize) -> Result<Self> {
        Self::of(Samples::Borrowed(samples), batch_size)
    }

    fn of(samples: Samples<'a>, batch_size: usize) -> Result<Self> {
        params::at_least_one("batch_size", batch_size)?;
        let (table, width) = (samples.table().expose(), samples.n_features() + 1);
        Ok(Self {
            usable: PerUser::of(table, |user| UsableRows::of(user, width)),
            samples,
            batch_size,
            most: None,
        })
    }

    /// Scales rows whose features have a norm above `norm` down, features and label alike. In an
    /// additive model with squared loss such rows weigh less, and the optimum of a linear model
    /// stays an optimum. The curvature of a user's mean loss is then at most `norm^2` for the
    /// squared loss and a quarter of that for the logistic loss. A row with a value that is not
    /// finite becomes 0.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `norm` is not finite and positive.
    pub fn clipped(self, norm: f64) -> Result<Self> {
        let most = Some(params::finite_positive("norm", norm)?);
        Ok(Self { most, ..self })
    }
}

/// Scales every row of `n` features and a label so that the norm of its features is at most `most`.
#[allow(
    clippy::cast_possible_truncation,
    reason = "rows are in single precision"
)]
fn clip_rows(cells: &mut [f32], n: usize, most: f64) {
    for row in cells.chunks_exact_mut(n + 1) {
        let squares = row[..n].iter().map(|&x| f64::from(x) * f64::from(x));
        let norm = squares.sum::<f64>().sqrt();
        if norm <= most {
            continue;
        }
        // slightly smaller, because each number is rounded
        let factor = if norm.is_finite() {
            most / norm * (1.0 - 1e-6)
        } else {
            0.0
        };
        for cell in row {
            *cell = (f64::from(*cell) * factor) as f32;
            if !cell.is_finite() {
                *cell = 0.0;
            }
        }
    }
}

impl HeldBatches<'static> {
    /// The same as [`new`](Self::new), but owns the samples.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn owning(samples: UserSamples, batch_size: usize) -> Result<Self> {
        Self::of(Samples::Owned(Arc::new(samples)), batch_size)
    }
}

impl HeldBatches<'_> {
    /// Index of the first row of a user's minibatch among `n` non-empty rows, and the number of
    /// rows in it.
    fn batch(&self, n: usize, step: u64) -> (usize, usize) {
        let size = self.batch_size.min(n);
        let first = step.wrapping_mul(size as u64) % n.max(1) as u64;
        (usize::try_from(first).unwrap_or(0), size)
    }

    /// Prefetches the minibatch of the user at `place` in the table. Only the time to read it
    /// depends on this.
    fn prefetch(&self, place: usize, step: u64) {
        let Some(&UsableRows { n, leading: true }) = self.usable.values().get(place) else {
            return;
        };
        let (first, size) = self.batch(n, step);
        let (end, width) = (n.min(first + size), self.samples.n_features() + 1);
        let features = self.samples.table().expose().user(place).features();
        dp_linalg::prefetch(&features[first * width..end * width]);
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
        let width = self.samples.n_features() + 1;
        let place = self.usable.place(user.key());
        let UsableRows { n, leading } = match place {
            Some(place) => {
                self.prefetch(place + 1, step); // the user most likely to be next
                self.usable.values()[place]
            }
            None => UsableRows::of(user, width),
        };
        if n == 0 {
            return;
        }
        let (first, size) = self.batch(n, step);
        if leading {
            let end = n.min(first + size);
            let rows = &user.features()[..n * width];
            let again = size - (end - first); // wraps around
            out.cells_mut()
                .extend_from_slice(&rows[first * width..end * width]);
            out.cells_mut().extend_from_slice(&rows[..again * width]);
        } else {
            let rows = user
                .features()
                .chunks_exact(width)
                .filter(|row| is_usable(row));
            for row in rows.clone().chain(rows).skip(first).take(size) {
                out.cells_mut().extend_from_slice(row);
            }
        }
        if let Some(most) = self.most {
            clip_rows(out.cells_mut(), width - 1, most);
        }
    }
}

/// Rows generated or fetched on request, by a function of the user's own row and the step.
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
    /// Minibatches of these users, with `n_features` features per row, written by `fill`.
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

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;

    use super::*;

    #[test]
    fn long_rows_are_scaled_and_short_ones_are_as_they_are() {
        let mut builder = UserSamplesBuilder::new(2, 4).unwrap();
        for (x, y) in [
            ([3.0, 4.0], 10.0),
            ([0.5, 0.8], 7.0),
            ([f32::MAX, 0.0], 1.0),
        ] {
            builder.push(0, &x, y).unwrap();
        }
        let samples = builder.build().0;
        let batches = HeldBatches::new(&samples, 3).unwrap().clipped(1.0).unwrap();
        let mut batch = Minibatch::new(2);
        batches.fill(samples.table().expose().user(0), 0, &mut batch);
        let rows: Vec<_> = batch.rows().map(|(x, y)| (x[0], x[1], y)).collect();
        assert!((rows[0].0 - 0.6).abs() < 1e-5 && (rows[0].2 - 2.0).abs() < 1e-5);
        assert_eq!(rows[1], (0.5, 0.8, 7.0));
        assert!(rows[2].0 <= 1.0 && rows[2].2.abs() < 1e-6);
        assert!(HeldBatches::new(&samples, 3).unwrap().clipped(0.0).is_err());
    }
}
