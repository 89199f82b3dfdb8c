//! Labelled feature vectors, several per user.

use crate::{
    DroppedRecords, Interactions, InteractionsBuilder, ParamError, Private, Result, UserRow,
    params::in_range,
};

/// The design matrix and labels of every user: up to `max_rows` rows `(x, y)`, with `n_features`
/// numbers in `x`.
///
/// The rows are stored as an [`Interactions`] table, so that the sums in the kernel can run on
/// them: the table has one item, and each user has one record and one feature vector. The feature
/// vector holds the rows one after the other, each `x` followed by its `y`, padded with zeros after
/// the last row; [`SampleRows`] reads it. The record's value is a number in [0, 1) hashed from the
/// user's own rows. It assigns users to batches without reference to other users. It does not
/// depend on the number under which the user was added, because numbers given in order of
/// appearance shift when a user is removed.
///
/// Rows are often centred at their user's means. [`UserSamplesBuilder::with_levels`] keeps what
/// that removes: two more rows at the end whose features are all 0, which are not among the
/// [rows](SampleRows::iter). Their labels are the mean of the user's labels and 1 plus their
/// standard deviation ([`SampleRows::level`]).
///
/// `n_features` and `max_rows` are public; everything else is private.
///
/// # Examples
/// ```
/// use dp_core::UserSamplesBuilder;
/// let mut builder = UserSamplesBuilder::new(2, 3)?;
/// builder.push(7, &[1.0, -1.0], 0.5)?;
/// builder.push(7, &[0.0, f32::NAN], 0.5)?; // left out
/// let samples = builder.build().0;
/// let rows = samples.rows(0);
/// assert_eq!(rows.iter().collect::<Vec<_>>(), [(&[1.0, -1.0][..], 0.5)]);
/// # Ok::<(), dp_core::Error>(())
/// ```
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct UserSamples {
    table: Private<Interactions>,
    n_features: usize,
    max_rows: usize,
    has_levels: bool,
}

impl UserSamples {
    /// The users as a table with one item, for sums over users.
    #[must_use]
    pub const fn table(&self) -> &Private<Interactions> {
        &self.table
    }

    /// Length of a feature vector `x`. Public.
    #[must_use]
    pub const fn n_features(&self) -> usize {
        self.n_features
    }

    /// Maximum number of rows per user. Public.
    #[must_use]
    pub const fn max_rows(&self) -> usize {
        self.max_rows
    }

    /// Number of rows for which the table has room in each user's feature vector, those of levels
    /// included. Public.
    #[must_use]
    pub const fn n_places(&self) -> usize {
        self.max_rows + if self.has_levels { N_LEVEL_ROWS } else { 0 }
    }

    /// Whether the table has room for users' [levels](SampleRows::level). Public.
    #[must_use]
    pub const fn has_levels(&self) -> bool {
        self.has_levels
    }

    /// Assigns each user to one of `n_parts` tables, as [`Interactions::deal`] does.
    pub fn deal(&self, n_parts: usize, part: impl Fn(u128) -> usize) -> Vec<Self> {
        let tables = self.table.expose().deal(n_parts, part).into_iter();
        let samples = tables.map(|table| Self {
            table: Private::new(table),
            ..*self
        });
        samples.collect()
    }

    /// A table of the same public shape without users: for a coordinator, which holds no users, and
    /// for rebuilding a model from released values.
    #[must_use]
    pub fn without_users(&self) -> Self {
        Self {
            table: Private::new(self.table.expose().without_users()),
            ..*self
        }
    }

    /// The rows of one user. They are private, like everything obtained from [`Private::expose`].
    ///
    /// # Panics
    /// If there is no such user.
    #[must_use]
    pub fn rows(&self, user: usize) -> SampleRows<'_> {
        SampleRows::of(self.table.expose().user(user), self.n_features)
    }

    /// The rows of all users in order. They are private, like everything obtained from
    /// [`Private::expose`].
    pub fn users(&self) -> impl ExactSizeIterator<Item = SampleRows<'_>> {
        let users = self.table.expose().users();
        users.map(|user| SampleRows::of(user, self.n_features))
    }
}

/// One user's rows `(x, y)`.
#[derive(Clone, Copy, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct SampleRows<'a> {
    cells: &'a [f32],
    n_features: usize,
    place: f64,
}

impl<'a> SampleRows<'a> {
    /// Reads a row of [`UserSamples::table`].
    #[must_use]
    pub fn of(user: UserRow<'a>, n_features: usize) -> Self {
        let place = user.values().first().copied().unwrap_or(0.0);
        Self {
            cells: user.features(),
            n_features,
            place: f64::from(place).clamp(0.0, 1.0 - f64::EPSILON),
        }
    }

