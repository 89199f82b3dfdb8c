//! A sparse residual of the user's own beside the shared subspace.

use crate::design::UserDesign;
use crate::small::inner;

/// One user's rows: as they are, through the basis, and labels.
pub(super) struct OwnRows {
    pub(super) dim: usize,
    pub(super) rank: usize,
    pub(super) x: Vec<f64>,
    pub(super) z: Vec<f64>,
    pub(super) y: Vec<f64>,
}

/// Coordinates of `s` that are not 0, and the solution: `v`, then their values.
#[derive(Clone)]
pub(super) struct Sparse {
    pub(super) support: Vec<usize>,
    pub(super) solution: Vec<f64>,
}

impl OwnRows {
    pub(super) fn row(&self, i: usize) -> (&[f64], &[f64], f64) {
        let x = &self.x[i * self.dim..(i + 1) * self.dim];
        let z = &self.z[i * self.rank..(i + 1) * self.rank];
        (x, z, self.y[i])
    }

    /// Least squares on `(z, x_S)` over the rows but `left_out`.
    fn solve(&self, support: &[usize], left_out: Option<usize>, ridge: f64) -> UserDesign {
        let mut design = UserDesign::new(self.rank + support.len());
        for i in (0..self.y.len()).filter(|&i| Some(i) != left_out) {
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
    fn path(&self, most: usize, left_out: Option<usize>, ridge: f64) -> Vec<Sparse> {
        let mut support = Vec::new();
        let mut path = Vec::new();
        loop {
            let design = self.solve(&support, left_out, ridge);
            path.push(Sparse {
                support: support.clone(),
                solution: design.own.clone(),
            });
            let room = design.n_rows() > self.rank + support.len() + 1;
            if path.len() > most || !room {
                return path;
            }
            match self.most_correlated(&design, &support, left_out) {
                Some(next) => support.push(next),
                None => return path,
            }
        }
    }

    /// The coordinate with the largest `|sum_i r_i x_ic| / sqrt(sum_i x_ic^2)`.
    fn most_correlated(
        &self,
        design: &UserDesign,
        support: &[usize],
        left_out: Option<usize>,
    ) -> Option<usize> {
        let (mut pull, mut energy) = (vec![0.0; self.dim], vec![0.0; self.dim]);
        let kept = (0..self.y.len()).filter(|&i| Some(i) != left_out);
        for (i, r) in kept.zip(design.residuals()) {
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
    /// sparsest of equals. Coordinates are chosen anew for every row left out. There are no more than the features.
    pub(super) fn sparse(&self, most: usize, ridge: f64) -> Sparse {
        let most = most.min(self.dim);
        let mut errors = vec![0.0; most + 1];
        for i in 0..self.y.len() {
            let path = self.path(most, Some(i), ridge);
            let (x, z, y) = self.row(i);
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
            if errors[n] < errors[best] {
                best = n;
            }
        }
        let mut path = self.path(most, None, ridge);
        path.swap_remove(best.min(path.len() - 1))
    }
}
