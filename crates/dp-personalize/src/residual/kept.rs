//! Gradients that are computed once for the two releases of a step, users side by side.

use dp_core::UserSamples;

use super::beside::GradientsBeside;
use super::user::Public;
use crate::beside::{UserBlock, go_beside};
use crate::kept::KeptNumbers;
use crate::user_rows::UserCells;

/// Every user's gradient at one subspace: first its size is released, which sets the clip, then the clipped gradient. Nothing where they do not fit into memory
/// or users may have many rows.
pub(super) fn kept_gradients<'a>(
    public: &Public<'_>,
    samples: &'a UserSamples,
    memory: Vec<f32>,
) -> Option<KeptNumbers<'a>> {
    let first = samples.table().expose().users().next()?;
    if !go_beside(UserCells::of(first, samples.n_features())) {
        return None;
    }
    let width = GradientsBeside::width(samples.n_features(), public.subspace.rank());
    let scratch = || GradientsBeside::new(public).ok();
    let write = |users: UserBlock<'_>, own: &mut Option<GradientsBeside>, out: &mut [f32]| {
        match own {
            Some(own) => own.write(users, out),
            None => out.fill(f32::NAN), // not for any user: the length of the features is public
        }
    };
    KeptNumbers::of(samples, width, memory, scratch, write)
}

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;
    use dp_mechanism::{Grid, vector_contribution};

    use super::super::step::ResidualStep;
    use super::super::user::Gradient;
    use super::*;
    use crate::kept::place;
    use crate::lane_users::{
        DIM, columns, each_user_alone_decides, samples as of_all_sizes, transform,
    };
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
        let transform = [2.0, 0.0, 0.0, 0.1, 1.0, 0.0, 0.3, 0.2, 0.5];
        let mut public = Public {
            n_features: 3,
            subspace: &plane,
            transform: Some(&transform),
            basis: plane.basis(),
            kept: None,
        };
        let kept = kept_gradients(&public, &samples, Vec::new()).unwrap();
        let fresh = public;
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

    /// A subspace for features that are multiplied by `transform`, and the public values of a step with it.
    fn public<'a>(plane: &'a Subspace, transform: Option<&'a [f64]>) -> Public<'a> {
        Public {
            n_features: DIM,
            subspace: plane,
            transform,
            basis: plane.basis(),
            kept: None,
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
            let fresh = || GradientsBeside::new(&public).unwrap();
            let width = GradientsBeside::width(DIM, 2);
            each_user_alone_decides(width, fresh, GradientsBeside::write, |found| {
                let (mut direction, mut scales) = (vec![0.0; 2], Vec::new());
                numbers(public.read(found, &mut direction, &mut scales))
            });
        }
    }

    #[test]
    fn what_the_kernel_adds_is_a_function_of_the_user_alone() {
        let (plane, transform) = (plane(), transform());
        let (samples, less) = (of_all_sizes(0), of_all_sizes(1));
        let table = samples.table().expose();
        let (copy, less_table) = (table.clone(), less.table().expose());
        let grid = Grid::new(1.0, ResidualStep::share_norm(0.25)).unwrap();
        for transform in [None, Some(&transform[..])] {
            let alone = public(&plane, transform);
            let kept = kept_gradients(&alone, &samples, Vec::new()).unwrap();
            // memory of another table
            let memory = vec![f32::NAN; less_table.n_users() * GradientsBeside::width(DIM, 2)];
            let kept_of_less = kept_gradients(&alone, &less, memory).unwrap();
            let with = |kept| Public { kept, ..alone };
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
                let expected = share(alone, copy.user(at));
                moved += usize::from(!expected.1.is_empty());
                assert!(share(with(Some(&kept)), table.user(at)) == expected, "{at}");
                if at > 0 {
                    let found = share(with(Some(&kept_of_less)), less_table.user(at - 1));
                    assert!(found == expected, "{at}");
                }
            }
            assert!(moved > 25, "{moved}");
        }
    }
}
