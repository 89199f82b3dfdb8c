//! A user's personal model, fitted by the user.

use dp_core::{SampleRows, params};
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use crate::design::{TINY_RIDGE, UserDesign, read_rows, take_off_means};
use crate::embedding::ConvexLoss;
use crate::small::inner;
use crate::{Result, Subspace};

/// How a user fits the personal model `theta = U v` to their own rows, once the subspace is public.
///
/// ```text
/// v = argmin sum_i (y_i - <U^T x_i, v>)^2 + lambda t ||v||^2,   t = tr(Z^T Z) / k,  Z = X U
/// ```
///
/// Source: Jain et al. 2021, Theorem 4.2, the last step of Algorithm 1, on all rows of the user
/// instead of the second half. The ridge is relative, so it does not depend on units.
///
/// For users whose models differ by more than the subspace allows there are extensions:
///
/// ```text
/// sparse residual   theta = U v + s,  ||s||_0 <= q      [`with_sparse_residual`](Self::with_sparse_residual)
/// soft prior        theta near the span of U            [`with_soft_prior`](Self::with_soft_prior)
/// ```
///
/// [`with_own_level`](Self::with_own_level) adds to any of these a level `b`, an unpenalised
/// intercept of the user: `X` and `y` are centred, and `b = mean(y) - <mean(x), theta>`. Whenever
/// rows are left out, the level is refitted without them.
///
/// # Privacy
/// Local: a function of the user's own rows and the released subspace, seen by nobody else. The
/// whole is then jointly private (billboard model), and choosing the ridge by leave-one-out costs
/// nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalFit {
    penalties: Vec<f64>,
    loss: ConvexLoss,
    beyond: Beyond,
    own_level: bool,
}

/// Errors closer than this relative difference are ties: with two rows and a level, leaving one out
/// does not distinguish between ridges.
const TIE: f64 = 1e-9;

fn better(error: f64, than: f64) -> bool {
    error < than * (1.0 - TIE)
}

/// Coefficients of a model outside the subspace.
#[derive(Debug, Clone, PartialEq)]
enum Beyond {
    Nothing,
    /// Up to this many coordinates of the user's own.
    Sparse(usize),
    /// Any deviation, with one of these penalties.
    Near(Vec<f64>),
}

impl Default for LocalFit {
    /// A ridge of 1e-9: plain least squares whenever that has a solution.
    fn default() -> Self {
        Self {
            penalties: vec![TINY_RIDGE],
            loss: ConvexLoss::Squared,
            beyond: Beyond::Nothing,
            own_level: false,
        }
    }
}

impl LocalFit {
    /// Ridge with `l2_penalty` (`lambda`, relative).
    ///
    /// # Errors
    /// [`crate::Error::Param`] when it is not finite and positive.
    pub fn ridge(l2_penalty: f64) -> Result<Self> {
        Self::leave_one_out(vec![l2_penalty])
    }

    /// The minimiser of `sum_i l(<x_i, U v>; y_i) + (lambda/2) t ||v||^2` for another convex loss.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when the penalty or the loss's threshold is not finite and positive.
    pub fn convex(loss: ConvexLoss, l2_penalty: f64) -> Result<Self> {
        loss.check()?;
        Ok(Self {
            loss,
            ..Self::ridge(l2_penalty)?
        })
    }

    /// Every user takes the one of `penalties` with the smallest leave-one-out error on their own
    /// rows; the first of those that differ by less than a part in 1e9, and the first if there is a
    /// single row.
    ///
    /// # Errors
    /// [`crate::Error::Param`] if there is no penalty, or one that is not finite and positive.
    pub fn leave_one_out(penalties: Vec<f64>) -> Result<Self> {
        params::at_least_one("penalties", penalties.len())?;
        for &penalty in &penalties {
            params::finite_positive("l2_penalty", penalty)?;
        }
        Ok(Self {
            penalties,
            loss: ConvexLoss::Squared,
            beyond: Beyond::Nothing,
            own_level: false,
        })
    }

    /// Low rank plus sparse: up to `most` coordinates of the user's own outside the subspace, for
    /// the squared loss.
    ///
    /// ```text
    /// min over v, s  sum_i (y_i - <U^T x_i, v> - <x_i, s>)^2 + lambda t ||(v, s)||^2,   ||s||_0 <= q
    /// ```
    ///
    /// by orthogonal matching pursuit: coordinates are added one by one, each time the one most
    /// correlated with the residual, and `v` and `s` are solved for together. The user takes the
    /// `q` of 0 to `most` with the smallest leave-one-out error on their own rows, with coordinates
    /// chosen again each time. The model class is that of alternating minimisation with hard
    /// thresholding (AMHT-LRS); here the shared part is learned without taking `s` into account,
    /// which acts as noise, and the sparse part is local and costs no privacy. A `most` above the
    /// number of features means all of them.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for 0 and for a loss other than the squared one.
    pub fn with_sparse_residual(mut self, most: usize) -> Result<Self> {
        params::at_least_one("coordinates of the sparse residual", most)?;
        self.needs_squared_loss()?;
        self.beyond = Beyond::Sparse(most);
        Ok(self)
    }

