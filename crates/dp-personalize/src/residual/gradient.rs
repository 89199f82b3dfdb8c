//! A user's computation in a step: the personal model, its residual, the gradient of the subspace.

use dp_core::{UserRow, UserSamples};
use dp_linalg::{
    Across, PlainLoops, StridedRows, batched_lower_product, batched_solve, separate,
    weighted_row_sum, with_vector_instructions,
};

use crate::batched::{BatchedUsers, USERS, UserBlock, add_product, inverse_roots, is_batched};
use crate::cache::Cache;
use crate::design::{SINGLE_RIDGE, UserDesign};
use crate::embedding::RowUse;
use crate::small::{norm, norm_of_row, transposed};
use crate::user_rows::{NORM_MARGIN, Sweep, UserCells, single};
use crate::{Result, Subspace};

/// Public values of a step that users' computations use.
#[derive(Clone, Copy)]
pub(crate) struct Public<'a> {
    /// Number of original features.
    pub(crate) n_features: usize,
    /// The subspace for whitened features.
    pub(crate) subspace: &'a Subspace,
    /// The whitening transform `W`, lower triangular, if any.
    pub(crate) transform: Option<&'a [f64]>,
    /// `W^T U`: the basis for original features.
    pub(crate) basis: &'a [f64],
    /// Precomputed gradients, for a step that reads them twice.
    pub(crate) cache: Option<&'a Cache>,
}

/// Scratch memory.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct ResidualScratch {
    batched: Option<BatchedGradients>,
    /// Result of [`BatchedGradients::write`] for one user.
    found: Vec<f32>,
    sweep: Sweep,
    design: UserDesign,
    /// The columns of the transform in single precision, like the rows.
    transform: Vec<f32>,
    whitened: Vec<f32>,
    /// Unit vector along the personal model.
    direction: Vec<f64>,
    scales: Vec<f64>,
}

/// `R_j = scale p w_j^T` of one user.
pub(crate) struct Gradient<'a> {
    pub(super) scale: f64,
    pub(super) pulled: &'a [f32],
    pub(super) direction: &'a [f64],
    /// Scratch memory.
    pub(super) scales: &'a mut Vec<f64>,
    /// `||R_j||_F`.
    pub(super) size: f64,
}

impl<'a> Public<'a> {
    /// A subspace for original features.
    pub(super) fn unwhitened(subspace: &'a Subspace) -> Self {
        Self {
            n_features: subspace.dim(),
            subspace,
            transform: None,
            basis: subspace.basis(),
            cache: None,
        }
    }
}

impl Public<'_> {
    pub(super) fn scratch(&self) -> ResidualScratch {
        let (dim, rank) = (self.n_features, self.subspace.rank());
        let transform = self.transform.map(|w| transposed(w, dim));
        let transform = transform.unwrap_or_default();
        ResidualScratch {
            batched: BatchedGradients::new(self).ok(),
            found: vec![0.0; BatchedGradients::width(dim, rank)],
            sweep: Sweep::new(self.basis, rank),
            design: UserDesign::new(rank),
            transform: transform.iter().map(|&t| single(t)).collect(),
            whitened: vec![0.0; dim],
            direction: vec![0.0; rank],
            scales: Vec::new(),
        }
    }

    /// One user's gradient, or `None` for a user without information: no more rows than `rank`, or
    /// a model that is zero.
    ///
    /// ```text
    /// R_j = m_j/(m_j - k) W X_j^T r_j w_j^T / (||v_j|| e_j),  w_j = v_j/||v_j||,  r_j = y_j - X_j W U v_j,  e_j = ||X_j||_F^2 / d
    /// ```
    pub(crate) fn gradient<'s>(
        &'s self,
        user: UserRow<'_>,
        own: &'s mut ResidualScratch,
    ) -> Option<Gradient<'s>> {
        if let Some(numbers) = self.cache.and_then(|cache| cache.find(user)) {
            return self.read(numbers, &mut own.direction, &mut own.scales);
        }
        let cells = UserCells::of(user, self.n_features);
        if !is_batched(cells) {
            return self.compute(cells, own);
        }
        let batched = own.batched.as_mut()?;
        batched.write(UserBlock::alone(&cells), &mut own.found);
        self.read(&own.found, &mut own.direction, &mut own.scales)
    }

    /// Reads what [`BatchedGradients::write`] has written for one user.
    pub(super) fn read<'s>(
        &self,
        numbers: &'s [f32],
        direction: &'s mut [f64],
        scales: &'s mut Vec<f64>,
    ) -> Option<Gradient<'s>> {
        let ([scale, size], rest) = numbers.split_first_chunk()?;
        let (w, pulled) = rest.split_at_checked(direction.len())?;
        let cells = direction.iter_mut().zip(w);
        cells.for_each(|(direction, &w)| *direction = w.into());
        (!size.is_nan()).then_some(Gradient {
            scale: (*scale).into(),
            pulled,
            direction,
            scales,
            size: (*size).into(),
        })
    }

    /// The same for one user, who may have many rows.
    fn compute<'s>(
        &self,
        user: UserCells<'_>,
        own: &'s mut ResidualScratch,
    ) -> Option<Gradient<'s>> {
        const ALL: (RowUse, usize) = (RowUse::All, usize::MAX);
        let (dim, rank) = (self.n_features, self.subspace.rank());
        let ResidualScratch { sweep, design, .. } = own;
        sweep.read(user);
        sweep.fill(design, user, ALL);
        let n_rows = design.n_rows();
        if n_rows <= rank || !design.solve(SINGLE_RIDGE) {
            return None;
        }
        let energy: f64 = sweep.used(ALL).map(|row| sweep.square(user, row)).sum();
        let size = design.residuals().map(|r| r * r).sum::<f64>().sqrt();
        let residuals = design.residuals().map(|r| r / size.max(f64::MIN_POSITIVE));
        let pulled = sweep.weighted_sum(user, ALL, residuals);
        let length = norm(&design.own);
        let boost = n_rows as f64 / (n_rows - rank) as f64;
        let scale = size * boost * dim as f64 / (length * energy);
        let pulled = if self.transform.is_some() {
            let transform = StridedRows {
                data: &own.transform,
                stride: dim,
                n_rows: dim,
                dim,
            };
            weighted_row_sum(transform, pulled, &mut own.whitened).ok()?;
            &own.whitened
        } else {
            pulled
        };
        let models = own.direction.iter_mut().zip(&design.own);
        models.for_each(|(w, v)| *w = v / length);
        let size = scale * norm_of_row(pulled);
        size.is_finite().then_some(Gradient {
            scale,
            pulled,
            direction: &own.direction,
            scales: &mut own.scales,
            size,
        })
    }
}

