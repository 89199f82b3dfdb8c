use dp_core::params::in_range;

use crate::error::check_len;
use crate::kernels::{
    ChosenRows, Gather, GramUpdate, InstructionSet, Prefetch, RowSource, Rows, WeightedSum,
    turned_len, unturn,
};
use crate::packed::{mirror_upper, pack_upper, packed_len};
use crate::real::Compiled;
use crate::{AlignedVec, Error, Real, Result};

mod integers;
mod kronecker;

pub use integers::{INTEGER_LIMIT, add_gathered_rows, integer_row, integer_squared_norms};
pub use kronecker::KroneckerAccumulator;

/// Bytes of rows per sweep of the register tiles; they should stay in the first-level cache,
/// because the tiles read them several times.
const BLOCK_BYTES: usize = 32 * 1024;

/// Number of rows gathered at a time. One strip of register tiles then takes about as long as
/// fetching the memory that the next block needs, which was requested by the preceding strip.
const GATHER_ROWS: usize = 32;

/// Number of rows from which turned products (see `kernels/gram.rs`) are worth the cost of moving
/// them into place: 16 rows of dim 32 took as long with them as without.
const TURNED_ROWS: usize = 12;

/// Sum of outer products of rows, and the corresponding sum of labels times rows.
///
/// ```text
/// G = Σ_r w_r x_r x_rᵀ        b = Σ_r y_r w_r x_r
/// ```
/// `x_r` are the rows added since the last [`reset`](Self::reset), `w_r` their weights (1 unless
/// given), `y_r` their labels (only the `_with_rhs` forms add to b). These are the normal equations
/// of weighted least squares.
///
/// Only one triangle of G is computed, in register tiles. Rows are read in place or, if gathered by
/// index, copied block by block into a buffer of the accumulator. No method allocates after
/// [`new`](Self::new).
///
/// # Numerics
/// If all entries are integers and the sums of magnitudes, `Σ_r |w x_a²|` and `Σ_r |y w x_a|`, stay
/// below 2^53 (f64; 2^24 for f32), every product and sum is exact: the result does not depend on
/// blocking, order, threads or processor. Otherwise the error is that of recursive summation, and
/// the last bits depend on the block size and on whether the processor fuses multiply and add. NaN
/// and infinities affect only the entries of their row and column. Cost: n dim (dim + 1) useful
/// floating-point operations for n rows.
///
/// # Examples
/// ```
/// use dp_linalg::GramAccumulator;
///
/// let factors = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // three rows of two
/// let mut gram = GramAccumulator::new(2)?;
/// gram.add_gathered_with_rhs(&factors, &[0, 2], None, &[10.0, 1.0])?;
///
/// let mut packed = [0.0; 3];
/// gram.write_packed(&mut packed)?;
/// assert_eq!(packed, [26.0, 32.0, 40.0]); // (0,0), (0,1), (1,1)
/// assert_eq!(gram.rhs(), [15.0, 26.0]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
#[derive(Clone)]
pub struct GramAccumulator<T> {
    dim: usize,
    /// `dim` rounded up to a whole number of vectors.
    width: usize,
    block_rows: usize,
    isa: InstructionSet,
    /// width x width; only the tiles that meet the upper triangle are used.
    gram: AlignedVec<T>,
    /// The part of the sums that the tiles compute in another order; zeros between calls.
    turned: AlignedVec<T>,
    rhs: AlignedVec<T>,
    /// Space for one block of gathered rows, and for the same rows times their weights.
    rows: AlignedVec<T>,
    scaled: AlignedVec<T>,
}

/// Prints the dimension only: the sums may be private.
impl<T> std::fmt::Debug for GramAccumulator<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("GramAccumulator");
        out.field("dim", &self.dim).finish_non_exhaustive()
    }
}

impl<T: Real> GramAccumulator<T> {
    /// Largest dimension supported.
    pub const MAX_DIM: usize = 1024;

    /// Creates an accumulator of zeros.
    ///
    /// # Errors
    /// [`Param`](Error::Param) unless `dim` is from 1 to [`MAX_DIM`](Self::MAX_DIM).
    pub fn new(dim: usize) -> Result<Self> {
        Self::with_instructions(dim, InstructionSet::detect())
    }

    fn with_instructions(dim: usize, isa: InstructionSet) -> Result<Self> {
        in_range(
            "dim",
            dim,
            1,
            Self::MAX_DIM,
            "a whole number from 1 to 1024",
        )?;
        let width = dim.next_multiple_of(T::width(isa));
        let block_rows = (BLOCK_BYTES / (width * size_of::<T>())).clamp(16, 512);
        let zeros = AlignedVec::zeros;
        Ok(Self {
            dim,
            width,
            block_rows,
            isa,
            gram: zeros(width * width),
            turned: zeros(turned_len(width, T::width(isa))),
            rhs: zeros(width),
            rows: zeros(GATHER_ROWS.max(block_rows) * width),
            scaled: zeros(GATHER_ROWS * width),
        })
    }

