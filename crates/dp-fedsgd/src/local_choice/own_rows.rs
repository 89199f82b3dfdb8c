//! A user's rows and their products.

use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use super::ridge::Ridge;
use crate::Minibatch;

/// `m` rows of `d` features, with an own level less their means.
pub(super) struct OwnRows {
    n_features: usize,
    /// `X`, row by row.
    x: Vec<f64>,
    y: Vec<f64>,
    /// Means of features and target, with an own level.
    means: Option<(Vec<f64>, f64)>,
    /// `X X^T` where there are no more rows than features, otherwise `X^T X`.
    products: Vec<f64>,
}

impl OwnRows {
    pub(super) fn of(rows: &Minibatch, own_level: bool) -> Self {
        let x = rows.rows().flat_map(|(x, _)| x.iter().map(|&x| x.into()));
        let mut own = Self {
            n_features: rows.n_features(),
            x: x.collect(),
            y: rows.rows().map(|(_, y)| y.into()).collect(),
            means: None,
            products: Vec::new(),
        };
        if own_level {
            own.center();
        }
        own.products = if own.in_rows() {
            own.products_of_rows()
        } else {
            own.products_of_features()
        };
        own
    }

    pub(super) const fn n_features(&self) -> usize {
        self.n_features
    }

    /// Takes the means off: the constant is a column without penalty.
    fn center(&mut self) {
        let share = 1.0 / self.y.len().max(1) as f64;
        let y_mean = share * self.y.iter().sum::<f64>();
        let x_mean = self.combination(&vec![share; self.y.len()]);
        self.y.iter_mut().for_each(|y| *y -= y_mean);
        for x in self.x.chunks_exact_mut(self.n_features.max(1)) {
            x.iter_mut().zip(&x_mean).for_each(|(x, mean)| *x -= mean);
        }
        self.means = Some((x_mean, y_mean));
    }

    /// Whether there are rows, and where a level is fitted, more than one.
    pub(super) const fn can_leave_one_out(&self) -> bool {
        self.y.len() > self.means.is_some() as usize
    }

    /// The level for these coefficients, `mean(y) - <mean(x), coefficients>`; 0 where none is fitted, and where rows overflow.
    pub(super) fn level(&self, coefficients: &[f64]) -> f64 {
        let level = |(x, y): &(Vec<f64>, f64)| y - inner(x, coefficients);
        let level = self.means.as_ref().map(level);
        level.filter(|b| b.is_finite()).unwrap_or(0.0)
    }

    /// What the level adds to every `h_kk`.
    pub(super) fn leverage_of_level(&self) -> f64 {
        match self.means {
            Some(_) => 1.0 / self.y.len() as f64,
            None => 0.0,
        }
    }

    /// Whether a ridge is solved in rows; otherwise in features.
    const fn in_rows(&self) -> bool {
        self.y.len() <= self.n_features
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.x.chunks_exact(self.n_features.max(1))
    }

    fn products_of_rows(&self) -> Vec<f64> {
        let each = self.rows();
        each.flat_map(|a| self.rows().map(move |b| inner(a, b)))
            .collect()
    }

    fn products_of_features(&self) -> Vec<f64> {
        let d = self.n_features;
        let mut products = vec![0.0; d * d];
        for x in self.rows() {
            for (line, &a) in products.chunks_exact_mut(d).zip(x) {
                line.iter_mut().zip(x).for_each(|(p, b)| *p += a * b);
            }
        }
        products
    }

    /// The ridge of penalty `r` per row. None where its system cannot be solved, as with rows that overflow.
    pub(super) fn ridge(&self, penalty: f64) -> Option<Ridge> {
        if penalty.is_infinite() {
            return Some(Ridge::Nothing);
        }
        let size = self.y.len().min(self.n_features);
        let level = penalty * self.y.len() as f64;
        let inverse = inverse_of(&self.products, size, level)?;
        Some(if self.in_rows() {
            Ridge::in_rows(inverse, level)
        } else {
            Ridge::in_features(inverse, self)
        })
    }

    /// `X w`.
    pub(super) fn scores(&self, shared: &[f64]) -> Vec<f64> {
        self.rows().map(|x| inner(x, shared)).collect()
    }

    /// `y - c X w` from the scores `X w`.
    pub(super) fn residuals(&self, scores: &[f64], weight: f64) -> Vec<f64> {
        let rows = self.y.iter().zip(scores);
        rows.map(|(y, score)| y - weight * score).collect()
    }

    /// `X^T a`.
    pub(super) fn combination(&self, a: &[f64]) -> Vec<f64> {
        let mut sum = vec![0.0; self.n_features];
        for (x, a) in self.rows().zip(a) {
            sum.iter_mut().zip(x).for_each(|(s, x)| *s += a * x);
        }
        sum
    }
}

pub(super) fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `(P + level I)^-1`, row by row; none unless it is positive definite.
fn inverse_of(products: &[f64], size: usize, level: f64) -> Option<Vec<f64>> {
    let mut factor = products.to_vec();
    factor
        .iter_mut()
        .step_by(size + 1)
        .for_each(|f| *f += level);
    if !factor.iter().all(|f| f.is_finite()) {
        return None;
    }
    cholesky_in_place(&mut factor, size).ok()?;
    let mut inverse = vec![0.0; size * size];
    for (k, column) in inverse.chunks_exact_mut(size.max(1)).enumerate() {
        column[k] = 1.0;
        cholesky_solve_in_place(&factor, size, column).ok()?;
    }
    Some(inverse)
}
