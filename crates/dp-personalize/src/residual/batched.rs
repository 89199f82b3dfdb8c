//! Residual gradients of users, batched.

use dp_linalg::{
    Across, PlainLoops, lower_product_beside, separate, solve_beside, with_vector_instructions,
};

use super::gradient::Public;
use crate::Result;
use crate::batched::{BatchedUsers, USERS, UserBlock, add_product, inverse_roots};
use crate::design::SINGLE_RIDGE;
use crate::user_rows::{NORM_MARGIN, single};

/// Numbers that go before the direction and the pulled rows of a user: scale and size.
const HEAD: usize = 2;

/// Public values of a step in single precision, and working memory.
pub(super) struct BatchedGradients {
    rank: usize,
    /// The basis by columns.
    columns: Vec<f32>,
    /// The transform; empty for the identity.
    lower: Vec<f32>,
    users: BatchedUsers,
    /// Of each row its products with the columns and its squared norm.
    products: Vec<Across>,
    gram: Vec<Across>,
    own: Vec<Across>,
    pulled: Vec<Across>,
    whitened: Vec<Across>,
    numbers: Vec<Across>,
}

impl BatchedGradients {
    pub(super) fn new(public: &Public<'_>) -> Result<Self> {
        let (dim, rank) = (public.n_features, public.subspace.rank());
        let column = |k: usize| public.basis.iter().skip(k).step_by(rank);
        let lower = public.transform.unwrap_or_default();
        Ok(Self {
            rank,
            columns: (0..rank).flat_map(column).map(|&b| single(b)).collect(),
            lower: lower.iter().map(|&w| single(w)).collect(),
            users: BatchedUsers::new(dim)?,
            products: Vec::new(),
            gram: vec![Across::default(); dp_linalg::packed_len(rank)],
            own: vec![Across::default(); rank],
            pulled: vec![Across::default(); dim],
            whitened: vec![Across::default(); dim],
            numbers: vec![Across::default(); Self::width(dim, rank)],
        })
    }

    /// Numbers of one user.
    pub(super) const fn width(dim: usize, rank: usize) -> usize {
        HEAD + rank + dim
    }

    /// Writes of each user the scale, the size `||R_j||_F`, the direction `w_j` and the vector `p` of `R_j = scale p w_j^T`. A size that is not a number stands for
    /// no gradient.
    ///
    /// Neither the units of features nor those of labels matter to `R_j`, so that both may have been multiplied by powers of two. Sizes are up to 3e-5 above those
    /// of the gradients written and not below.
    pub(super) fn write(&mut self, users: UserBlock<'_>, out: &mut [f32]) {
        if self.compute(users, out).is_err() {
            out.fill(f32::NAN); // not for any user: lengths are public
        }
    }

    fn compute(&mut self, users: UserBlock<'_>, out: &mut [f32]) -> Result<()> {
        let Self { users: batched, .. } = self;
        batched.load(users)?;
        let BatchedUsers { rows, labels } = batched;
        rows.products(&self.columns, &mut self.products)?;
        let (lifts, counts) = with_vector_instructions(NormalEquations {
            products: &self.products,
            labels,
            gram: &mut self.gram,
            right: &mut self.own,
        });
        solve_beside(&mut self.gram, &lifts, &mut self.own)?;
        let squares = with_vector_instructions(Residuals {
            products: &self.products,
            own: &self.own,
            labels,
        });
        rows.weighted_sum(labels, &mut self.pulled)?;
        rows.fetch_announced();
        let pulled = if self.lower.is_empty() {
            &self.pulled
        } else {
            lower_product_beside(&self.lower, &self.pulled, &mut self.whitened)?;
            &self.whitened
        };
        rows.fetch_announced();
        let (head, rest) = self.numbers.split_at_mut(HEAD);
        let (directions, numbers) = rest.split_at_mut(self.rank);
        numbers.copy_from_slice(pulled);
        with_vector_instructions(Sizes {
            rank: self.rank as f32,
            counts,
            residuals: squares,
            energies: rows.squares(),
            own: &self.own,
            pulled,
            head,
            directions,
        });
        Ok(separate(&self.numbers, out)?)
    }
}

