//! One user's rows and vector, quantised and bounded.
#![allow(
    clippy::float_arithmetic,
    reason = "the quantiser itself; what it makes is bounded in exact integers afterwards"
)]

use dp_core::{UserRow, params};
use dp_linalg::{KroneckerAccumulator, PlainLoops, StridedRows, with_vector_instructions};

use super::grid::{KroneckerGrid, LOG2_VECTOR};
use crate::Result;
use crate::contribution::{AnyContribution, Contributor, with_scratch};

/// One user's contribution to a sum of matrices `sum_r (s_r x_r (x) v)(s_r x_r (x) v)^T`.
///
/// The rule of [`VectorContribution`](crate::VectorContribution) applies: only the user's own
/// records, and values that are public or released.
pub trait KroneckerContribution: Sync {
    /// Working memory, for speed. It is passed from one user of a thread to the next, so its
    /// contents must not affect what the next user contributes. In debug builds every user gets a
    /// new one.
    type Scratch: Send;

    /// Creates new working memory.
    fn scratch(&self) -> Self::Scratch;

    /// Lengths `d` of a row and `k` of the user's vector, the same for every user.
    fn shape(&self) -> (usize, usize);

    /// Pushes the user's rows with their scales and fills in the user's vector. A user who pushes
    /// no row contributes nothing.
    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut RowsBuffer);
}

impl<C: KroneckerContribution> AnyContribution<RowsBuffer> for C {
    fn contributor(&self) -> Contributor<'_, RowsBuffer> {
        with_scratch(
            || self.scratch(),
            |user, scratch, out| self.contribute(user, scratch, out),
        )
    }

    fn reads_features(&self) -> bool {
        true
    }
}

/// One user's rows, scales and vector.
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds a private contribution; printing it is never wanted"
)]
pub struct RowsBuffer {
    pub(super) rows: Vec<f32>,
    pub(super) scales: Vec<f64>,
    /// Distance between rows in the user's own feature vector; 0 for pushed rows.
    stride: usize,
    /// The vector `v` of length `k`, in data units.
    pub vector: Vec<f64>,
    /// Buffer for scales, vector and their products.
    narrow: Vec<f32>,
    integers: Vec<i64>,
    products: Vec<f64>,
    pub(super) weights: Vec<f64>,
}

impl RowsBuffer {
    /// Adds a row and its scale `s`. If the length of a row differs from the contribution's `d`,
    /// the user contributes nothing.
    pub fn push(&mut self, row: &[f32], scale: f64) {
        self.rows.extend_from_slice(row);
        self.scales.push(scale);
    }

    /// Uses rows within the user's own feature vector, without copying them: they start `stride`
    /// apart, and there is one for each scale. A row with scale 0 contributes nothing.
    pub fn own_rows(&mut self, stride: usize, scales: impl IntoIterator<Item = f64>) {
        self.rows.clear();
        self.stride = stride;
        self.scales.clear();
        self.scales.extend(scales);
    }

    /// The rows, if there are as many as scales and they have length `dim`.
    fn strided<'a>(&'a self, dim: usize, user: UserRow<'a>) -> Option<StridedRows<'a>> {
        let n_rows = self.scales.len();
        let (data, stride, fits) = if self.stride == 0 {
            let fits = n_rows.checked_mul(dim) == Some(self.rows.len());
            (&self.rows[..], dim, fits)
        } else {
            let cells = user.features();
            let last = n_rows.saturating_sub(1).saturating_mul(self.stride);
            let fits = self.stride >= dim && last.saturating_add(dim) <= cells.len();
            (cells, self.stride, fits && self.rows.is_empty())
        };
        (n_rows > 0 && fits).then_some(StridedRows {
            data,
            stride,
            n_rows,
            dim,
        })
    }

    fn reset(&mut self, rank: usize) {
        self.rows.clear();
        self.scales.clear();
        self.stride = 0;
        self.vector.clear();
        self.vector.resize(rank, 0.0);
    }
}

/// Checked lengths.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) dim: usize,
    pub(super) rank: usize,
}