    /// Mean and standard deviation of the user's labels, as set by
    /// [`UserSamplesBuilder::set_level`]; none if they were not set. In a table without levels the
    /// answer means nothing.
    #[must_use]
    pub fn level(self) -> Option<[f32; 2]> {
        let mut rows = self.cells.rchunks_exact(self.n_features + 1);
        let deviation = *rows.next()?.last()?;
        let mean = *rows.next()?.last()?;
        (deviation >= 1.0).then_some([mean, deviation - 1.0])
    }

    /// The usable rows. Rows whose features are all 0 carry no information and are skipped.
    pub fn iter(self) -> impl Iterator<Item = (&'a [f32], f32)> + Clone {
        let rows = self.cells.chunks_exact(self.n_features + 1);
        rows.filter_map(|row| {
            let (&y, x) = row.split_last()?;
            x.iter().any(|&x| x != 0.0).then_some((x, y))
        })
    }

    /// The index, below `n_batches`, of the batch that the user belongs to. It is a function of the
    /// user's own rows; users with the same rows share a batch.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number from 0 to n_batches"
    )]
    pub fn batch(self, n_batches: usize) -> usize {
        let n_batches = n_batches.max(1);
        ((self.place * n_batches as f64) as usize).min(n_batches - 1)
    }
}

/// Collects rows and merges them into [`UserSamples`].
///
/// | row | rule |
/// |---|---|
/// | contains NaN or an infinite number | the whole row is left out, as if it had not been added |
/// | after the user's first `max_rows` usable ones | left out |
/// | any finite numbers, however large | kept; training clips |
///
/// Each rule depends on one user's own rows only.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct UserSamplesBuilder {
    n_features: usize,
    max_rows: usize,
    /// The values collected so far, by user number.
    users: std::collections::BTreeMap<u32, Vec<f32>>,
    /// Ids set by [`set_id`](Self::set_id).
    ids: Vec<(u32, u128)>,
    /// Set by [`set_level`](Self::set_level); none if the table has no levels.
    levels: Option<Vec<(u32, [f32; 2])>>,
    dropped: DroppedRecords,
}

impl UserSamplesBuilder {
    /// Creates an empty collection.
    ///
    /// # Errors
    /// [`ParamError`] unless there are 1 to 2^16 features and 1 to 2^16 rows.
    pub fn new(n_features: usize, max_rows: usize) -> Result<Self, ParamError> {
        let expected = "a whole number from 1 to 65536";
        in_range("n_features", n_features, 1, 1 << 16, expected)?;
        in_range("max_rows", max_rows, 1, 1 << 16, expected)?;
        Ok(Self {
            n_features,
            max_rows,
            users: std::collections::BTreeMap::new(),
            ids: Vec::new(),
            levels: None,
            dropped: DroppedRecords::default(),
        })
    }

    /// An empty collection for samples of this public shape.
    #[must_use]
    pub fn like(samples: &UserSamples) -> Self {
        Self {
            n_features: samples.n_features,
            max_rows: samples.max_rows,
            users: std::collections::BTreeMap::new(),
            ids: Vec::new(),
            levels: samples.has_levels.then(Vec::new),
            dropped: DroppedRecords::default(),
        }
    }

    /// A table with room for users' levels.
    #[must_use]
    pub fn with_levels(mut self) -> Self {
        self.levels = Some(Vec::new());
        self
    }

    /// Sets mean and standard deviation of the labels of a user's rows, from before they were
    /// centred; the last ones count. Values that are not finite and negative deviations are left
    /// out, and so are all without [`with_levels`](Self::with_levels).
    pub fn set_level(&mut self, user: u32, mean: f32, deviation: f32) {
        self.users.entry(user).or_default();
        if let Some(levels) = &mut self.levels
            && mean.is_finite()
            && deviation.is_finite()
            && deviation >= 0.0
        {
            levels.push((user, [mean, deviation]));
        }
    }

    /// Adds one row of a user. If the row is left out, the user still becomes known.
    ///
    /// # Errors
    /// [`crate::ShapeError`] if `x` does not have `n_features` numbers. No *value* is rejected.
    pub fn push(&mut self, user: u32, x: &[f32], y: f32) -> Result<()> {
        crate::params::same_size("feature vector", x.len(), self.n_features)?;
        let cells = self.users.entry(user).or_default();
        if !(y.is_finite() && x.iter().all(|x| x.is_finite())) {
            self.dropped.not_finite += 1;
        } else if cells.len() < self.max_rows * (self.n_features + 1) {
            cells.extend_from_slice(x);
            cells.push(y);
        }
        Ok(())
    }

    /// Sets the id that identifies a user outside this table: see [`InteractionsBuilder::set_id`].
    pub fn set_id(&mut self, user: u32, id: u128) {
        self.users.entry(user).or_default();
        self.ids.push((user, id));
    }

