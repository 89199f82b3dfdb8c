//! What a user computes for a step: the own model, its residual, the gradient of the subspace.

use dp_core::{UserRow, UserSamples};
use dp_linalg::{StridedRows, weighted_row_sum};

use super::batched::BatchedGradients;
use crate::Subspace;
use crate::batched::{UserBlock, is_batched};
use crate::cache::Cache;
use crate::design::{SINGLE_RIDGE, UserDesign};
use crate::embedding::RowUse;
use crate::small::{norm, norm_of_row, transposed};
use crate::user_rows::{Sweep, UserCells, single};

/// Public values of a step that users compute with.
#[derive(Clone, Copy)]
pub(crate) struct Public<'a> {
    /// Length of the features as they are.
    pub(crate) n_features: usize,
    /// The subspace for whitened features.
    pub(crate) subspace: &'a Subspace,
    /// The whitening transform `W`, lower triangular, if any.
    pub(crate) transform: Option<&'a [f64]>,
    /// `W^T U`: the basis for features as they are.
    pub(crate) basis: &'a [f64],
    /// Gradients that were computed before, for a step that reads them twice.
    pub(crate) cache: Option<&'a Cache>,
}

/// Working memory.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct ResidualScratch {
    batched: Option<BatchedGradients>,
    /// What [`BatchedGradients::write`] found of one user.
    found: Vec<f32>,
    sweep: Sweep,
    design: UserDesign,
    /// The columns of the transform in single precision, as the rows are.
    transform: Vec<f32>,
    whitened: Vec<f32>,
    /// Unit vector along the own model.
    direction: Vec<f64>,
    scales: Vec<f64>,
}

/// `R_j = scale p w_j^T` of one user.
pub(super) struct Gradient<'a> {
    pub(super) scale: f64,
    pub(super) pulled: &'a [f32],
    pub(super) direction: &'a [f64],
    /// Working memory.
    pub(super) scales: &'a mut Vec<f64>,
    /// `||R_j||_F`.
    pub(super) size: f64,
}

impl<'a> Public<'a> {
    /// A subspace for features as they are.
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

    /// One user's gradient, or `None` for a user who has nothing to say: no more rows than `rank`, or a model
    /// that is zero.
    ///
    /// ```text
    /// R_j = m_j/(m_j - k) W X_j^T r_j w_j^T / (||v_j|| e_j),  w_j = v_j/||v_j||,  r_j = y_j - X_j W U v_j,  e_j = ||X_j||_F^2 / d
    /// ```
    pub(super) fn gradient<'s>(
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

    /// What [`BatchedGradients::write`] has written of one user.
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

/// Every user's gradient at one subspace: first its size is released, which sets the clip, then the clipped gradient. Nothing where they do not fit into memory
/// or users may have many rows.
pub(super) fn gradient_cache(
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
            None => out.fill(f32::NAN), // not for any user: the length of the features is public
        }
    };
    Cache::of(samples, width, memory, scratch, write)
}

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;
    use dp_mechanism::{Grid, Provenance, vector_contribution};

    use super::super::ResidualStep;
    use super::*;
    use crate::lane_users::{
        DIM, columns, each_user_alone_decides, samples as of_all_sizes, transform,
    };

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
        let others = others.table().expose(); // the same rows, of which the cache knows nothing
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
        assert!((100..150).contains(&without), "{without}"); // one row or two say nothing in a plane
    }

    /// A subspace for features that are multiplied by `transform`, and the public values of a step with it.
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