    /// Length of a row.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Sets both sums to zero.
    pub fn reset(&mut self) {
        self.gram.fill(T::default());
        self.rhs.fill(T::default());
    }

    /// Adds `sum_r x_r x_r^T` over packed rows, shape `(n, dim)` row-major.
    ///
    /// # Errors
    /// [`Shape`](Error::Shape) if `rows` is not a whole number of rows.
    pub fn add_rows(&mut self, rows: &[T]) -> Result<()> {
        let n = self.count_rows("rows", rows)?;
        T::sweep_rows(self, rows, n, None);
        Ok(())
    }

    /// Like [`add_rows`](Self::add_rows), and adds `sum_r y_r x_r` to the right-hand side; `labels`
    /// has one y per row.
    ///
    /// # Errors
    /// [`Shape`](Error::Shape) if `rows` is not a whole number of rows or `labels` differs from it
    /// in number.
    pub fn add_rows_with_rhs(&mut self, rows: &[T], labels: &[T]) -> Result<()> {
        let n = self.count_rows("rows", rows)?;
        check_len("labels", labels.len(), n)?;
        T::sweep_rows(self, rows, n, Some(labels));
        Ok(())
    }

    /// Adds `sum_r w_r x_r x_r^T` over the rows of `factors`, shape `(m, dim)` row-major, given by
    /// `indices`; `weights` has one w per index (1 if `None`). An index may occur several times.
    ///
    /// # Errors
    /// [`Shape`](Error::Shape) if `factors` is not a whole number of rows or `weights` differs from
    /// `indices` in number; [`IndexOutOfRange`](Error::IndexOutOfRange) if an index is not below m.
    /// The sums are then unchanged.
    pub fn add_gathered(
        &mut self,
        factors: &[T],
        indices: &[u32],
        weights: Option<&[T]>,
    ) -> Result<()> {
        self.check_gather(factors, indices, weights)?;
        T::sweep_gathered(self, factors, indices, weights, None);
        Ok(())
    }

    /// Like [`add_gathered`](Self::add_gathered), and adds `sum_r y_r w_r x_r` to the right-hand
    /// side; `labels` has one y per index.
    ///
    /// # Errors
    /// As [`add_gathered`](Self::add_gathered), and [`Shape`](Error::Shape) if `labels` differs
    /// from `indices` in number.
    pub fn add_gathered_with_rhs(
        &mut self,
        factors: &[T],
        indices: &[u32],
        weights: Option<&[T]>,
        labels: &[T],
    ) -> Result<()> {
        self.check_gather(factors, indices, weights)?;
        check_len("labels", labels.len(), indices.len())?;
        T::sweep_gathered(self, factors, indices, weights, Some(labels));
        Ok(())
    }

    /// The right-hand side b, length `dim`.
    #[must_use]
    pub fn rhs(&self) -> &[T] {
        &self.rhs[..self.dim]
    }

    /// Writes the upper triangle of G in packed order (see [`packed_index`](crate::packed_index)).
    ///
    /// # Errors
    /// [`Shape`](Error::Shape) if `out` does not have [`packed_len`] entries.
    pub fn write_packed(&self, out: &mut [T]) -> Result<()> {
        check_len("out", out.len(), packed_len(self.dim))?;
        pack_upper(&self.gram, self.width, self.dim, out);
        Ok(())
    }

    /// Writes G as a full row-major matrix, shape `(dim, dim)`.
    ///
    /// # Errors
    /// [`Shape`](Error::Shape) if `out` does not have `dim * dim` entries.
    pub fn write_full(&self, out: &mut [T]) -> Result<()> {
        check_len("out", out.len(), self.dim * self.dim)?;
        for (to, from) in out
            .chunks_exact_mut(self.dim)
            .zip(self.gram.chunks_exact(self.width))
        {
            to.copy_from_slice(&from[..self.dim]);
        }
        mirror_upper(out, self.dim);
        Ok(())
    }

    fn count_rows(&self, name: &'static str, rows: &[T]) -> Result<usize> {
        let n = rows.len() / self.dim;
        check_len(name, rows.len(), n * self.dim)?;
        Ok(n)
    }

    fn check_gather(&self, factors: &[T], indices: &[u32], weights: Option<&[T]>) -> Result<()> {
        let n_rows = self.count_rows("factors", factors)?;
        if let Some(weights) = weights {
            check_len("weights", weights.len(), indices.len())?;
        }
        let last = indices.iter().copied().max();
        if last.is_some_and(|index| index as usize >= n_rows) {
            return Err(Error::IndexOutOfRange { n_rows });
        }
        Ok(())
    }
}

