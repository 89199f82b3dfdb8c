//! Least-squares directions of users side by side.

use dp_core::{UserRow, UserSamples};
use dp_linalg::{Across, RowsBeside, separate, solve_beside};
use dp_mechanism::{FactorBuffer, FactorContribution};

use super::projector::{ProjectorScratch, ProjectorSum};
use crate::Result;
use crate::beside::{USERS, UserBlock, UsersBeside};
use crate::design::SINGLE_RIDGE;
use crate::kept::KeptNumbers;
use crate::user_rows::{UserCells, single};

/// Working memory.
pub(super) struct Directions {
    users: UsersBeside,
    moved: RowsBeside,
    kernel: Vec<Across>,
    sum: Vec<Across>,
}

impl Directions {
    pub(super) fn new(n_features: usize) -> Result<Self> {
        let users = UsersBeside::new(n_features)?;
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
        let UsersBeside { rows, labels } = &mut self.users;
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
pub(super) struct KeptDirections<'a> {
    sum: &'a ProjectorSum,
    kept: Option<KeptNumbers<'a>>,
}

impl<'a> KeptDirections<'a> {
    pub(super) fn of(sum: &'a ProjectorSum, samples: &'a UserSamples) -> Self {
        let (dim, first) = (sum.dim(), samples.table().expose().users().next());
        let beside = first.is_some_and(|user| sum.goes_beside(UserCells::of(user, dim)));
        let write = |users: UserBlock<'_>, own: &mut Option<Directions>, out: &mut [f32]| {
            match own {
                Some(own) => own.write(users, sum.lower(), out),
                None => out.fill(0.0), // not for any user: the length of the features is public
            }
        };
        let scratch = || Directions::new(dim).ok();
        let kept = || KeptNumbers::of(samples, dim, Vec::new(), scratch, write);
        Self {
            sum,
            kept: if beside { kept() } else { None },
        }
    }
}

impl FactorContribution for KeptDirections<'_> {
    type Scratch = Option<ProjectorScratch>;

    fn scratch(&self) -> Self::Scratch {
        self.sum.scratch()
    }

    fn dim(&self) -> usize {
        self.sum.dim()
    }

    fn reads_features(&self) -> bool {
        self.kept.is_none()
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut FactorBuffer) {
        match self.kept.as_ref().and_then(|kept| kept.find(user)) {
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
        let (samples, less) = (samples(0), samples(1));
        let table = samples.table().expose();
        let (copy, less_table) = (table.clone(), less.table().expose());
        for transform in [None, Some(&transform()[..])] {
            let sum = ProjectorSum::transformed(DIM, transform).unwrap();
            let kept = KeptDirections::of(&sum, &samples);
            let kept_of_less = KeptDirections::of(&sum, &less);
            assert!(kept.kept.is_some() && kept_of_less.kept.is_some());
            let (mut used, mut moved) = (sum.scratch(), 0);
            for at in 0..table.n_users() {
                let mut expected = buffer();
                sum.contribute(copy.user(at), &mut sum.scratch(), &mut expected);
                moved += usize::from(expected.weights[0] > 0.0);
                let check = |contribution: &KeptDirections<'_>, user, scratch: &mut _| {
                    let mut found = buffer();
                    contribution.contribute(user, scratch, &mut found);
                    assert_eq!(bits(&found), bits(&expected), "{at}");
                };
                check(&kept, table.user(at), &mut used);
                check(&kept, copy.user(at), &mut used);
                if at > 0 {
                    check(&kept_of_less, less_table.user(at - 1), &mut used);
                }
            }
            assert!(moved > 40, "{moved}");
        }
    }
}