/// `Z^T Z` and `Z^T y` of rows `(z, ||x||^2)` with their labels, those of rows of zeros set to zero. Returns the ridges and the numbers of rows that are not
/// zero.
struct NormalEquations<'a> {
    products: &'a [Across],
    labels: &'a mut [Across],
    gram: &'a mut [Across],
    right: &'a mut [Across],
}

impl PlainLoops for NormalEquations<'_> {
    type Output = (Across, Across);

    #[inline(always)]
    fn run(self) -> (Across, Across) {
        let rank = self.right.len();
        let (mut traces, mut counts) = (Across::default(), Across::default());
        self.gram.fill(Across::default());
        self.right.fill(Across::default());
        let rows = self.products.chunks_exact(rank + 1);
        for (row, label) in rows.zip(self.labels) {
            let (z, square) = row.split_at(rank);
            for at in 0..USERS {
                let used = square[0].0[at] > 0.0;
                counts.0[at] += if used { 1.0 } else { 0.0 };
                label.0[at] = if used { label.0[at] } else { 0.0 };
            }
            let mut place = 0;
            for p in 0..rank {
                add_product(&mut self.right[p], &z[p], label);
                add_product(&mut traces, &z[p], &z[p]);
                for other in &z[p..] {
                    add_product(&mut self.gram[place], &z[p], other);
                    place += 1;
                }
            }
        }
        let share = single(SINGLE_RIDGE) / rank as f32;
        (Across(traces.0.map(|trace| share * trace)), counts)
    }
}

/// Residuals `y - z^T v` over the labels, divided by their norm, whose square is returned.
struct Residuals<'a> {
    products: &'a [Across],
    own: &'a [Across],
    labels: &'a mut [Across],
}

impl PlainLoops for Residuals<'_> {
    type Output = Across;

    #[inline(always)]
    fn run(self) -> Across {
        let mut squares = Across::default();
        let rows = self.products.chunks_exact(self.own.len() + 1);
        for (row, label) in rows.zip(&mut *self.labels) {
            let mut fitted = Across::default();
            for (z, v) in row.iter().zip(self.own) {
                add_product(&mut fitted, z, v);
            }
            for at in 0..USERS {
                label.0[at] -= fitted.0[at];
                squares.0[at] += label.0[at] * label.0[at];
            }
        }
        let inverses = inverse_roots(&squares);
        for label in self.labels {
            for at in 0..USERS {
                label.0[at] *= inverses.0[at];
            }
        }
        squares
    }
}

/// Scales, sizes and directions from what was computed of the users.
struct Sizes<'a> {
    rank: f32,
    counts: Across,
    /// `||r_j||^2`.
    residuals: Across,
    /// `||X_j||_F^2`.
    energies: &'a Across,
    own: &'a [Across],
    pulled: &'a [Across],
    head: &'a mut [Across],
    directions: &'a mut [Across],
}

impl PlainLoops for Sizes<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (mut models, mut lengths) = (Across::default(), Across::default());
        self.own.iter().for_each(|v| add_product(&mut models, v, v));
        let pulled = self.pulled.iter();
        pulled.for_each(|p| add_product(&mut lengths, p, p));
        let inverses = inverse_roots(&models);
        for (out, v) in self.directions.iter_mut().zip(self.own) {
            *out = Across::default();
            add_product(out, v, &inverses);
        }
        let (dim, margin) = (self.pulled.len() as f32, single(NORM_MARGIN));
        let [scales, sizes] = self.head else {
            return; // not for any user
        };
        for at in 0..USERS {
            let left = self.counts.0[at] - self.rank;
            let boost = self.counts.0[at] / left * dim / self.energies.0[at];
            let scale = boost * self.residuals.0[at].sqrt() * inverses.0[at];
            let size = scale * lengths.0[at].sqrt() * margin;
            let speaks = left > 0.0 && models.0[at] > 0.0 && size.is_finite();
            scales.0[at] = scale;
            sizes.0[at] = if speaks { size } else { f32::NAN };
        }
    }
}