    /// A soft prior towards the subspace instead of a model in it, for the squared loss.
    ///
    /// ```text
    /// min over theta  sum_i (y_i - <x_i, theta>)^2 + lambda t ||U^T theta||^2 + kappa e ||(I - U U^T) theta||^2,   e = ||X||_F^2 / d
    /// ```
    ///
    /// `kappa` is the one of `penalties` with the smallest leave-one-out error on the user's own
    /// rows; there is no deviation at all if that is no worse. With many rows the model thus moves
    /// from the subspace to the user's own least squares.
    ///
    /// # Errors
    /// [`crate::Error::Param`] if there is no penalty, for one that is not finite and positive, and
    /// for a loss other than the squared one.
    pub fn with_soft_prior(mut self, penalties: Vec<f64>) -> Result<Self> {
        params::at_least_one("penalties", penalties.len())?;
        for &penalty in &penalties {
            params::finite_positive("penalty outside the subspace", penalty)?;
        }
        self.needs_squared_loss()?;
        self.beyond = Beyond::Near(penalties);
        Ok(self)
    }

    /// The same for models with a level for every user, for the squared loss.
    ///
    /// Rows may be centred already: the level is then 0. Even then it affects leave-one-out errors,
    /// because means of all rows depend on the row that is left out. A row is left out by the
    /// diagonal of the hat matrix, `1/m + z_i^T (Z^T Z + lambda t I)^-1 z_i` of centred `z_i`,
    /// which is exact for the ridge `lambda t` of all rows and needs no additional fit. Rows whose
    /// features are all 0 do not count here either
    /// ([`SampleRows::iter`](dp_core::SampleRows::iter)), although they would carry information
    /// about the level: encode features so that no row is 0.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a loss other than the squared one.
    ///
    /// # Examples
    /// ```
    /// use dp_core::UserSamplesBuilder;
    /// use dp_personalize::{LocalFit, Provenance, Subspace};
    /// let axis = Subspace::spanned_by(2, 1, &[1.0, 1.0], Provenance::NonPrivate)?;
    /// let mut user = UserSamplesBuilder::new(2, 2)?;
    /// user.push(0, &[1.0, 1.0], 6.0)?;
    /// user.push(0, &[2.0, 2.0], 8.0)?;
    /// let model = LocalFit::default().with_own_level()?.fit(&axis, user.build().0.rows(0));
    /// assert!((model.level() - 4.0).abs() < 1e-6);
    /// assert!((model.predict(&[3.0, 3.0]) - 10.0).abs() < 1e-6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_own_level(mut self) -> Result<Self> {
        self.needs_squared_loss()?;
        self.own_level = true;
        Ok(self)
    }

    fn needs_squared_loss(&self) -> Result<()> {
        if self.loss == ConvexLoss::Squared {
            return Ok(());
        }
        let (name, expected) = (
            "loss",
            "the squared loss, for levels and models beyond the subspace",
        );
        params::in_range(name, 1, 0, 0, expected)?;
        Ok(())
    }

    /// The user's model. A user without usable rows gets zeros.
    ///
    /// # Panics
    /// When the rows do not have the subspace's dimension.
    ///
    /// # Examples
    /// ```
    /// use dp_core::UserSamplesBuilder;
    /// use dp_personalize::{LocalFit, Provenance, Subspace};
    /// let axis = Subspace::spanned_by(2, 1, &[1.0, 1.0], Provenance::NonPrivate)?;
    /// let mut user = UserSamplesBuilder::new(2, 2)?;
    /// user.push(0, &[1.0, 1.0], 6.0)?;
    /// let samples = user.build().0;
    /// let model = LocalFit::default().fit(&axis, samples.rows(0));
    /// assert!((model.predict(&[2.0, 0.0]) - 6.0).abs() < 1e-6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fit(&self, subspace: &Subspace, rows: SampleRows<'_>) -> PersonalModel {
        let mut design = UserDesign::new(subspace.rank());
        self.fit_with(subspace, rows, &mut design)
    }

    pub(crate) fn fit_with(
        &self,
        subspace: &Subspace,
        rows: SampleRows<'_>,
        design: &mut UserDesign,
    ) -> PersonalModel {
        let mut dims = rows.iter().map(|(x, _)| x.len());
        assert!(
            dims.all(|n| n == subspace.dim()),
            "rows of another dimension"
        );
        design.read(rows.iter(), subspace.basis());
        if self.own_level {
            design.center();
        }
        let ridge = self.ridge_of(design);
        design.solve_convex(self.loss, ridge);
        let within = PersonalModel::new(subspace, design.own.clone());
        if self.beyond == Beyond::Nothing && !self.own_level {
            return within;
        }
        let (own, means) = OwnRows::of(rows, subspace, design, self.own_level);
        let model = match &self.beyond {
            Beyond::Nothing => within,
            Beyond::Sparse(most) => within.plus_sparse(subspace, &own.sparse(*most, ridge)),
            Beyond::Near(penalties) => within.near(subspace, &own, ridge, penalties),
        };
        match means {
            Some(means) => model.with_level(&means),
            None => model,
        }
    }

    /// The user's choice of ridge.
    fn ridge_of(&self, design: &mut UserDesign) -> f64 {
        let mut best = (f64::INFINITY, self.penalties[0]);
        if self.penalties.len() > 1 {
            for &penalty in &self.penalties {
                let error = design.leave_one_out(penalty);
                if better(error, best.0) {
                    best = (error, penalty);
                }
            }
        }
        best.1
    }
}

