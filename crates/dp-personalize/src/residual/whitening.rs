//! Second moments of the features, and the transform that makes them equal in all directions.

use dp_accounting::ReleaseRequest;
use dp_core::{PerUser, ReplaceFactor, UserRow, UserSamples};
use dp_linalg::{
    Across, PlainLoops, WideRows, cholesky_in_place, packed_index, symmetric_eigen,
    unpack_symmetric, with_vector_instructions,
};
use dp_mechanism::{KroneckerContribution, KroneckerSum, OffDiagonalNoise, RowsBuffer, Run};

use super::Whitening;
use crate::Result;
use crate::batched::{BatchedUsers, UserBlock, add_product, inverse_roots, is_batched};
use crate::cache::{BlockCache, user_index};
use crate::small::clip_factor;
use crate::user_rows::{UserCells, single};

/// One user's contribution to the second moments of feature directions: `min(1, c/||C_j||_F) C_j`,
/// with
///
/// ```text
/// C_j = (1/m_j) sum_i x_ij x_ij^T / ||x_ij||^2
/// ```
///
/// Directions alone need no bound in data units; the scale is restored by each user's own row
/// norms, and the trace is known.
///
/// # Privacy
/// The contribution has Frobenius norm at most `c = clip_norm`, which the kernel checks in exact
/// integers ([`KroneckerSum`] with `k = 1`); so the sum moves by at most `c` under add/remove and
/// is paid for as `2 c` under replacement (`sqrt 2 c` would require exactly semidefinite
/// contributions, which rounded ones are not).
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
#[derive(Clone, Copy)]
pub struct DirectionMoments {
    /// Number of features.
    pub n_features: usize,
    /// Bound `c` on a user's contribution.
    pub clip_norm: f64,
}

impl KroneckerContribution for DirectionMoments {
    type Scratch = MomentScratch;

    fn scratch(&self) -> Self::Scratch {
        MomentScratch {
            batched: MomentScales::new(self.n_features).ok(),
            block: BlockCache::default(),
            scales: Vec::new(),
            rows: WideRows::new(self.n_features).ok(),
            products: Vec::new(),
            inverses: Vec::new(),
        }
    }

    fn shape(&self) -> (usize, usize) {
        (self.n_features, 1)
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut RowsBuffer) {
        let user = UserCells::of(user, self.n_features);
        if !is_batched(user) {
            return self.contribute_many_rows(user.without_padding(), scratch, out);
        }
        let MomentScratch {
            batched, scales, ..
        } = scratch;
        let Some(batched) = batched else {
            return; // does not happen for any user: the number of features is public
        };
        scales.resize(user.n_rows(), 0.0);
        batched.write(UserBlock::alone(&user), self.clip_norm, scales);
        push_rows(user.stride(), scales, out);
    }
}

/// The user's rows with their scales, up to the last non-zero one.
fn push_rows(stride: usize, scales: &[f32], out: &mut RowsBuffer) {
    let n_rows = scales
        .iter()
        .rposition(|&s| s > 0.0)
        .map_or(0, |last| last + 1);
    out.own_rows(stride, scales[..n_rows].iter().map(|&s| s.into()));
    out.vector.fill(1.0);
}

/// Scratch memory.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct MomentScratch {
    batched: Option<MomentScales>,
    block: BlockCache,
    scales: Vec<f32>,
    /// Rows in double precision, their inner products, and the inverse norms.
    rows: Option<WideRows>,
    products: Vec<f64>,
    inverses: Vec<f64>,
}

impl DirectionMoments {
    fn contribute_many_rows(
        &self,
        user: UserCells<'_>,
        own: &mut MomentScratch,
        out: &mut RowsBuffer,
    ) {
        let Some(rows) = &mut own.rows else {
            return; // does not happen for any user: the number of features is public
        };
        if rows.load(user.rows()).is_err() {
            return; // likewise
        }
        rows.inner_products(&mut own.products);
        let square = gramian_square(&own.products, user.n_rows(), &mut own.inverses);
        let inverses = &own.inverses;
        let n_rows = inverses.iter().filter(|&&inverse| inverse > 0.0).count() as f64;
        let factor = clip_factor(square.sqrt() / n_rows, self.clip_norm);
        let scale = (factor / n_rows).sqrt();
        let scales = inverses.iter().map(|inverse| scale * inverse);
        out.own_rows(user.stride(), scales);
        out.vector.fill(1.0);
    }
}