    /// Merges the rows. The second part of the result counts rows that were left out because of
    /// their values; it is private.
    #[must_use]
    pub fn build(self) -> (UserSamples, DroppedRecords) {
        let width = self.max_rows * (self.n_features + 1);
        let n_more = if self.levels.is_some() {
            N_LEVEL_ROWS
        } else {
            0
        };
        let wider = width + n_more * (self.n_features + 1);
        let mut levels: std::collections::BTreeMap<_, _> =
            self.levels.into_iter().flatten().collect();
        let mut table = InteractionsBuilder::new(1).with_feature_dim(wider);
        for (user, mut cells) in self.users {
            cells.resize(width, 0.0);
            table.insert(user, 0, place(&cells));
            cells.resize(wider, 0.0);
            if let Some([mean, deviation]) = levels.remove(&user) {
                cells[wider - self.n_features - 2] = mean;
                cells[wider - 1] = 1.0 + deviation;
            }
            table.insert_features(user, &cells);
        }
        for (user, id) in self.ids {
            table.set_id(user, id);
        }
        let samples = UserSamples {
            table: Private::new(table.build().0),
            n_features: self.n_features,
            max_rows: self.max_rows,
            has_levels: n_more > 0,
        };
        (samples, self.dropped)
    }
}

/// Rows at the end of a table with levels that hold them.
const N_LEVEL_ROWS: usize = 2;

/// Hashes a user's rows to a number spread over [0, 1).
#[allow(
    clippy::cast_possible_truncation,
    reason = "24 bits: exact in single precision"
)]
fn place(cells: &[f32]) -> f32 {
    let hash = (cells.iter()).fold(0, |state, cell| mix(state ^ u64::from(cell.to_bits())));
    (hash >> 40) as f32 / (1_u32 << 24) as f32
}

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection that spreads its input.
const fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_rows_are_left_out_whole_and_their_user_stays() {
        let mut builder = UserSamplesBuilder::new(2, 2).unwrap();
        assert!(builder.push(0, &[1.0], 1.0).is_err());
        for (x, y) in [
            ([f32::NAN, 1.0], 1.0),
            ([1.0, f32::INFINITY], 1.0),
            ([1.0, 1.0], f32::NAN),
        ] {
            builder.push(3, &x, y).unwrap();
            builder.push(9, &x, y).unwrap();
        }
        for i in 0..3_u8 {
            builder.push(9, &[f32::from(i), 1.0], 2.0).unwrap();
        }
        let (samples, dropped) = builder.build();
        assert_eq!((samples.users().len(), dropped.not_finite), (2, 6));
        assert_eq!(samples.rows(0).iter().count(), 0);
        let rows: Vec<_> = samples.rows(1).iter().map(|(x, _)| x[0]).collect();
        assert_eq!(rows, [0.0, 1.0]);
    }

    #[test]
    fn levels_stay_beside_the_rows() {
        let build = |levels: bool| {
            let builder = UserSamplesBuilder::new(1, 2).unwrap();
            let mut builder = if levels {
                builder.with_levels()
            } else {
                builder
            };
            for (user, mean) in [(4, 0.5), (6, f32::NAN), (8, -0.25)] {
                builder.push(user, &[1.0], 2.0).unwrap();
                builder.set_level(user, mean, 0.25);
            }
            builder.build().0
        };
        let (with, without) = (build(true), build(false));
        assert!(with.has_levels() && !without.has_levels());
        let levels: Vec<_> = with.users().map(SampleRows::level).collect();
        assert_eq!(levels, [Some([0.5, 0.25]), None, Some([-0.25, 0.25])]);
        for user in 0..3 {
            assert!(with.rows(user).iter().eq(without.rows(user).iter()));
            assert_eq!(
                with.rows(user).batch(1 << 20),
                without.rows(user).batch(1 << 20)
            );
        }
    }

    #[test]
    fn a_batch_depends_on_the_own_rows_and_not_on_the_number() {
        // Renumbered when a user is removed, like ids in order of appearance.
        let build = |skip: u32| {
            let mut builder = UserSamplesBuilder::new(1, 1).unwrap();
            for (number, user) in (0..).zip((0..4_000).filter(|user| *user != skip)) {
                builder.push(number, &[1.0], user as f32).unwrap();
            }
            builder.build().0
        };
        let batches = |samples: &UserSamples| -> Vec<(u64, usize)> {
            let rows = samples
                .users()
                .map(|rows| (rows.iter().next(), rows.batch(4)));
            rows.map(|(row, batch)| (f64::from(row.unwrap().1).to_bits(), batch))
                .collect()
        };
        let (all, less) = (batches(&build(9_999)), batches(&build(17)));
        let expected: Vec<_> = all
            .iter()
            .copied()
            .filter(|(user, _)| *user != 17.0_f64.to_bits())
            .collect();
        assert_eq!(less, expected);
        for batch in 0..4 {
            let size = all.iter().filter(|(_, b)| *b == batch).count() as f64;
            assert!((size - 1_000.0).abs() < 7.0 * 27.4, "{size}");
        }
    }
}