/// One user's model: never released, it stays with the user.
#[derive(Clone, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "made from one user's private rows; printing it is never wanted"
)]
pub struct PersonalModel {
    own: Vec<f64>,
    coefficients: Vec<f64>,
    level: f64,
}

impl PersonalModel {
    /// `U v + s`, if that is finite.
    fn plus_sparse(self, subspace: &Subspace, found: &Sparse) -> Self {
        let (own, values) = found.solution.split_at(subspace.rank());
        let mut model = Self::new(subspace, own.to_vec());
        for (&at, value) in found.support.iter().zip(values) {
            model.coefficients[at] += value;
        }
        if model.coefficients.iter().all(|t| t.is_finite()) {
            model
        } else {
            self
        }
    }

    /// The model near the subspace with the smallest leave-one-out error, or this one if none is
    /// better.
    fn near(self, subspace: &Subspace, own: &OwnRows, ridge: f64, penalties: &[f64]) -> Self {
        // such a large penalty allows no deviation
        let least = own.near(ridge, 1e12).map_or(f64::INFINITY, |found| found.1);
        let mut best = (least, None);
        for &penalty in penalties {
            match own.near(ridge, penalty) {
                Some((pulled, error)) if better(error, best.0) => best = (error, Some(pulled)),
                _ => (),
            }
        }
        let Some(pulled) = best.1 else {
            return self;
        };
        let (outside, inside) = pulled.split_at(subspace.dim());
        let mut model = Self::new(subspace, inside.to_vec());
        let both = model.coefficients.iter_mut().zip(outside);
        both.for_each(|(t, o)| *t += o);
        // <u, theta>, because the basis is orthonormal
        let rank = subspace.rank();
        for (k, v) in model.own.iter_mut().enumerate() {
            let column = subspace.basis().iter().skip(k).step_by(rank);
            *v = column.zip(&model.coefficients).map(|(u, t)| u * t).sum();
        }
        model
    }

    pub(crate) fn new(subspace: &Subspace, own: Vec<f64>) -> Self {
        let rows = subspace.basis().chunks_exact(subspace.rank());
        Self {
            coefficients: rows.map(|u| inner(u, &own)).collect(),
            own,
            level: 0.0,
        }
    }

    /// The same model with the level that follows from its rows, `mean(y) - <mean(x), theta>`; 0 if
    /// that is not finite.
    fn with_level(self, means: &Means) -> Self {
        let level = means.y - inner(&means.x, &self.coefficients);
        self.at_level(if level.is_finite() { level } else { 0.0 })
    }

    pub(crate) const fn of_coefficients(coefficients: Vec<f64>) -> Self {
        Self {
            own: Vec::new(),
            coefficients,
            level: 0.0,
        }
    }

    /// The same model with this level.
    pub(crate) const fn at_level(mut self, level: f64) -> Self {
        self.level = level;
        self
    }

    /// The user's `v`, length `rank`; empty for a model that was fitted without a subspace.
    #[must_use]
    pub fn own(&self) -> &[f64] {
        &self.own
    }

    /// The user's `theta`, length `dim`: `U v`, plus the part outside the subspace if the fit
    /// allows one.
    #[must_use]
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// The user's `b`; 0 unless the fit has a level ([`LocalFit::with_own_level`], [`WeighedFit`](crate::WeighedFit)).
    #[must_use]
    pub const fn level(&self) -> f64 {
        self.level
    }

    /// `b + <x, theta>`; features beyond `dim` are ignored.
    #[must_use]
    pub fn predict(&self, x: &[f32]) -> f64 {
        let terms = self.coefficients.iter().zip(x);
        self.level + terms.map(|(t, &x)| t * f64::from(x)).sum::<f64>()
    }
}

/// One user's rows: unchanged, projected onto the basis, and labels.
struct OwnRows {
    dim: usize,
    rank: usize,
    x: Vec<f64>,
    z: Vec<f64>,
    y: Vec<f64>,
    /// Whether there is an unpenalised intercept: rows are then centred.
    own_level: bool,
}

/// Means of a user's rows.
struct Means {
    x: Vec<f64>,
    z: Vec<f64>,
    y: f64,
}

impl OwnRows {
    /// The rows that a design has read, and their means if there is a level.
    fn of(
        rows: SampleRows<'_>,
        subspace: &Subspace,
        design: &UserDesign,
        own_level: bool,
    ) -> (Self, Option<Means>) {
        let mut own = Self {
            dim: subspace.dim(),
            rank: subspace.rank(),
            x: Vec::new(),
            z: design.projected.clone(),
            y: Vec::new(),
            own_level,
        };
        read_rows(rows, &mut own.x, &mut own.y);
        let means = own_level.then(|| own.center());
        (own, means)
    }