/// `||sum_r u_r u_r^T||_F^2` of the directions of rows with these inner products; also writes the
/// inverse norms, 0 for a row of zeros.
fn gramian_square(products: &[f64], n_rows: usize, inverses: &mut Vec<f64>) -> f64 {
    let on_diagonal = (0..n_rows).map(|r| products[packed_index(n_rows, r, r)]);
    inverses.clear();
    inverses.extend(on_diagonal.map(|p| if p > 0.0 { p.sqrt().recip() } else { 0.0 }));
    let (mut square, mut rest) = (0.0, products);
    for (r, inverse) in inverses.iter().enumerate() {
        let (row, below) = rest.split_at(n_rows - r);
        let cosines = row.iter().zip(&inverses[r..]);
        let squares = cosines.map(|(p, other)| (p * inverse * other).powi(2));
        square += 2.0 * squares.sum::<f64>() - if *inverse > 0.0 { 1.0 } else { 0.0 };
        rest = below;
    }
    square
}

impl Whitening {
    pub(super) fn request(n_features: usize, share: f64) -> ReleaseRequest {
        let draws = KroneckerSum::draws(n_features);
        ReleaseRequest::new("feature directions", share, ReplaceFactor::Two, draws)
    }

    /// Lower triangular `W` with `W^T W = (d C)^-1`, shape `(d, d)`, where `C` are the released
    /// moments with trace 1 and raised eigenvalues. `W x` then has second moments `E||x||^2 / d` in
    /// every direction, as for every such `W`: two of them differ by a rotation, and neither the
    /// noise nor any later computation prefers a direction. `None` if the noise exceeds the
    /// moments.
    pub(super) fn release(
        &self,
        samples: &UserSamples,
        run: &mut Run<'_>,
    ) -> Result<Option<Vec<f64>>> {
        let dim = samples.n_features();
        let moments = DirectionMoments {
            n_features: dim,
            clip_norm: self.clip_norm,
        };
        let shape = (OffDiagonalNoise::Isometric, self.clip_norm);
        let blocks = BlockMoments::of(&moments, samples);
        let released = run.kronecker(samples.table(), shape, &blocks)?;
        self.transform(dim, &released.values(), released.noise_stddev())
    }

    /// Post-processing of the release.
    pub(crate) fn transform(
        &self,
        dim: usize,
        values: &[f64],
        noise_stddev: f64,
    ) -> Result<Option<Vec<f64>>> {
        let mut matrix = vec![0.0; dim * dim];
        unpack_symmetric(values, dim, &mut matrix)?;
        let trace: f64 = matrix.iter().step_by(dim + 1).sum();
        let n = dim as f64;
        if trace.is_nan() || trace <= 4.0 * n.sqrt() * noise_stddev {
            return Ok(None);
        }
        let eigen = symmetric_eigen(&matrix, dim)?;
        // sqrt(2 d) s is the spectral norm of noise with variance s^2 on the diagonal and s^2/2 off it
        let lift = self.damping * (2.0 * n).sqrt() * noise_stddev / trace;
        let least = 1e-6 / n;
        let lifted = eigen.values.iter();
        let lifted = lifted.map(|value| n * ((value / trace).max(0.0) + lift).max(least));
        matrix.fill(0.0);
        for (vector, value) in eigen.vectors.chunks_exact(dim).zip(lifted) {
            for (a, row) in matrix.chunks_exact_mut(dim).enumerate() {
                let scaled = value * vector[a];
                row.iter_mut()
                    .zip(vector)
                    .for_each(|(t, v)| *t += scaled * v);
            }
        }
        cholesky_in_place(&mut matrix, dim)?;
        Ok(Some(inverse_of_transpose(&matrix, dim)))
    }
}

/// `U^-T` of an upper triangular matrix, row by row, with zeros above the diagonal.
fn inverse_of_transpose(u: &[f64], dim: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; dim * dim];
    for a in 0..dim {
        let (known, rest) = inverse.split_at_mut(a * dim);
        let row = &mut rest[..dim];
        for (b, known) in known.chunks_exact(dim).enumerate() {
            let factor = u[b * dim + a];
            let products = row.iter_mut().zip(&known[..=b]);
            products.for_each(|(x, k)| *x -= factor * k);
        }
        row[a] = 1.0;
        row[..=a].iter_mut().for_each(|x| *x /= u[a * dim + a]);
    }
    inverse
}

/// Minimum factor by which Frobenius norms computed in single precision are overestimated: sums of
/// up to 256 products err by 1.5e-5 of their largest possible value, and roots of sums of squares
/// by no more.
const FROBENIUS_MARGIN: f64 = 1.0 + 5e-5;