impl Shape {
    /// `d k`.
    pub(super) const fn side(self) -> usize {
        self.dim.saturating_mul(self.rank)
    }

    pub(super) fn checked((dim, rank): (usize, usize)) -> Result<Self> {
        let shape = Self { dim, rank };
        params::at_least_one("dim", dim)?;
        params::at_least_one("rank", rank)?;
        let expected = "dim * rank from 1 to 1024";
        params::in_range("dim * rank", shape.side(), 1, 1024, expected)?;
        Ok(shape)
    }
}

/// Runs the contribution, quantises it into `gram` and `buffer.weights`, and returns whether it is
/// within the bound: (K24). If not, nothing of it may be added.
pub(super) fn load_user(
    shape: Shape,
    grid: &KroneckerGrid,
    contribute: &mut Contributor<'_, RowsBuffer>,
    user: UserRow<'_>,
    buffer: &mut RowsBuffer,
    gram: &mut KroneckerAccumulator,
) -> Result<bool> {
    buffer.reset(shape.rank);
    contribute(user, buffer);
    buffer.vector.resize(shape.rank, 0.0);
    if buffer.strided(shape.dim, user).is_none() {
        return Ok(false);
    }
    let length = quantise_vector(buffer);
    let scale = length * grid.row_scale(shape.side());
    buffer.narrow.clear();
    let scales = buffer.scales.iter().map(|s| single(s * scale));
    buffer.narrow.extend(scales);
    let Some(rows) = buffer.strided(shape.dim, user) else {
        return Ok(false);
    };
    let trace = gram.load(rows, &buffer.narrow)?;
    let squared_vector = squared_norm(&buffer.integers);
    #[cfg(privacy_mutants)]
    if dp_core::mutants::active("kronecker-no-clip") {
        return Ok(trace < 1e15);
    }
    if trace >= TRACE_LIMIT {
        return Ok(false);
    }
    let admits = |norm| grid.admits(norm, squared_vector, shape.side());
    if admits(whole(trace)) {
        return Ok(true);
    }
    gram.write_inner_products(&mut buffer.products);
    let rough = with_vector_instructions(RoughNorm {
        products: &buffer.products,
        n_rows: buffer.scales.len(),
    });
    Ok((trace < ROUGH_TRACE_LIMIT && admits(rough)) || admits(frobenius_norm(buffer)))
}

/// Traces below which the bound of [`RoughNorm`] is valid.
const ROUGH_TRACE_LIMIT: f64 = (1_u64 << 46) as f64;
/// The unit in which inner products are counted.
const ROUGH_UNIT: f64 = (1_u64 << 23) as f64;

/// An integer that is at least `||C||_F` and slightly above it, but faster to compute: the root of
/// `sum_rs ceil(|<X_r, X_s>| / 2^23)^2`, rounded up, times 2^23.
///
/// For traces below 2^46 each term is the square of an integer of at most 2^23. Because `||C||_F`
/// is at most the trace, the root of the sum over `n` rows is at most `2^23 + n`, and the sum is
/// below 2^52 for up to 2^25 rows: every step is exact.
struct RoughNorm<'a> {
    products: &'a [f64],
    n_rows: usize,
}

impl PlainLoops for RoughNorm<'_> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        // every pair counts twice, except those of a row with itself, which come first for each row
        let (mut on_diagonal, mut at) = (0.0, 0_usize);
        for r in 0..self.n_rows {
            if let Some(product) = self.products.get(at) {
                on_diagonal += squares(std::slice::from_ref(product));
            }
            at = at.saturating_add(self.n_rows.saturating_sub(r));
        }
        let root = whole(2.0 * squares(self.products) - on_diagonal).isqrt();
        root.saturating_add(1).saturating_mul(1 << 23)
    }
}

/// `sum ceil(|p| / 2^23)^2`.
#[inline(always)]
fn squares(products: &[f64]) -> f64 {
    let mut sums = [0.0_f64; 8];
    for part in products.chunks(8) {
        for (sum, product) in sums.iter_mut().zip(part) {
            let size = (product.abs() / ROUGH_UNIT).ceil();
            *sum += size * size;
        }
    }
    sums.iter().sum::<f64>()
}