    fn row(&self, i: usize) -> (&[f64], &[f64], f64) {
        let x = &self.x[i * self.dim..(i + 1) * self.dim];
        let z = &self.z[i * self.rank..(i + 1) * self.rank];
        (x, z, self.y[i])
    }

    /// All rows except one, and that row alone: both minus the means of the remaining rows if there
    /// is a level.
    fn without(&self, left_out: usize) -> (Self, Self) {
        let part = |one: bool| {
            let rows = (0..self.y.len()).filter(|&i| (i == left_out) == one);
            let mut part = Self {
                x: Vec::new(),
                z: Vec::new(),
                y: Vec::new(),
                ..*self
            };
            for i in rows {
                let (x, z, y) = self.row(i);
                part.x.extend_from_slice(x);
                part.z.extend_from_slice(z);
                part.y.push(y);
            }
            part
        };
        let (mut kept, mut one) = (part(false), part(true));
        if self.own_level {
            let Means { x, z, y } = kept.center();
            let cells = one.x.iter_mut().chain(&mut one.z).chain(&mut one.y);
            let means = x.into_iter().chain(z).chain([y]);
            cells.zip(means).for_each(|(cell, mean)| *cell -= mean);
        }
        (kept, one)
    }

    /// Centres the rows and returns their means.
    fn center(&mut self) -> Means {
        Means {
            x: take_off_means(&mut self.x, self.dim),
            z: take_off_means(&mut self.z, self.rank),
            y: take_off_means(&mut self.y, 1)[0],
        }
    }
}

impl OwnRows {
    /// `theta = argmin sum_i (y_i - <x_i, theta>)^2 + lambda t ||U^T theta||^2 + kappa e ||(I - U U^T) theta||^2`, `t = tr(Z^T Z)/k`, `e = ||X||_F^2 / d`, by its dual,
    ///
    /// ```text
    /// theta = P X^T a,   a = (X P X^T + I)^-1 y,   P = U U^T / (lambda t) + (I - U U^T) / (kappa e)
    /// ```
    ///
    /// with the squared leave-one-out error, `sum_i (a_i / (((X P X^T + I)^-1)_ii - b))^2`, where
    /// `b = 1/n` for a level refitted each time and otherwise 0. `None` if that is not finite.
    fn near(&self, inside: f64, outside: f64) -> Option<(Vec<f64>, f64)> {
        let n = self.y.len();
        let t = inner(&self.z, &self.z) / self.rank as f64;
        let e = inner(&self.x, &self.x) / self.dim as f64;
        let (inside, outside) = (1.0 / (inside * t), 1.0 / (outside * e));
        let mut kernel: Vec<f64> = (0..n * n)
            .map(|at| {
                let ((x, z, _), (other, seen, _)) = (self.row(at / n), self.row(at % n));
                let within = inner(z, seen);
                within * inside + (inner(x, other) - within) * outside
            })
            .collect();
        let lift = self.lift_level(&mut kernel);
        kernel.iter_mut().step_by(n + 1).for_each(|k| *k += 1.0);
        cholesky_in_place(&mut kernel, n).ok()?;
        let mut dual = self.y.clone();
        cholesky_solve_in_place(&kernel, n, &mut dual).ok()?;
        let mut left_out = 0.0;
        for (i, a) in dual.iter().enumerate() {
            let mut unit = vec![0.0; n];
            unit[i] = 1.0;
            cholesky_solve_in_place(&kernel, n, &mut unit).ok()?;
            left_out += (a / (unit[i] - lift)).powi(2);
        }
        // X^T a and Z^T a: the part inside is mapped back by the basis
        let mut pulled = vec![0.0; self.dim + self.rank];
        for (i, a) in dual.iter().enumerate() {
            let (x, z, _) = self.row(i);
            let both = x.iter().map(|x| x * outside);
            let both = both.chain(z.iter().map(|z| z * (inside - outside)));
            pulled.iter_mut().zip(both).for_each(|(p, b)| *p += a * b);
        }
        let fine = left_out.is_finite() && pulled.iter().all(|p| p.is_finite());
        fine.then_some((pulled, left_out))
    }

    /// With a level, adds `c = tr K / n` to every entry of `K = X P X^T` and returns the
    /// corresponding `b`, `1 / (n (1 + c n))`.
    ///
    /// Rows are centred, so `K 1 = 0` and `1^T y = 0`: the dual does not change, and along `1` the
    /// inverse decreases from `1/n` to that. Without this the difference of the inverse and `1/n`
    /// would be lost to rounding for few rows and small penalties.
    fn lift_level(&self, kernel: &mut [f64]) -> f64 {
        if !self.own_level {
            return 0.0;
        }
        let n = self.y.len();
        let trace: f64 = kernel.iter().step_by(n + 1).sum();
        let c = trace / n as f64;
        kernel.iter_mut().for_each(|k| *k += c);
        1.0 / (n as f64 * (1.0 + c * n as f64))
    }
}

/// Non-zero coordinates of `s`, and the solution: `v`, then their values.
#[derive(Clone)]
struct Sparse {
    support: Vec<usize>,
    solution: Vec<f64>,
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