/// Scratch memory for the scales of users, batched.
struct MomentScales {
    users: BatchedUsers,
    products: Vec<Across>,
    inverses: Vec<Across>,
}

impl MomentScales {
    fn new(n_features: usize) -> Result<Self> {
        Ok(Self {
            users: BatchedUsers::new(n_features)?,
            products: Vec::new(),
            inverses: Vec::new(),
        })
    }

    /// Writes the scales of the rows of each user, `min(1, c/||C_j||_F)^1/2 / (m_j^1/2 ||x_ij||)`,
    /// and zeros for rows of zeros.
    fn write(&mut self, block: UserBlock<'_>, clip_norm: f64, out: &mut [f32]) {
        out.fill(0.0);
        if self.users.load(block).is_err() {
            return; // does not happen for any user: lengths are public
        }
        let rows = &mut self.users.rows;
        rows.inner_products(&mut self.products);
        self.inverses.clear();
        self.inverses.resize(rows.n_rows(), Across::default());
        let (squares, counts) = with_vector_instructions(SquaredGramians {
            products: &self.products,
            inverses: &mut self.inverses,
        });
        let max_rows = out.len() / block.users.len().max(1);
        for (at, out) in out.chunks_exact_mut(max_rows.max(1)).enumerate() {
            let n_rows = f64::from(counts.0[at]);
            let norm = f64::from(squares.0[at]).sqrt() / n_rows * FROBENIUS_MARGIN;
            let factor = clip_factor(norm, clip_norm);
            let scale = (factor / n_rows.max(1.0)).sqrt() * f64::from(rows.scales().0[at]);
            for (out, inverses) in out.iter_mut().zip(&self.inverses) {
                *out = single(scale * f64::from(inverses.0[at]));
            }
        }
    }
}

/// `||sum_r u_r u_r^T||_F^2` of the directions `u_r` of rows with these inner products; also writes
/// the inverse norms, and returns the number of non-zero rows.
struct SquaredGramians<'a> {
    products: &'a [Across],
    inverses: &'a mut [Across],
}

impl PlainLoops for SquaredGramians<'_> {
    type Output = (Across, Across);

    #[inline(always)]
    fn run(self) -> (Across, Across) {
        let n_rows = self.inverses.len();
        let (mut squares, mut counts) = (Across::default(), Across::default());
        let mut at = 0;
        for (r, inverse) in self.inverses.iter_mut().enumerate() {
            *inverse = inverse_roots(&self.products[at]);
            for (count, inverse) in counts.0.iter_mut().zip(inverse.0) {
                *count += if inverse > 0.0 { 1.0 } else { 0.0 };
            }
            at += n_rows - r;
        }
        let mut rest = self.products;
        for r in 0..n_rows {
            let (row, below) = rest.split_at(n_rows - r);
            let mut sum = Across::default();
            for (product, other) in row[1..].iter().zip(&self.inverses[r + 1..]) {
                let mut cosine = Across::default();
                add_product(&mut cosine, product, other);
                let cosine_again = cosine;
                add_product(&mut sum, &cosine, &cosine_again);
            }
            for set in 0..sum.0.len() {
                let inverse = self.inverses[r].0[set];
                let own = if inverse > 0.0 { 1.0 } else { 0.0 };
                squares.0[set] += 2.0 * sum.0[set] * inverse * inverse + own;
            }
            rest = below;
        }
        (squares, counts)
    }
}

/// [`DirectionMoments`] of a table, with scales computed for several users at a time.
struct BlockMoments<'a> {
    moments: &'a DirectionMoments,
    samples: &'a UserSamples,
    index: PerUser<()>,
}

impl KroneckerContribution for BlockMoments<'_> {
    type Scratch = MomentScratch;

    fn scratch(&self) -> MomentScratch {
        self.moments.scratch()
    }

    fn shape(&self) -> (usize, usize) {
        self.moments.shape()
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut MomentScratch, out: &mut RowsBuffer) {
        match self.scales(user, scratch) {
            Some(scales) => push_rows(self.moments.n_features + 1, scales, out),
            None => self.moments.contribute(user, scratch, out),
        }
    }
}

impl<'a> BlockMoments<'a> {
    fn of(moments: &'a DirectionMoments, samples: &'a UserSamples) -> Self {
        Self {
            moments,
            samples,
            index: user_index(samples),
        }
    }