/// Every user's gradient at one subspace: first its size is released, which determines the clipping
/// norm, then the clipped gradient. None if they do not fit into memory or users may have many
/// rows.
pub(crate) fn gradient_cache(
    public: &Public<'_>,
    samples: &UserSamples,
    memory: Vec<f32>,
) -> Option<Cache> {
    let first = samples.table().expose().users().next()?;
    if !is_batched(UserCells::of(first, samples.n_features())) {
        return None;
    }
    let width = BatchedGradients::width(samples.n_features(), public.subspace.rank());
    let scratch = || BatchedGradients::new(public).ok();
    let write = |users: UserBlock<'_>, own: &mut Option<BatchedGradients>, out: &mut [f32]| {
        match own {
            Some(own) => own.write(users, out),
            None => out.fill(f32::NAN), // does not happen for any user: the number of features is public
        }
    };
    Cache::of(samples, width, memory, scratch, write)
}

/// Number of values before the direction and the pulled rows of a user: scale and size.
const HEAD: usize = 2;

/// Public values of a step in single precision, and scratch memory.
pub(super) struct BatchedGradients {
    rank: usize,
    /// The basis by columns.
    columns: Vec<f32>,
    /// The transform; empty for the identity.
    lower: Vec<f32>,
    users: BatchedUsers,
    /// For each row its products with the columns and its squared norm.
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

    /// Number of values per user.
    pub(super) const fn width(dim: usize, rank: usize) -> usize {
        HEAD + rank + dim
    }

