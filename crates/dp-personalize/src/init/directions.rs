//! Least-squares directions of users, batched.

use dp_core::{UserRow, UserSamples};
use dp_linalg::{Across, RowsBeside, separate, solve_beside};
use dp_mechanism::{FactorBuffer, FactorContribution};

use super::projector::{ProjectorScratch, ProjectorSum};
use crate::Result;
use crate::batched::{BatchedUsers, USERS, UserBlock};
use crate::cache::Cache;
use crate::design::SINGLE_RIDGE;
use crate::user_rows::{UserCells, single};

/// Working memory.
pub(super) struct Directions {
    users: BatchedUsers,
    moved: RowsBeside,
    kernel: Vec<Across>,
    sum: Vec<Across>,
}

impl Directions {
    pub(super) fn new(n_features: usize) -> Result<Self> {
        let users = BatchedUsers::new(n_features)?;
        Ok(Self {
            moved: users.rows.clone(),
            users,
            kernel: Vec::new(),
            sum: vec![Across::default(); n_features],
        })
    }

    /// Writes for each user a vector along `Z^T (Z Z^T + ridge tr(Z Z^T)/m I)^-1 y`, `Z` the rows times the transform (a lower triangular matrix, or the
    /// identity): the least-squares solution of smallest norm of fewer rows than features.
    pub(super) fn write(&mut self, users: UserBlock<'_>, transform: &[f32], out: &mut [f32]) {
        if self.solve(users, transform, out).is_err() {
            out.fill(0.0); // not for any user: lengths are public
        }
    }

    fn solve(&mut self, users: UserBlock<'_>, transform: &[f32], out: &mut [f32]) -> Result<()> {
        self.users.load(users)?;
        let BatchedUsers { rows, labels } = &mut self.users;
        let rows = if transform.is_empty() {
            rows
        } else {
            self.moved.load_product(rows, transform)?;
            &mut self.moved
        };
        rows.inner_products(&mut self.kernel);
        let lifts = lifts(&self.kernel, rows.n_rows());
        solve_beside(&mut self.kernel, &lifts, labels)?;
        rows.weighted_sum(labels, &mut self.sum)?;
        Ok(separate(&self.sum, out)?)
    }
}

/// The ridge times the mean of what is on the diagonal, rows of zeros left out.
fn lifts(kernel: &[Across], n_rows: usize) -> Across {
    let (mut traces, mut counts) = ([0.0_f32; USERS], [0.0_f32; USERS]);
    let mut at = 0;
    for r in 0..n_rows {
        let sums = traces.iter_mut().zip(&mut counts);
        for ((trace, count), square) in sums.zip(kernel[at].0) {
            *trace += square;
            *count += if square > 0.0 { 1.0 } else { 0.0 };
        }
        at += n_rows - r;
    }
    let ridge = single(SINGLE_RIDGE);
    Across(std::array::from_fn(|at| {
        ridge * traces[at] / counts[at].max(1.0)
    }))
}

/// A [`ProjectorSum`] with the directions of all users computed before, if they fit into memory.
pub(super) struct CachedDirections<'a> {
    sum: &'a ProjectorSum,
    cache: Option<Cache>,
}

impl<'a> CachedDirections<'a> {
    /// With a cache where there is `to_be` one.
    pub(super) fn of(sum: &'a ProjectorSum, samples: &UserSamples, to_be: bool) -> Self {
        let (dim, first) = (sum.dim(), samples.table().expose().users().next());
        let is_batched = first.is_some_and(|user| sum.is_batched(UserCells::of(user, dim)));
        let write = |users: UserBlock<'_>, own: &mut Option<Directions>, out: &mut [f32]| {
            match own {
                Some(own) => own.write(users, sum.lower(), out),
                None => out.fill(0.0), // not for any user: the length of the features is public
            }
        };
        let scratch = || Directions::new(dim).ok();
        let cache = || Cache::of(samples, dim, Vec::new(), scratch, write);
        Self {
            sum,
            cache: if to_be && is_batched { cache() } else { None },
        }
    }
}

impl FactorContribution for CachedDirections<'_> {
    type Scratch = Option<ProjectorScratch>;

    fn scratch(&self) -> Self::Scratch {
        self.sum.scratch()
    }

    fn dim(&self) -> usize {
        self.sum.dim()
    }

    fn reads_features(&self) -> bool {
        self.cache.is_none()
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut FactorBuffer) {
        match self.cache.as_ref().and_then(|cache| cache.find(user)) {
            Some(direction) => {
                let cells = out.factor.iter_mut().zip(direction);
                cells.for_each(|(u, &x)| *u = x.into());
                ProjectorSum::normalise(out);
            }
            None => self.sum.contribute(user, scratch, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane_users::{DIM, each_user_alone_decides, samples, transform};

    fn buffer() -> FactorBuffer {
        FactorBuffer {
            factor: vec![0.0; DIM],
            weights: vec![0.0],
            labels: vec![0.0],
        }
    }

    /// What the kernel is handed.
    fn bits(out: &FactorBuffer) -> Vec<u64> {
        let numbers = out.factor.iter().chain(&out.weights).chain(&out.labels);
        numbers.map(|x| x.to_bits()).collect()
    }

    #[test]
    fn directions_are_those_of_the_user_alone() {
        let lower: Vec<f32> = transform().into_iter().map(single).collect();
        for lower in [&[][..], &lower] {
            let fresh = || Directions::new(DIM).unwrap();
            let write = |own: &mut Directions, block: UserBlock<'_>, out: &mut [f32]| {
                own.write(block, lower, out);
            };
            each_user_alone_decides(DIM, fresh, write, |found| {
                let mut out = buffer();
                let cells = out.factor.iter_mut().zip(found);
                cells.for_each(|(u, &x)| *u = x.into());
                ProjectorSum::normalise(&mut out);
                bits(&out)
            });
        }
    }

    #[test]
    fn what_the_kernel_is_handed_is_a_function_of_the_user_alone() {
        let (samples, less, others) = (samples(0), samples(1), samples(0));
        let table = samples.table().expose();
        let (copy, less_table) = (table.clone(), less.table().expose());
        let others = others.table().expose(); // the same rows, of which no cache knows anything
        for transform in [None, Some(&transform()[..])] {
            let sum = ProjectorSum::transformed(DIM, transform).unwrap();
            let cached = CachedDirections::of(&sum, &samples, true);
            let cached_of_less = CachedDirections::of(&sum, &less, true);
            assert!(cached.cache.is_some() && cached_of_less.cache.is_some());
            assert!(CachedDirections::of(&sum, &samples, false).cache.is_none());
            let (mut used, mut moved) = (sum.scratch(), 0);
            for at in 0..table.n_users() {
                let mut expected = buffer();
                sum.contribute(others.user(at), &mut sum.scratch(), &mut expected);
                moved += usize::from(expected.weights[0] > 0.0);
                let check = |contribution: &CachedDirections<'_>, user, scratch: &mut _| {
                    let mut found = buffer();
                    contribution.contribute(user, scratch, &mut found);
                    assert_eq!(bits(&found), bits(&expected), "{at}");
                };
                for user in [table.user(at), copy.user(at), others.user(at)] {
                    check(&cached, user, &mut used);
                }
                if at > 0 {
                    check(&cached_of_less, less_table.user(at - 1), &mut used);
                }
            }
            assert!(moved > 40, "{moved}");
        }
    }
}