/// `||C||_F` from the inner products, rounded up: the root of `sum_rs <X_r, X_s>^2`, for traces below [`TRACE_LIMIT`].
fn frobenius_norm(buffer: &RowsBuffer) -> u64 {
    let mut products = buffer.products.iter();
    let mut square = 0_u128;
    for n in (1..=buffer.scales.len()).rev() {
        for (at, product) in products.by_ref().take(n).enumerate() {
            let size = u128::from(whole(product.abs()));
            let times = if at == 0 { 1 } else { 2 }; // the row with itself comes first
            square = square.saturating_add(size.saturating_mul(size).saturating_mul(times));
        }
    }
    let root = square.isqrt();
    let above = u128::from(root.saturating_mul(root) < square);
    u64::try_from(root.saturating_add(above)).unwrap_or(u64::MAX)
}

impl RowsBuffer {
    /// `V_p V_q / 2^s` for `p <= q`, row by row.
    pub(super) fn fill_weights(&mut self, grid: &KroneckerGrid) {
        self.weights.clear();
        for (p, &v) in self.integers.iter().enumerate() {
            let rest = self.integers.iter().skip(p);
            self.weights.extend(rest.map(|&w| grid.weight(v, w)));
        }
    }
}

/// `V = trunc(2^24 v / ||v||)`; returns `||v||`, or 0 with `V = 0` if it is not finite and
/// positive.
fn quantise_vector(buffer: &mut RowsBuffer) -> f64 {
    let length = buffer.vector.iter().map(|v| v * v).sum::<f64>().sqrt();
    let usable = length > 0.0 && length.is_finite();
    let scale = if usable {
        2.0_f64.powi(LOG2_VECTOR.cast_signed()) / length
    } else {
        0.0
    };
    buffer.integers.clear();
    let limit = VECTOR_LIMIT;
    let integers = buffer.vector.iter().map(|v| whole_signed(v * scale, limit));
    buffer.integers.extend(integers);
    if usable { length } else { 0.0 }
}

/// Coordinates of `V` are clamped to this, so that products of two are exact.
const VECTOR_LIMIT: f64 = (1_u64 << 25) as f64;
/// Traces from this value on may have been rounded.
const TRACE_LIMIT: f64 = (1_u64 << 53) as f64;

fn squared_norm(integers: &[i64]) -> u64 {
    let squares = integers.iter().map(|v| v.unsigned_abs().saturating_pow(2));
    squares.fold(0, u64::saturating_add)
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "toward zero, clamped to 25 bits, NaN to 0: the quantiser"
)]
fn whole_signed(value: f64, limit: f64) -> i64 {
    value.clamp(-limit, limit) as i64
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an integer below 2^53 that is not negative"
)]
const fn whole(value: f64) -> u64 {
    value as u64
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "one rounding to f32; the grid's margin of 2^-20 covers its growth of norms"
)]
const fn single(scale: f64) -> f32 {
    scale as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::Lcg;

    #[test]
    fn the_quick_norm_is_not_below_the_exact_one_and_near_it() {
        let mut rng = Lcg(5);
        for n_rows in [1_usize, 2, 7, 40] {
            for size in [1.0, 3e6, 1e10, 3e13 / n_rows as f64] {
                let n = n_rows * (n_rows + 1) / 2;
                let products: Vec<f64> = (0..n).map(|_| (rng.signed() * size).trunc()).collect();
                let rough = with_vector_instructions(RoughNorm {
                    products: &products,
                    n_rows,
                });
                let exact = frobenius_norm(&RowsBuffer {
                    scales: vec![1.0; n_rows],
                    products,
                    ..RowsBuffer::default()
                });
                let most = exact + ((n_rows as u64 + 2) << 23);
                assert!(
                    (exact..=most).contains(&rough),
                    "{n_rows} {size}: {rough} {exact}"
                );
            }
        }
    }
}