    /// Writes for each user the scale, the size `||R_j||_F`, the direction `w_j` and the vector `p`
    /// of `R_j = scale p w_j^T`. A size of NaN means that there is no gradient.
    ///
    /// `R_j` does not depend on the units of features or labels, so both may have been multiplied
    /// by powers of two. Sizes exceed those of the gradients written by up to 3e-5 and are never
    /// below.
    pub(super) fn write(&mut self, users: UserBlock<'_>, out: &mut [f32]) {
        if self.compute(users, out).is_err() {
            out.fill(f32::NAN); // does not happen for any user: lengths are public
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
        batched_solve(&mut self.gram, &lifts, &mut self.own)?;
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
            batched_lower_product(&self.lower, &self.pulled, &mut self.whitened)?;
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

/// `Z^T Z` and `Z^T y` of rows `(z, ||x||^2)` with their labels; labels of rows of zeros are set to
/// zero. Returns the ridges and the numbers of non-zero rows.
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

/// Overwrites the labels with the residuals `y - z^T v`, divided by their norm, whose square is
/// returned.
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

/// Scales, sizes and directions from users' computed values.
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
            return; // does not happen for any user
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

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;
    use dp_mechanism::{Grid, Provenance, vector_contribution};

    use super::*;
    use crate::lane_users::{
        DIM, columns, each_user_alone_decides, samples as of_all_sizes, transform,
    };
    use crate::residual::ResidualStep;

    fn samples(n_users: u8) -> UserSamples {
        let mut builder = UserSamplesBuilder::new(3, 4).unwrap();
        for user in 0..n_users {
            let angle = |row: u8| f32::from(user) * 0.7 + f32::from(row) * 1.3;
            for row in 0..1 + user % 4 {
                let x = [angle(row).sin(), angle(row).cos(), 1.0 - angle(row) % 2.0];
                builder.push(user.into(), &x, angle(row) % 3.0).unwrap();
            }
        }
        builder.build().0
    }

    fn numbers(found: Option<Gradient<'_>>) -> Option<(Vec<u32>, Vec<u64>)> {
        let found = found?;
        let others = found.direction.iter().chain([&found.scale, &found.size]);
        let bits = found.pulled.iter().map(|p| p.to_bits()).collect();
        Some((bits, others.map(|x| x.to_bits()).collect()))
    }

    #[test]
    fn a_cache_holds_what_the_user_would_compute() {
        let samples = samples(250);
        let columns = [1.0, 0.5, 0.1, 1.0, 0.3, -0.4];
        let plane = Subspace::spanned_by(3, 2, &columns, Provenance::NonPrivate).unwrap();
        let transform = [2.0, 0.0, 0.0, 0.1, 1.0, 0.0, 0.3, 0.2, 0.5];
        let mut public = Public {
            n_features: 3,
            subspace: &plane,
            transform: Some(&transform),
            basis: plane.basis(),
            cache: None,
        };
        let cache = gradient_cache(&public, &samples, Vec::new()).unwrap();
        let fresh = public;
        public.cache = Some(&cache);
        let (copy, others) = (samples.table().expose().clone(), self::samples(250));
        let others = others.table().expose(); // the same rows, which are not in the cache
        let mut without = 0;
        for (at, user) in samples.table().expose().users().enumerate() {
            assert!(cache.find(user).is_some() && cache.find(copy.user(at)).is_some());
            assert!(cache.find(others.user(at)).is_none());
            let expected = numbers(fresh.gradient(others.user(at), &mut fresh.scratch()));
            without += usize::from(expected.is_none());
            for user in [user, copy.user(at), others.user(at)] {
                let found = numbers(public.gradient(user, &mut public.scratch()));
                assert!(found == expected, "{at}");
            }
        }
        assert!((100..150).contains(&without), "{without}"); // one or two rows carry no information about a plane
    }

    /// A subspace for features that are multiplied by `transform`, and the public values of a step
    /// with it.
    fn public<'a>(plane: &'a Subspace, transform: Option<&'a [f64]>) -> Public<'a> {
        Public {
            n_features: DIM,
            subspace: plane,
            transform,
            basis: plane.basis(),
            cache: None,
        }
    }

    fn plane() -> Subspace {
        Subspace::spanned_by(DIM, 2, &columns(), Provenance::NonPrivate).unwrap()
    }

    #[test]
    fn gradients_are_those_of_the_user_alone() {
        let (plane, transform) = (plane(), transform());
        for transform in [None, Some(&transform[..])] {
            let public = public(&plane, transform);
            let fresh = || BatchedGradients::new(&public).unwrap();
            let width = BatchedGradients::width(DIM, 2);
            each_user_alone_decides(width, fresh, BatchedGradients::write, |found| {
                let (mut direction, mut scales) = (vec![0.0; 2], Vec::new());
                numbers(public.read(found, &mut direction, &mut scales))
            });
        }
    }

    #[test]
    fn what_the_kernel_adds_is_a_function_of_the_user_alone() {
        let (plane, transform) = (plane(), transform());
        let (samples, less, others) = (of_all_sizes(0), of_all_sizes(1), of_all_sizes(0));
        let (table, others) = (samples.table().expose(), others.table().expose());
        let less_table = less.table().expose();
        let grid = Grid::new(1.0, ResidualStep::share_norm(0.25)).unwrap();
        for transform in [None, Some(&transform[..])] {
            let alone = public(&plane, transform);
            let cache = gradient_cache(&alone, &samples, Vec::new()).unwrap();
            // memory of another table
            let memory = vec![f32::NAN; less_table.n_users() * BatchedGradients::width(DIM, 2)];
            let cache_of_less = gradient_cache(&alone, &less, memory).unwrap();
            let with = |cache| Public { cache, ..alone };
            let share = |public, user| {
                let step = ResidualStep {
                    public,
                    clip_norm: 0.5,
                    moment_weight: 0.25,
                };
                let found = numbers(public.gradient(user, &mut public.scratch()));
                let n = ResidualStep::n_coordinates(DIM, 2);
                (found, vector_contribution(&grid, n, &step, user))
            };
            let mut moved = 0;
            for at in 0..table.n_users() {
                let expected = share(alone, others.user(at));
                moved += usize::from(!expected.1.is_empty());
                assert!(
                    share(with(Some(&cache)), table.user(at)) == expected,
                    "{at}"
                );
                if at > 0 {
                    let found = share(with(Some(&cache_of_less)), less_table.user(at - 1));
                    assert!(found == expected, "{at}");
                }
            }
            assert!(moved > 25, "{moved}");
        }
    }
}
