//! Batched computation with one user per vector lane, which is faster if every user has few rows.

use dp_linalg::{Across, BatchedRows, StridedRows};

use crate::Result;
use crate::user_rows::UserCells;

/// Number of users per batch.
pub(crate) const USERS: usize = BatchedRows::SETS;
/// If users may have more rows than this, each is processed separately.
const MOST_ROWS: usize = 64;

/// Whether users are batched, given the maximum number of rows in the table.
pub(crate) const fn is_batched(user: UserCells<'_>) -> bool {
    user.n_rows() <= MOST_ROWS
}

/// Users who are processed together, and the users of the next block.
#[derive(Clone, Copy)]
pub(crate) struct UserBlock<'a> {
    pub(crate) users: &'a [UserCells<'a>],
    /// Prefetched from memory meanwhile.
    pub(crate) next: &'a [UserCells<'a>],
}

impl<'a> UserBlock<'a> {
    /// A block of one user.
    pub(crate) const fn alone(user: &'a UserCells<'a>) -> Self {
        Self {
            users: std::slice::from_ref(user),
            next: &[],
        }
    }
}

/// Rows and labels of up to [`USERS`] users.
pub(crate) struct BatchedUsers {
    /// Rows, with those of each user multiplied by a power of two.
    pub(crate) rows: BatchedRows,
    /// One for each row, with those of each user multiplied by another power of two: absolute
    /// values are below 4.
    pub(crate) labels: Vec<Across>,
}

impl BatchedUsers {
    pub(crate) fn new(n_features: usize) -> Result<Self> {
        Ok(Self {
            rows: BatchedRows::new(n_features)?,
            labels: Vec::new(),
        })
    }

    /// Loads other users.
    pub(crate) fn load(&mut self, UserBlock { users, next }: UserBlock<'_>) -> Result<()> {
        let (sets, n) = strided(users, |user| user.without_padding().rows());
        let (upcoming, n_upcoming) = strided(next, UserCells::rows);
        self.rows.announce(&upcoming[..n_upcoming]);
        self.rows.load(&sets[..n])?;
        self.labels.clear();
        self.labels.resize(self.rows.n_rows(), Across::default());
        for (at, (user, set)) in users.iter().zip(sets).enumerate() {
            let scale = scale_of((0..set.n_rows).map(|row| user.label(row)));
            #[cfg(privacy_mutants)]
            let scale = dp_core::mutants::pick("scale-of-the-group", scale, {
                let all = users.iter();
                scale_of(all.flat_map(|user| (0..user.n_rows()).map(|row| user.label(row))))
            });
            for (row, labels) in self.labels.iter_mut().enumerate().take(set.n_rows) {
                labels.0[at] = user.label(row) * scale;
            }
        }
        Ok(())
    }
}

/// The rows of up to [`USERS`] users, and the number of users.
fn strided<'a>(
    users: &[UserCells<'a>],
    rows: impl Fn(UserCells<'a>) -> StridedRows<'a>,
) -> ([StridedRows<'a>; USERS], usize) {
    let none = StridedRows {
        data: &[],
        stride: 1,
        n_rows: 0,
        dim: 0,
    };
    let mut sets = [none; USERS];
    for (set, user) in sets.iter_mut().zip(users) {
        *set = rows(*user);
    }
    (sets, users.len().min(USERS))
}

/// The power of two that scales the largest absolute value to between 1 and 4, or less if that is
/// subnormal or 0.
fn scale_of(numbers: impl Iterator<Item = f32>) -> f32 {
    const LARGEST_EXPONENT: u32 = 254;
    let sizes = numbers.map(|x| x.to_bits() & 0x7fff_ffff);
    let exponent = LARGEST_EXPONENT.saturating_sub(sizes.max().unwrap_or(0) >> 23);
    f32::from_bits(exponent.max(1) << 23)
}

/// `sum + a b`, for each user.
#[inline(always)]
pub(crate) fn add_product(sum: &mut Across, a: &Across, b: &Across) {
    for ((sum, a), b) in sum.0.iter_mut().zip(&a.0).zip(&b.0) {
        *sum += a * b;
    }
}

/// `1 / sqrt(x)`, and 0 if that is not a number.
#[inline(always)]
pub(crate) fn inverse_roots(x: &Across) -> Across {
    Across(x.0.map(|x| if x > 0.0 { 1.0 / x.sqrt() } else { 0.0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_any_size_come_out_in_range() {
        for largest in [f32::MAX, 3.0, 1e-30, f32::MIN_POSITIVE] {
            let scale = scale_of([0.0, -largest, 0.5 * largest].into_iter());
            assert!((1.0..4.0).contains(&(largest * scale)), "{largest}");
        }
        assert!(scale_of([0.0; 2].into_iter()).is_finite());
    }
}
