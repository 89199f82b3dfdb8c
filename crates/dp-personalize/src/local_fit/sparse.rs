//! A sparse residual of the user's own beside the shared subspace.

use super::better;
use super::own_rows::OwnRows;
use crate::design::UserDesign;
use crate::small::inner;

/// Coordinates of `s` that are not 0, and the solution: `v`, then their values.
#[derive(Clone)]
pub(super) struct Sparse {
    pub(super) support: Vec<usize>,
    pub(super) solution: Vec<f64>,
}

impl OwnRows {
    /// Least squares on `(z, x_S)`.
    fn solve(&self, support: &[usize], ridge: f64) -> UserDesign {
        let mut design = UserDesign::new(self.rank + support.len());
        for i in 0..self.y.len() {
            let (x, z, y) = self.row(i);
            design.projected.extend_from_slice(z);
            design.projected.extend(support.iter().map(|&c| x[c]));
            design.labels.push(y);
        }
        design.solve(ridge);
        design
    }

    /// Matching pursuit: solutions with 0, 1, ... up to `most` coordinates, each the one before with the coordinate added that
    /// is most correlated with what is left. Ends early where rows run out.
    fn path(&self, most: usize, ridge: f64) -> Vec<Sparse> {
        let mut support = Vec::new();
        let mut path = Vec::new();
        loop {
            let design = self.solve(&support, ridge);
            path.push(Sparse {
                support: support.clone(),
                solution: design.own.clone(),
            });
            let level = usize::from(self.own_level);
            let room = design.n_rows() > self.rank + level + support.len() + 1;
            if path.len() > most || !room {
                return path;
            }
            match self.most_correlated(&design, &support) {
                Some(next) => support.push(next),
                None => return path,
            }
        }
    }

    /// The coordinate with the largest `|sum_i r_i x_ic| / sqrt(sum_i x_ic^2)`.
    fn most_correlated(&self, design: &UserDesign, support: &[usize]) -> Option<usize> {
        let (mut pull, mut energy) = (vec![0.0; self.dim], vec![0.0; self.dim]);
        for (i, r) in design.residuals().enumerate() {
            let x = self.row(i).0.iter();
            for ((p, e), x) in pull.iter_mut().zip(&mut energy).zip(x) {
                *p += r * x;
                *e += x * x;
            }
        }
        let size = |c: usize| pull[c].abs() / energy[c].sqrt();
        let usable = |&c: &usize| !support.contains(&c) && size(c) > 0.0;
        (0..self.dim)
            .filter(usable)
            .max_by(|&a, &b| size(a).total_cmp(&size(b)))
    }

    /// The solution with the number of coordinates, up to `most`, that has the least squared error on rows left out one at a time; the
    /// sparsest of equals. Coordinates and level are found anew for every row left out. There are no more than the features.
    pub(super) fn sparse(&self, most: usize, ridge: f64) -> Sparse {
        let most = most.min(self.dim);
        let mut errors = vec![0.0; most + 1];
        for i in 0..self.y.len() {
            let (kept, left_out) = self.without(i);
            let path = kept.path(most, ridge);
            let (x, z, y) = left_out.row(0);
            let residual = |s: &Sparse| {
                let (own, values) = s.solution.split_at(self.rank);
                let beyond: f64 = s.support.iter().zip(values).map(|(&c, t)| x[c] * t).sum();
                y - inner(z, own) - beyond
            };
            let last = path.len() - 1;
            for (n, error) in errors.iter_mut().enumerate() {
                *error += residual(&path[n.min(last)]).powi(2);
            }
        }
        let mut best = 0;
        for n in 1..=most {
            if better(errors[n], errors[best]) {
                best = n;
            }
        }
        let mut path = self.path(most, ridge);
        path.swap_remove(best.min(path.len() - 1))
    }
}