    /// The scales that [`MomentScales::write`] writes for the user, if the row is in the table and
    /// users have few rows.
    fn scales<'s>(&self, user: UserRow<'_>, scratch: &'s mut MomentScratch) -> Option<&'s [f32]> {
        let (clip_norm, dim) = (self.moments.clip_norm, self.moments.n_features);
        if !is_batched(UserCells::of(user, dim)) {
            return None;
        }
        let at = self.index.place(user.key())?;
        let batched = scratch.batched.as_mut()?;
        let write = |block: UserBlock<'_>, out: &mut [f32]| batched.write(block, clip_norm, out);
        let max_rows = self.samples.max_rows();
        // the values written for a user are a function of that user's own rows
        let found = scratch.block.find((self.samples, at), max_rows, write);
        batched.users.rows.fetch_announced(); // while the kernel processes this user
        found
    }
}

#[cfg(test)]
mod tests {
    use dp_mechanism::{KroneckerGrid, kronecker_contribution};

    use super::*;
    use crate::lane_users::{DIM, ROWS, each_user_alone_decides, samples};

    const MOMENTS: DirectionMoments = DirectionMoments {
        n_features: DIM,
        clip_norm: 0.3,
    };

    fn bits(numbers: &[f32]) -> Vec<u32> {
        numbers.iter().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn scales_are_those_of_the_user_alone() {
        let fresh = || MomentScales::new(DIM).unwrap();
        let clip_norm = MOMENTS.clip_norm;
        let write = |own: &mut MomentScales, block: UserBlock<'_>, out: &mut [f32]| {
            own.write(block, clip_norm, out);
        };
        each_user_alone_decides(ROWS, fresh, write, bits);
    }

    #[test]
    fn what_the_kernel_adds_is_a_function_of_the_user_alone() {
        let (samples, less) = (samples(0), samples(1));
        let blocks = BlockMoments::of(&MOMENTS, &samples);
        let blocks_of_less = BlockMoments::of(&MOMENTS, &less);
        let grid = KroneckerGrid::new(1.0, MOMENTS.clip_norm).unwrap();
        let (table, less) = (samples.table().expose(), less.table().expose());
        let copy = table.clone();
        let (mut used, mut used_of_less) = (MOMENTS.scratch(), MOMENTS.scratch());
        let mut moved = 0;
        for at in 0..table.n_users() {
            let user = table.user(at);
            let expected = kronecker_contribution(&grid, &MOMENTS, user).unwrap();
            for user in [user, copy.user(at)] {
                let found = kronecker_contribution(&grid, &blocks, user).unwrap();
                assert_eq!(found, expected, "{at}");
            }
            moved += usize::from(!expected.is_empty());
            // scratch memory reused from user to user
            let again = bits(blocks.scales(user, &mut used).unwrap());
            let fresh = &mut MOMENTS.scratch();
            assert_eq!(bits(blocks.scales(user, fresh).unwrap()), again, "{at}");
            let Some(before) = at.checked_sub(1) else {
                continue;
            };
            let user = less.user(before);
            let found = kronecker_contribution(&grid, &blocks_of_less, user).unwrap();
            assert_eq!(found, expected, "{at}");
            let found = blocks_of_less.scales(user, &mut used_of_less).unwrap();
            assert_eq!(bits(found), again, "{at}");
        }
        assert!(moved > 40, "{moved}");
    }

    #[test]
    fn the_transform_undoes_what_the_features_have() {
        let whitening = Whitening {
            share: 0.1,
            clip_norm: 0.5,
            damping: 0.0,
        };
        // the triangle of 10 [[4, 1], [1, 2]]
        let found = whitening
            .transform(2, &[40.0, 10.0, 20.0], 1e-9)
            .unwrap()
            .unwrap();
        let w = |a: usize, b: usize| found[2 * a + b];
        assert!(w(0, 1).abs() <= 0.0, "lower triangular");
        let c = |a: usize, b: usize| [4.0, 1.0, 1.0, 2.0][2 * a + b] / 6.0;
        for a in 0..2 {
            for b in 0..2 {
                let mut product = 0.0;
                for i in 0..2 {
                    for j in 0..2 {
                        product += w(a, i) * c(i, j) * w(b, j);
                    }
                }
                let expected = if a == b { 0.5 } else { 0.0 };
                assert!((product - expected).abs() < 1e-12);
            }
        }
        assert!(
            whitening
                .transform(2, &[1.0, 0.0, 1.0], 1.0)
                .unwrap()
                .is_none()
        );
    }
}
