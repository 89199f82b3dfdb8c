//! Scales that make a user's rows a share of the moments, batched.

use dp_core::{PerUser, UserRow, UserSamples};
use dp_linalg::{Across, PlainLoops, with_vector_instructions};
use dp_mechanism::{KroneckerContribution, RowsBuffer};

use super::DirectionMoments;
use super::whitening::{MomentScratch, push_rows};
use crate::Result;
use crate::batched::{BatchedUsers, UserBlock, add_product, inverse_roots, is_batched};
use crate::cache::places;
use crate::small::clip_factor;
use crate::user_rows::{UserCells, single};

/// Frobenius norms come out of single precision so much on the high side at least: sums of up to 256 products err by 1.5e-5 of the largest that they could
/// be, and roots of sums of squares by no more.
const FROBENIUS_MARGIN: f64 = 1.0 + 5e-5;

/// Working memory.
pub(super) struct MomentScales {
    users: BatchedUsers,
    products: Vec<Across>,
    inverses: Vec<Across>,
}

impl MomentScales {
    pub(super) fn new(n_features: usize) -> Result<Self> {
        Ok(Self {
            users: BatchedUsers::new(n_features)?,
            products: Vec::new(),
            inverses: Vec::new(),
        })
    }

    /// Writes the scales of the rows of each user, `min(1, c/||C_j||_F)^1/2 / (m_j^1/2 ||x_ij||)`, zeros for rows of zeros.
    pub(super) fn write(&mut self, block: UserBlock<'_>, clip_norm: f64, out: &mut [f32]) {
        out.fill(0.0);
        if self.users.load(block).is_err() {
            return; // not for any user: lengths are public
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

/// `||sum_r u_r u_r^T||_F^2` of the directions `u_r` of rows with these inner products, whose inverse norms are written, and how many rows are not zero.
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

/// [`DirectionMoments`] of a table, whose scales are computed for several users at a time.
pub(super) struct BlockMoments<'a> {
    moments: &'a DirectionMoments,
    samples: &'a UserSamples,
    places: PerUser<()>,
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
    pub(super) fn of(moments: &'a DirectionMoments, samples: &'a UserSamples) -> Self {
        Self {
            moments,
            samples,
            places: places(samples),
        }
    }

    /// What [`MomentScales::write`] writes of the user, if the row is one of the table and rows are not many.
    fn scales<'s>(&self, user: UserRow<'_>, scratch: &'s mut MomentScratch) -> Option<&'s [f32]> {
        let (clip_norm, dim) = (self.moments.clip_norm, self.moments.n_features);
        if !is_batched(UserCells::of(user, dim)) {
            return None;
        }
        let at = self.places.place(user.key())?;
        let batched = scratch.batched.as_mut()?;
        let write = |block: UserBlock<'_>, out: &mut [f32]| batched.write(block, clip_norm, out);
        let max_rows = self.samples.max_rows();
        // what is written of a user is a function of that user's own rows
        let found = scratch.block.find((self.samples, at), max_rows, write);
        batched.users.rows.fetch_announced(); // while the kernel works on this user
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
            // working memory as it is kept from user to user
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
}