    /// Matching pursuit: solutions with 0, 1, ... up to `most` coordinates, each adding to the
    /// previous one the coordinate most correlated with the residual. Ends early if there are too
    /// few rows.
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

    /// The solution with the number of coordinates, up to `most`, that has the smallest squared
    /// leave-one-out error; among equals, the sparsest. Coordinates and level are determined again
    /// for every row left out. There are no more coordinates than features.
    fn sparse(&self, most: usize, ridge: f64) -> Sparse {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation, reason = "rows of made data are f32")]

    use dp_core::UserSamplesBuilder;

    use super::*;
    use crate::Provenance;
    use crate::small::inner;

    const X: [[f32; 3]; 5] = [
        [1.0, 0.5, -0.3],
        [0.3, -1.0, 0.8],
        [-0.7, 0.2, 0.1],
        [0.1, 0.9, -1.2],
        [2.0, 1.0, 0.4],
    ];
    const Y: [f32; 5] = [12.0, 11.0, 10.0, 13.0, 14.5];

    fn samples(at: &[usize]) -> dp_core::UserSamples {
        let mut builder = UserSamplesBuilder::new(3, 5).unwrap();
        for &k in at {
            builder.push(0, &X[k], Y[k]).unwrap();
        }
        builder.build().0
    }

    fn plane() -> Subspace {
        let columns = [1.0, 0.2, 0.4, 1.0, -0.3, 0.5];
        Subspace::spanned_by(3, 2, &columns, Provenance::NonPrivate).unwrap()
    }

    /// Minimiser of `sum (y - b - <x, t>)^2 + t^T penalty t` over the rows: t, then b.
    fn from_scratch(rows: &[(Vec<f64>, f64)], penalty: &[f64]) -> Vec<f64> {
        let d = penalty.len().isqrt();
        let n = d + 1;
        let (mut system, mut solution) = (vec![0.0; n * n], vec![0.0; n]);
        for (a, line) in penalty.chunks_exact(d).enumerate() {
            system[a * n..a * n + d].copy_from_slice(line);
        }
        for (x, y) in rows {
            let row: Vec<f64> = x.iter().copied().chain([1.0]).collect();
            for (a, xa) in row.iter().enumerate() {
                solution[a] += xa * y;
                let line = system[a * n..(a + 1) * n].iter_mut().zip(&row);
                line.for_each(|(s, xb)| *s += xa * xb);
            }
        }
        cholesky_in_place(&mut system, n).unwrap();
        cholesky_solve_in_place(&system, n, &mut solution).unwrap();
        solution
    }

    /// Sum of squared leave-one-out errors.
    fn left_out_error(rows: &[(Vec<f64>, f64)], penalty: &[f64]) -> f64 {
        let errors = (0..rows.len()).map(|out| {
            let mut kept = rows.to_vec();
            let (x, y) = kept.remove(out);
            let model = from_scratch(&kept, penalty);
            (y - inner(&model[..x.len()], &x) - model[x.len()]).powi(2)
        });
        errors.sum()
    }

    /// Sum of squares around the means.
    fn spread(rows: &[(Vec<f64>, f64)]) -> f64 {
        let mut all: Vec<f64> = rows.iter().flat_map(|(x, _)| x.clone()).collect();
        crate::design::take_off_means(&mut all, rows[0].0.len());
        inner(&all, &all)
    }

    fn diagonal(n: usize, value: f64) -> Vec<f64> {
        let entry = |at: usize| if at.is_multiple_of(n + 1) { value } else { 0.0 };
        (0..n * n).map(entry).collect()
    }

    fn rows_as_they_are(at: &[usize]) -> Vec<(Vec<f64>, f64)> {
        let row = |&k: &usize| (X[k].iter().map(|&x| f64::from(x)).collect(), Y[k].into());
        at.iter().map(row).collect()
    }

    /// The same for projected rows.
    fn rows_in(plane: &Subspace, at: &[usize]) -> Vec<(Vec<f64>, f64)> {
        let rank = plane.rank();
        let through = |(x, y): (Vec<f64>, f64)| {
            let product = |k| {
                let column = plane.basis().iter().skip(k).step_by(rank);
                x.iter().zip(column).map(|(x, u)| x * u).sum()
            };
            ((0..rank).map(product).collect(), y)
        };
        rows_as_they_are(at).into_iter().map(through).collect()
    }

    #[test]
    fn a_level_is_fitted_anew_for_every_row_that_is_left_out() {
        let plane = plane();
        for m in 2..=5 {
            let at: Vec<usize> = (0..m).collect();
            let rows = rows_in(&plane, &at);
            let given = samples(&at);
            for penalty in [0.02, 0.5, 20.0] {
                let mut design = UserDesign::new(2);
                design.read(given.rows(0).iter(), plane.basis());
                design.center();
                let found = design.leave_one_out(penalty);
                let lift = penalty * spread(&rows) / 2.0;
                let expected = left_out_error(&rows, &diagonal(2, lift)) / m as f64;
                assert!((found / expected - 1.0).abs() < 1e-8, "{m} {penalty}");
                // and the model is that of all rows
                let fit = LocalFit::ridge(penalty).unwrap().with_own_level().unwrap();
                let model = fit.fit(&plane, given.rows(0));
                let expected = from_scratch(&rows, &diagonal(2, lift));
                let found = [model.own(), &[model.level()]].concat();
                let pairs = found.iter().zip(&expected);
                for (a, b) in pairs {
                    assert!((a - b).abs() < 1e-8, "{m} {penalty}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn a_soft_prior_leaves_rows_out_of_the_level_too() {
        check_soft_prior(&[0, 1, 2, 3, 4], 0.3, 0.7, 1e-8);
        // few rows and a very small penalty: the fits from scratch have lost half of their digits
        for outside in [0.1, 10.0] {
            check_soft_prior(&[0, 1, 2], 1e-9, outside, 1e-4);
        }
    }

    fn check_soft_prior(at: &[usize], inside: f64, outside: f64, tolerance: f64) {
        let plane = plane();
        let (rows, given) = (rows_as_they_are(at), samples(at));
        let within = inside * spread(&rows_in(&plane, at)) / 2.0;
        let beyond = outside * spread(&rows) / 3.0;
        let mut penalty = diagonal(3, beyond);
        for (a, u) in plane.basis().chunks_exact(2).enumerate() {
            for (b, w) in plane.basis().chunks_exact(2).enumerate() {
                penalty[3 * a + b] += (within - beyond) * inner(u, w);
            }
        }
        let mut design = UserDesign::new(2);
        design.read(given.rows(0).iter(), plane.basis());
        let own = OwnRows::of(given.rows(0), &plane, &design, true).0;
        let found = own.near(inside, outside).unwrap().1;
        let expected = left_out_error(&rows, &penalty);
        let error = (found / expected - 1.0).abs();
        assert!(error < tolerance, "{found} {expected}");
    }

    #[test]
    fn a_row_that_is_left_out_of_a_sparse_fit_is_in_no_mean() {
        let (plane, at) = (plane(), [0, 1, 2, 3, 4]);
        let given = samples(&at);
        let mut design = UserDesign::new(2);
        design.read(given.rows(0).iter(), plane.basis());
        let own = OwnRows::of(given.rows(0), &plane, &design, true).0;
        let (kept, one) = own.without(4);
        let (x, z, y) = one.row(0);
        let mean = |of: &dyn Fn(usize) -> f32| (0..4).map(|k| f64::from(of(k)) / 4.0).sum::<f64>();
        for (c, x) in x.iter().enumerate() {
            let expected = f64::from(X[4][c]) - mean(&|k| X[k][c]);
            assert!((x - expected).abs() < 1e-12);
        }
        assert!((y - (14.5 - mean(&|k| Y[k]))).abs() < 1e-12);
        let through: Vec<f64> = (0..2)
            .map(|k| (0..3).map(|c| x[c] * plane.basis()[2 * c + k]).sum())
            .collect();
        assert!(z.iter().zip(through).all(|(a, b)| (a - b).abs() < 1e-12));
        assert!(kept.y.len() == 4 && kept.y.iter().sum::<f64>().abs() < 1e-12);
    }

    #[test]
    fn centring_first_changes_nothing_but_the_level() {
        let (plane, at) = (plane(), [0, 1, 2, 3, 4]);
        let mut moved = UserSamplesBuilder::new(3, 5).unwrap();
        for k in at {
            let x: Vec<f32> = X[k].iter().map(|x| x - 0.5).collect();
            moved.push(0, &x, Y[k] - 12.0).unwrap();
        }
        let (given, moved) = (samples(&at), moved.build().0);
        let fit = LocalFit::leave_one_out(vec![1e-3, 0.1, 10.0]).unwrap();
        let sparse = fit.clone().with_sparse_residual(2).unwrap();
        let near = fit.clone().with_soft_prior(vec![0.1, 1.0]).unwrap();
        for fit in [fit, sparse, near] {
            let fit = fit.with_own_level().unwrap();
            let [one, other] = [&given, &moved].map(|rows| fit.fit(&plane, rows.rows(0)));
            for x in X {
                let shifted = x.map(|x| x - 0.5);
                let gap = one.predict(&x) - other.predict(&shifted) - 12.0;
                assert!(gap.abs() < 1e-5, "{gap}");
            }
        }
    }

    #[test]
    fn two_rows_and_a_level_take_the_first_ridge_and_one_row_has_no_slopes() {
        let plane = plane();
        for penalties in [vec![1e-3, 1.0, 100.0], vec![100.0, 1.0, 1e-3]] {
            let first = LocalFit::ridge(penalties[0]).unwrap();
            let fit = LocalFit::leave_one_out(penalties).unwrap();
            let [fit, first] = [fit, first].map(|fit| fit.with_own_level().unwrap());
            let two = samples(&[0, 3]);
            assert!(fit.fit(&plane, two.rows(0)) == first.fit(&plane, two.rows(0)));
            let one = fit.fit(&plane, samples(&[1]).rows(0));
            assert!(one.coefficients().iter().all(|&t| t == 0.0));
            assert!((one.level() - 11.0).abs() < 1e-12);
        }
        let logistic = LocalFit::convex(ConvexLoss::Logistic, 0.1).unwrap();
        assert!(logistic.with_own_level().is_err());
    }

    #[test]
    fn leaving_rows_out_by_the_hat_matrix_is_leaving_them_out() {
        let rows = [
            ([1.0_f32, 0.5], 2.0_f32),
            ([0.3, -1.0], 1.0),
            ([-0.7, 0.2], 0.0),
            ([0.1, 0.9], 3.0),
        ];
        let identity = [1.0, 0.0, 0.0, 1.0];
        // the relative ridge of all rows, converted to an absolute one
        let trace: f64 = rows
            .iter()
            .flat_map(|(x, _)| x)
            .map(|&x| f64::from(x).powi(2))
            .sum();
        let mut expected = 0.0;
        for out in 0..rows.len() {
            let kept = || {
                rows.iter()
                    .enumerate()
                    .filter(|(at, _)| *at != out)
                    .map(|(_, (x, y))| (&x[..], *y))
            };
            let less: f64 = kept()
                .flat_map(|(x, _)| x)
                .map(|&x| f64::from(x).powi(2))
                .sum();
            let mut design = UserDesign::new(2);
            design.read(kept(), &identity);
            design.solve(0.1 * trace / less);
            let (x, y) = rows[out];
            let found = design.own[0] * f64::from(x[0]) + design.own[1] * f64::from(x[1]);
            expected += (f64::from(y) - found).powi(2) / 4.0;
        }
        let mut design = UserDesign::new(2);
        design.read(rows.iter().map(|(x, y)| (&x[..], *y)), &identity);
        assert!((design.leave_one_out(0.1) / expected - 1.0).abs() < 1e-10);
    }

    #[test]
    fn users_without_rows_or_with_absurd_ones_get_finite_models() {
        let plane =
            Subspace::spanned_by(2, 2, &[1.0, 0.0, 0.0, 1.0], Provenance::NonPrivate).unwrap();
        let mut builder = UserSamplesBuilder::new(2, 3).unwrap();
        builder.push(0, &[0.0, 0.0], 1.0).unwrap();
        builder.push(1, &[f32::MAX, f32::MAX], f32::MAX).unwrap();
        builder
            .push(1, &[f32::MIN_POSITIVE, 1e-30], f32::MAX)
            .unwrap();
        builder.push(2, &[f32::NAN, 0.0], 1.0).unwrap();
        let samples = builder.build().0;
        let fit = LocalFit::leave_one_out(vec![1e-9, 1e-3, 1.0]).unwrap();
        for rows in samples.users() {
            let model = fit.fit(&plane, rows);
            assert!(model.coefficients().iter().all(|t| t.is_finite()));
        }
        assert!(LocalFit::leave_one_out(vec![]).is_err());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(LocalFit::ridge(bad).is_err());
        }
    }

    /// Users whose models are those of a plane plus two coordinates of their own, 20 features.
    fn plane_and_more(
        beyond: f64,
        n_rows: usize,
    ) -> (Subspace, dp_core::UserSamples, Vec<Vec<f64>>) {
        let mut state = 5_u64;
        let mut number = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        };
        let columns: Vec<f64> = (0..40).map(|_| number()).collect();
        let plane = Subspace::spanned_by(20, 2, &columns, Provenance::NonPrivate).unwrap();
        let mut builder = UserSamplesBuilder::new(20, n_rows).unwrap();
        let mut truth = Vec::new();
        for user in 0..80_u32 {
            let own = vec![number(), number()];
            let mut theta = PersonalModel::new(&plane, own).coefficients().to_vec();
            theta[user as usize % 20] += beyond;
            theta[(user as usize * 7 + 3) % 20] -= beyond;
            for _ in 0..n_rows {
                let x: Vec<f32> = (0..20).map(|_| number() as f32).collect();
                let y: f64 = x.iter().zip(&theta).map(|(&x, t)| f64::from(x) * t).sum();
                builder
                    .push(user, &x, (y + 0.02 * number()) as f32)
                    .unwrap();
            }
            truth.push(theta);
        }
        (plane, builder.build().0, truth)
    }

    fn mean_error(
        fit: impl Fn(SampleRows<'_>) -> PersonalModel,
        of: &(Subspace, dp_core::UserSamples, Vec<Vec<f64>>),
    ) -> f64 {
        let users = of.1.users().zip(&of.2);
        let errors = users.map(|(rows, theta)| {
            let found = fit(rows);
            let pairs = found.coefficients().iter().zip(theta);
            pairs.map(|(a, b)| (a - b).powi(2)).sum::<f64>()
        });
        errors.sum::<f64>() / of.2.len() as f64
    }

    #[test]
    fn low_rank_plus_sparse_is_found_where_it_is_true_and_costs_little_where_not() {
        let sparse = LocalFit::default().with_sparse_residual(4).unwrap();
        let plain = LocalFit::default();
        // fewer rows than features: own data alone are not sufficient
        let data = plane_and_more(1.0, 16);
        let with = mean_error(|rows| sparse.fit(&data.0, rows), &data);
        let without = mean_error(|rows| plain.fit(&data.0, rows), &data);
        let alone = mean_error(|rows| crate::own_data_model(rows, 20), &data);
        assert!(
            with < 0.25 * without && with < 0.25 * alone,
            "{with} {without} {alone}"
        );
        let data = plane_and_more(0.0, 16);
        let with = mean_error(|rows| sparse.fit(&data.0, rows), &data);
        let without = mean_error(|rows| plain.fit(&data.0, rows), &data);
        assert!(with < 4.0 * without && with < 1e-2, "{with} {without}");
    }

    #[test]
    fn a_soft_prior_lies_between_the_subspace_and_the_own_data() {
        let soft = LocalFit::default()
            .with_soft_prior(vec![1e-4, 1e-2, 1.0])
            .unwrap();
        let plain = LocalFit::default();
        for (n_rows, factor) in [(60, 0.01), (12, 1.05)] {
            let data = plane_and_more(0.5, n_rows);
            let with = mean_error(|rows| soft.fit(&data.0, rows), &data);
            let without = mean_error(|rows| plain.fit(&data.0, rows), &data);
            assert!(with < factor * without, "{n_rows}: {with} {without}");
        }
        // the dual solution equals the primal one: the normal equations of the objective hold
        let data = plane_and_more(0.5, 9);
        let rows = data.1.rows(3);
        let mut design = UserDesign::new(2);
        design.read(rows.iter(), data.0.basis());
        let x: Vec<f64> = rows
            .iter()
            .flat_map(|(x, _)| x.iter().map(|&x| f64::from(x)))
            .collect();
        let (z, y) = (design.projected.clone(), design.labels.clone());
        let own = OwnRows {
            dim: 20,
            rank: 2,
            x,
            z,
            y,
            own_level: false,
        };
        let (inside, outside) = (0.3, 0.7);
        let (pulled, left_out) = own.near(inside, outside).unwrap();
        let theta: Vec<f64> = {
            let within = PersonalModel::new(&data.0, pulled[20..].to_vec());
            within
                .coefficients()
                .iter()
                .zip(&pulled)
                .map(|(a, b)| a + b)
                .collect()
        };
        let (t, e) = (inner(&own.z, &own.z) / 2.0, inner(&own.x, &own.x) / 20.0);
        let v: Vec<f64> = (0..2)
            .map(|k| {
                data.0
                    .basis()
                    .iter()
                    .skip(k)
                    .step_by(2)
                    .zip(&theta)
                    .map(|(u, t)| u * t)
                    .sum()
            })
            .collect();
        let part = PersonalModel::new(&data.0, v);
        for c in 0..20 {
            let pull: f64 = (0..9)
                .map(|i| (inner(own.row(i).0, &theta) - own.y[i]) * own.row(i).0[c])
                .sum();
            let within = part.coefficients()[c];
            let slope = pull + inside * t * within + outside * e * (theta[c] - within);
            assert!(slope.abs() < 1e-9, "{slope}");
        }
        assert!(left_out > 0.0);
    }

    #[test]
    fn no_more_coordinates_are_tried_than_there_are_features() {
        let data = plane_and_more(1.0, 16);
        let fit = |most| {
            let fit = LocalFit::default().with_sparse_residual(most).unwrap();
            fit.fit(&data.0, data.1.rows(0)).coefficients().to_vec()
        };
        let all = fit(20);
        for most in [21, 1 << 40, usize::MAX] {
            assert_eq!(fit(most), all, "{most}");
        }
    }

    #[test]
    fn going_beyond_the_subspace_never_fails_on_absurd_rows() {
        let plane = Subspace::spanned_by(2, 1, &[1.0, 0.5], Provenance::NonPrivate).unwrap();
        let mut builder = UserSamplesBuilder::new(2, 6).unwrap();
        builder.push(0, &[f32::NAN, 0.0], 1.0).unwrap();
        for i in 0..6_u8 {
            builder.push(1, &[f32::MAX, -f32::MAX], f32::MAX).unwrap();
            builder.push(2, &[1e-40, f32::from(i)], f32::MAX).unwrap();
            builder.push(3, &[1.0, 1.0], 0.0).unwrap();
        }
        let samples = builder.build().0;
        let fits = [
            LocalFit::default().with_sparse_residual(5).unwrap(),
            LocalFit::default()
                .with_soft_prior(vec![1e-6, 1.0])
                .unwrap(),
        ];
        for fit in fits {
            for rows in samples.users() {
                let model = fit.fit(&plane, rows);
                assert!(model.coefficients().iter().all(|t| t.is_finite()));
            }
        }
        let logistic = LocalFit::convex(ConvexLoss::Logistic, 0.1).unwrap();
        assert!(logistic.clone().with_sparse_residual(1).is_err());
        assert!(logistic.with_soft_prior(vec![1.0]).is_err());
        assert!(LocalFit::default().with_sparse_residual(0).is_err());
        assert!(LocalFit::default().with_soft_prior(vec![0.0]).is_err());
    }
}
