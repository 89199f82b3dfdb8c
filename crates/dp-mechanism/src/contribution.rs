//! What a user contributes to a sum, as a function of that user's own records and public values.

use dp_core::UserRow;

/// One user's contribution to a vector sum.
///
/// The method receives one user's records and no data of other users. Everything it captures must
/// be public or already released: the kernel enforces how *much* a user contributes, but only this
/// signature restricts what the contribution may *depend on*.
pub trait VectorContribution: Sync {
    /// Working memory, for speed. It is passed from one user of a thread to the next, so its
    /// contents must not affect what the next user contributes. In debug builds every user gets a
    /// new one.
    type Scratch: Send;

    /// Creates new working memory.
    fn scratch(&self) -> Self::Scratch;

    /// Whether contributions read the users' feature vectors, which are then prefetched; false if
    /// everything needed from them was computed before. This affects only speed.
    fn reads_features(&self) -> bool {
        true
    }

    /// Pushes this user's non-zero coordinates in data units.
    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut SparseBuffer);

    /// The same coordinates for an observer. If contributing changes a user's own state, observing
    /// the user must not change it, so that an audited run is identical to one that is not audited.
    fn observe(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut SparseBuffer) {
        self.contribute(user, scratch, out);
    }
}

/// One user's contribution to per-item sums `A_i = sum w x x^T` and `b_i = sum w y x`.
///
/// The same rule as for [`VectorContribution`] applies: only the user's own records, and values
/// that are public or released.
pub trait FactorContribution: Sync {
    /// Working memory, for speed. It is passed from one user of a thread to the next, so its
    /// contents must not affect what the next user contributes. In debug builds every user gets a
    /// new one.
    type Scratch: Send;

    /// Creates new working memory.
    fn scratch(&self) -> Self::Scratch;

    /// Length of the factor `x`, the same for every user.
    fn dim(&self) -> usize;

    /// As [`VectorContribution::reads_features`].
    fn reads_features(&self) -> bool {
        true
    }

    /// Fills the user's factor, and the weight and label of each of the user's records.
    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut FactorBuffer);
}

/// Coordinates of one user's contribution to a vector sum.
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds a private contribution; printing it is never wanted"
)]
pub struct SparseBuffer {
    pub(crate) entries: Vec<(u32, f64)>,
    /// The quantised entries, computed by the kernel.
    pub(crate) integers: Vec<(usize, i64)>,
    /// Coordinates from 0 on, for a user who has values in all of them.
    pub(crate) dense: Vec<f64>,
}

impl SparseBuffer {
    /// Adds `value` (data units) at coordinate `index`. Repeated indices are added up; an index
    /// outside the sum is ignored.
    pub fn push(&mut self, index: u32, value: f64) {
        self.entries.push((index, value));
    }

    /// The first `n` coordinates as one slice, initially zeros: the fast way for contributions that
    /// have values in all of them. Values that are pushed as well are added.
    pub fn dense(&mut self, n: usize) -> &mut [f64] {
        self.dense.resize(n, 0.0);
        &mut self.dense
    }

    /// Removes the data of the previous user.
    pub(crate) fn reset(&mut self) {
        self.entries.clear();
        self.integers.clear();
        self.dense.clear();
    }

    /// Whether the contribution consists of exactly one number for each of `n` coordinates.
    pub(crate) const fn is_dense(&self, n: usize) -> bool {
        self.dense.len() == n && self.entries.is_empty()
    }

    /// Converts the dense coordinates to entries like the others.
    pub(crate) fn spread(&mut self) {
        self.entries.extend((0..).zip(self.dense.drain(..)));
    }
}

/// Adds coordinates with their values, like repeated calls of [`push`](SparseBuffer::push).
impl Extend<(u32, f64)> for SparseBuffer {
    fn extend<I: IntoIterator<Item = (u32, f64)>>(&mut self, entries: I) {
        self.entries.extend(entries);
    }
}

/// One user's factor with the weights and labels of the user's records, in record order.
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds a private contribution; printing it is never wanted"
)]
pub struct FactorBuffer {
    /// The factor `x`, length `dim`.
    pub factor: Vec<f64>,
    /// Weight `w >= 0` of each record; a negative or NaN weight counts as 0.
    pub weights: Vec<f64>,
    /// Label `y` of each record.
    pub labels: Vec<f64>,
}

impl FactorBuffer {
    pub(crate) fn reset(&mut self, dim: usize, n_records: usize) {
        for (vector, len) in [
            (&mut self.factor, dim),
            (&mut self.weights, n_records),
            (&mut self.labels, n_records),
        ] {
            vector.clear();
            vector.resize(len, 0.0);
        }
    }
}

/// A contribution of any type that writes to a buffer `B`, so that the sums over users are compiled
/// once, in this crate.
pub(crate) trait AnyContribution<B>: Sync {
    /// What contributes for the users of one thread, with working memory of its own.
    fn contributor(&self) -> Contributor<'_, B>;

    /// The same for an observer, with [`VectorContribution::observe`].
    fn observed(&self) -> Contributor<'_, B> {
        self.contributor()
    }

    /// As [`VectorContribution::reads_features`].
    fn reads_features(&self) -> bool;
}

/// Writes a user's contribution to the buffer.
pub(crate) type Contributor<'a, B> = Box<dyn FnMut(UserRow<'_>, &mut B) + Send + 'a>;

/// A contributor with working memory. In debug builds every user gets a new one, so that tests
/// detect what a user leaves in it.
pub(crate) fn with_scratch<'a, B, S: Send + 'a>(
    scratch: impl Fn() -> S + Send + 'a,
    contribute: impl Fn(UserRow<'_>, &mut S, &mut B) + Send + 'a,
) -> Contributor<'a, B> {
    let mut own = scratch();
    Box::new(move |user, out| {
        if cfg!(debug_assertions) {
            own = scratch();
        }
        contribute(user, &mut own, out);
    })
}

impl<C: VectorContribution> AnyContribution<SparseBuffer> for C {
    fn contributor(&self) -> Contributor<'_, SparseBuffer> {
        with_scratch(
            || self.scratch(),
            |user, scratch, out| self.contribute(user, scratch, out),
        )
    }

    fn observed(&self) -> Contributor<'_, SparseBuffer> {
        with_scratch(
            || self.scratch(),
            |user, scratch, out| self.observe(user, scratch, out),
        )
    }

    fn reads_features(&self) -> bool {
        VectorContribution::reads_features(self)
    }
}

impl<C: FactorContribution> AnyContribution<FactorBuffer> for C {
    fn contributor(&self) -> Contributor<'_, FactorBuffer> {
        with_scratch(
            || self.scratch(),
            |user, scratch, out| self.contribute(user, scratch, out),
        )
    }

    fn reads_features(&self) -> bool {
        FactorContribution::reads_features(self)
    }
}