/// Rows are read in place, where the last vector of a row extends into the next row. The last
/// few, for which it would extend beyond the slice, go through the buffer.
pub(crate) fn sweep_rows<T: Compiled>(
    sums: &mut GramAccumulator<T>,
    rows: &[T],
    n: usize,
    labels: Option<&[T]>,
) {
    let (dim, width) = (sums.dim, sums.width);
    let turned = if n < TURNED_ROWS {
        &mut [][..]
    } else {
        &mut sums.turned[..]
    };
    let direct = Rows::<T>::readable(rows.len(), dim, n, width);
    let mut start = 0;
    while start < n {
        let block = if start < direct {
            let count = sums.block_rows.min(direct - start);
            Rows::new(&rows[start * dim..], dim, count, width)
        } else {
            let count = sums.block_rows.min(n - start);
            let padded = &mut sums.rows[..count * width];
            pad_rows(
                &rows[start * dim..(start + count) * dim],
                dim,
                padded,
                width,
            );
            Rows::new(padded, width, count, width)
        };
        let end = start + block.count();
        let block = Block {
            left: block,
            right: block,
            labels: labels.map(|labels| &labels[start..end]),
            prefetch: Prefetch::NONE,
        };
        block.add_to(sums.isa, dim, (&mut sums.gram, &mut *turned), &mut sums.rhs);
        start = end;
    }
    unturn(turned, &mut sums.gram, width);
}

/// Rows are read in place if they have no weights and the last vector of none extends beyond the
/// slice.
pub(crate) fn sweep_gathered<T: Compiled>(
    sums: &mut GramAccumulator<T>,
    factors: &[T],
    indices: &[u32],
    weights: Option<&[T]>,
    labels: Option<&[T]>,
) {
    let (dim, width) = (sums.dim, sums.width);
    let turned = if indices.len() < TURNED_ROWS {
        &mut [][..]
    } else {
        &mut sums.turned[..]
    };
    for start in (0..indices.len()).step_by(GATHER_ROWS) {
        let end = indices.len().min(start + GATHER_ROWS);
        let next = indices.len().min(end + GATHER_ROWS);
        let chosen = &indices[start..end];
        let labels = labels.map(|labels| &labels[start..end]);
        let prefetch = Prefetch::new(factors, &indices[end..next], dim);
        if let (None, Some(rows)) = (weights, ChosenRows::new(factors, chosen, dim, width)) {
            let block = Block {
                left: rows,
                right: rows,
                labels,
                prefetch,
            };
            block.add_to(sums.isa, dim, (&mut sums.gram, &mut *turned), &mut sums.rhs);
            continue;
        }
        let scaled = weights.map(|weights| (&weights[start..end], &mut sums.scaled[..]));
        let gather = Gather::new(factors, chosen, dim, width, &mut sums.rows, scaled);
        T::run(sums.isa, gather);

        let right = Rows::new(&sums.rows, width, end - start, width);
        let block = Block {
            left: match weights {
                Some(_) => Rows::new(&sums.scaled, width, end - start, width),
                None => right,
            },
            right,
            labels,
            prefetch,
        };
        block.add_to(sums.isa, dim, (&mut sums.gram, &mut *turned), &mut sums.rhs);
    }
    unturn(turned, &mut sums.gram, width);
}

/// Rows that are summed in one sweep; weights are included in `left`.
struct Block<'a, T, R> {
    left: R,
    right: R,
    labels: Option<&'a [T]>,
    prefetch: Prefetch<'a>,
}

impl<T: Compiled, R: RowSource<T>> Block<'_, T, R> {
    /// `sums`: those of the products, and those of the turned products.
    fn add_to(self, isa: InstructionSet, dim: usize, sums: (&mut [T], &mut [T]), rhs: &mut [T]) {
        let Self {
            left,
            right,
            prefetch,
            ..
        } = self;
        T::run(
            isa,
            GramUpdate::new((left, right), dim, sums.0, sums.1, prefetch),
        );
        if let Some(labels) = self.labels {
            T::run(isa, WeightedSum::new(labels, left, rhs));
        }
    }
}

/// Copies rows of `dim` into rows of `width`, padded with zeros.
fn pad_rows<T: Compiled>(rows: &[T], dim: usize, padded: &mut [T], width: usize) {
    for (to, row) in padded.chunks_exact_mut(width).zip(rows.chunks_exact(dim)) {
        to[..dim].copy_from_slice(row);
        to[dim..].fill(T::default());
    }
}

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    clippy::shadow_unrelated,
    reason = "equality is the claim; each check rebinds the same few names"
)]
mod tests;
