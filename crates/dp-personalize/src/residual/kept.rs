//! Gradients that are computed once for the two releases of a step.

use dp_core::{UserRow, UserSamples};
use rayon::prelude::*;

use super::user::{Gradient, Public};
use crate::kept::{USERS_PER_TASK, fill, fits, place};

/// Every user's gradient at one subspace: first its size is released, which sets the clip, then the clipped gradient.
pub(crate) struct KeptGradients<'a> {
    samples: &'a UserSamples,
    /// `p` of each user, shape `(n_users, dim)`.
    pulled: Vec<f32>,
    /// Scale, size and direction of each user, shape `(n_users, 2 + rank)`. A size that is not a number stands for no gradient.
    others: Vec<f64>,
    rank: usize,
}

impl<'a> KeptGradients<'a> {
    /// The gradients of all users, if they fit into memory.
    pub(super) fn of(public: &Public<'_>, samples: &'a UserSamples) -> Option<Self> {
        let (dim, rank) = (samples.n_features(), public.subspace.rank());
        let n_users = samples.users().len();
        if !fits(samples, 4 * dim + 8 * (rank + 2)) {
            return None;
        }
        let mut kept = Self {
            samples,
            pulled: vec![0.0; n_users * dim],
            others: vec![f64::NAN; n_users * (rank + 2)],
            rank,
        };
        let pulled = kept.pulled.par_chunks_mut(USERS_PER_TASK * dim);
        let others = kept.others.par_chunks_mut(USERS_PER_TASK * (rank + 2));
        let tasks = pulled.zip(others).enumerate();
        tasks.for_each(|(task, (pulled, others))| {
            let entries = pulled.chunks_exact_mut(dim);
            let entries = entries.zip(others.chunks_exact_mut(rank + 2));
            let scratch = || public.scratch();
            fill(samples, task, entries, scratch, |user, own, entry| {
                let (pulled, others) = entry;
                if let Some(found) = public.compute(user, own) {
                    pulled.copy_from_slice(found.pulled);
                    (others[0], others[1]) = (found.scale, found.size);
                    others[2..].copy_from_slice(found.direction);
                }
            });
        });
        Some(kept)
    }

    /// What is kept of the user whose rows these are.
    pub(super) fn find(&self, user: UserRow<'_>) -> Option<Kept<'_>> {
        let at = place(self.samples, user)?;
        let (dim, n) = (self.samples.n_features(), self.rank + 2);
        Some(Kept {
            pulled: &self.pulled[at * dim..(at + 1) * dim],
            others: &self.others[at * n..(at + 1) * n],
        })
    }
}

/// One user's gradient, or that there is none.
pub(super) struct Kept<'a> {
    pulled: &'a [f32],
    others: &'a [f64],
}

impl<'a> Kept<'a> {
    pub(super) fn gradient<'s>(self, scales: &'s mut Vec<f64>) -> Option<Gradient<'s>>
    where
        'a: 's,
    {
        let [scale, size, direction @ ..] = self.others else {
            return None; // not for any user
        };
        (!size.is_nan()).then_some(Gradient {
            scale: *scale,
            pulled: self.pulled,
            direction,
            scales,
            size: *size,
        })
    }
}

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;

    use super::*;
    use crate::{Provenance, Subspace};

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
    fn what_is_kept_is_what_the_user_would_compute() {
        let samples = samples(250);
        let columns = [1.0, 0.5, 0.1, 1.0, 0.3, -0.4];
        let plane = Subspace::spanned_by(3, 2, &columns, Provenance::NonPrivate).unwrap();
        let transform = [2.0, 0.1, 0.0, 0.1, 1.0, 0.2, 0.0, 0.2, 0.5];
        let mut public = Public {
            n_features: 3,
            subspace: &plane,
            transform: Some(&transform),
            basis: plane.basis(),
            kept: None,
        };
        let (kept, fresh) = (KeptGradients::of(&public, &samples).unwrap(), public);
        public.kept = Some(&kept);
        let copy = samples.table().expose().clone();
        let mut without = 0;
        for (at, user) in samples.table().expose().users().enumerate() {
            assert_eq!(place(&samples, user), Some(at));
            assert!(place(&samples, copy.user(at)).is_none());
            let found = numbers(public.gradient(user, &mut public.scratch()));
            let expected = numbers(fresh.gradient(copy.user(at), &mut fresh.scratch()));
            without += usize::from(found.is_none());
            assert!(found == expected, "{at}");
        }
        assert!((100..150).contains(&without), "{without}"); // one row or two say nothing in a plane
    }
}
