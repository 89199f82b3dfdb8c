//! What users add to both sums of Algorithm 2, computed once.

use dp_core::{UserRow, UserSamples};
use rayon::prelude::*;

use super::ssp_user::{Share, SspUser};
use crate::kept::{USERS_PER_TASK, fill, fits, place};

/// Every user's own model, clip factors and weighted sum of rows at one subspace.
pub(crate) struct KeptShares<'a> {
    samples: &'a UserSamples,
    /// Own models and then clip factors, shape `(n_users, rank + max_rows)`. A model that is not a number stands for a user who is not in the step.
    models: Vec<f64>,
    /// Weighted sums of rows, shape `(n_users, dim)`.
    pulled: Vec<f32>,
    rank: usize,
}

impl<'a> KeptShares<'a> {
    /// The shares of all users, if they fit into memory.
    pub(super) fn of(step: &SspUser<'_>, samples: &'a UserSamples) -> Option<Self> {
        let (dim, rank) = (samples.n_features(), step.subspace.rank());
        let (n_users, n) = (samples.users().len(), rank + samples.max_rows());
        if !fits(samples, 4 * dim + 8 * n) {
            return None;
        }
        let mut kept = Self {
            samples,
            models: vec![f64::NAN; n_users * n],
            pulled: vec![0.0; n_users * dim],
            rank,
        };
        let models = kept.models.par_chunks_mut(USERS_PER_TASK * n);
        let pulled = kept.pulled.par_chunks_mut(USERS_PER_TASK * dim);
        let tasks = models.zip(pulled).enumerate();
        tasks.for_each(|(task, (models, pulled))| {
            let entries = models.chunks_exact_mut(n);
            let entries = entries.zip(pulled.chunks_exact_mut(dim));
            let scratch = || step.scratch();
            fill(samples, task, entries, scratch, |user, own, entry| {
                let (model, pulled) = entry;
                if let Some(share) = step.compute(user, own) {
                    let (own, factors) = model.split_at_mut(rank);
                    own.copy_from_slice(share.own);
                    factors.copy_from_slice(share.factors);
                    pulled.copy_from_slice(share.pulled);
                }
            });
        });
        Some(kept)
    }

    /// What is kept of the user whose rows these are.
    pub(super) fn find(&self, user: UserRow<'_>) -> Option<Kept<'_>> {
        let at = place(self.samples, user)?;
        let (dim, n) = (
            self.samples.n_features(),
            self.rank + self.samples.max_rows(),
        );
        let (own, factors) = self.models[at * n..(at + 1) * n].split_at(self.rank);
        Some(Kept {
            own,
            factors,
            pulled: &self.pulled[at * dim..(at + 1) * dim],
        })
    }
}

/// One user's share, or that there is none.
pub(super) struct Kept<'a> {
    own: &'a [f64],
    factors: &'a [f64],
    pulled: &'a [f32],
}

impl<'a> Kept<'a> {
    pub(super) fn share<'s>(self, scales: &'s mut Vec<f64>) -> Option<Share<'s>>
    where
        'a: 's,
    {
        let takes_part = self.own.first().is_some_and(|v| !v.is_nan());
        takes_part.then_some(Share {
            own: self.own,
            factors: self.factors,
            pulled: self.pulled,
            scales,
        })
    }
}

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;
    use dp_mechanism::{Grid, KroneckerGrid, kronecker_contribution, vector_contribution};

    use super::*;
    use crate::alt_min::StepUsers;
    use crate::{Provenance, RowUse, SspEmbedding, SspMatrix, SspRhs, Subspace};

    fn samples() -> UserSamples {
        let mut builder = UserSamplesBuilder::new(3, 8).unwrap();
        for user in 0..250_u8 {
            let angle = |row: u8| f32::from(user) * 0.7 + f32::from(row) * 1.3;
            for row in 0..1 + user % 8 {
                let x = [angle(row).sin(), angle(row).cos(), 1.0 - angle(row) % 2.0];
                builder.push(user.into(), &x, angle(row) % 3.0).unwrap();
            }
        }
        builder.build().0
    }

    #[test]
    fn what_is_kept_is_what_the_user_would_add() {
        let samples = samples();
        let columns = [1.0, 0.5, 0.1, 1.0, 0.3, -0.4];
        let plane = Subspace::spanned_by(3, 2, &columns, Provenance::NonPrivate).unwrap();
        let settings = SspEmbedding {
            design_clip: 0.4,
            label_clip: 2.0,
            ..SspEmbedding::section_6()
        };
        let mut step = SspUser {
            settings: &settings,
            subspace: &plane,
            max_rows: 8,
            users: StepUsers {
                batch: Some((1, 2)),
                model_rows: RowUse::Quarter(0),
                embedding_rows: RowUse::Quarter(1),
            },
            kept: None,
        };
        let (fresh, kept) = (step, KeptShares::of(&step, &samples).unwrap());
        step.kept = Some(&kept);
        let grids = (Grid::new(2.0, 1.0), KroneckerGrid::new(2.0, 1.0));
        let grids = (grids.0.unwrap(), grids.1.unwrap());
        let numbers = |step, user| {
            let matrix = kronecker_contribution(&grids.1, &SspMatrix(step), user).unwrap();
            (
                matrix,
                vector_contribution(&grids.0, 6, &SspRhs(step), user),
            )
        };
        let copy = samples.table().expose().clone();
        let mut silent = 0;
        for (at, user) in samples.table().expose().users().enumerate() {
            assert_eq!(place(&samples, user), Some(at));
            assert!(place(&samples, copy.user(at)).is_none());
            let expected = numbers(fresh, copy.user(at));
            silent += usize::from(expected.0.is_empty());
            assert!(numbers(step, user) == expected, "{at}");
            assert!(numbers(step, copy.user(at)) == expected, "{at}");
        }
        assert!((80..200).contains(&silent), "{silent}");
    }
}
