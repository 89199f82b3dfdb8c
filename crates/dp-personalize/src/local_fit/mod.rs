//! A user's own model, fitted by the user.

#[cfg(test)]
mod level_tests;
mod model;
mod own_rows;
mod soft_prior;
mod sparse;
#[cfg(test)]
mod tests;

use dp_core::{SampleRows, params};

use crate::design::{TINY_RIDGE, UserDesign};
use crate::embedding::ConvexLoss;
use crate::{Result, Subspace};

pub use model::PersonalModel;
use own_rows::OwnRows;

/// How a user fits the own model `theta = U v` on the own rows, once the subspace is public.
///
/// ```text
/// v = argmin sum_i (y_i - <U^T x_i, v>)^2 + lambda t ||v||^2,   t = tr(Z^T Z) / k,  Z = X U
/// ```
///
/// Source: Jain et al. 2021, Theorem 4.2, the last step of Algorithm 1, on all rows of the user instead of the second
/// half. The ridge is relative, so that it does not depend on units.
///
/// Users who differ from each other by more than the subspace can go beyond it:
///
/// ```text
/// sparse residual   theta = U v + s,  ||s||_0 <= q      [`with_sparse_residual`](Self::with_sparse_residual)
/// soft prior        theta near the span of U            [`with_soft_prior`](Self::with_soft_prior)
/// ```
///
/// With [`with_own_level`](Self::with_own_level) there is a level `b` beside any of these, the user's own and without penalty: `X` and `y` are taken less their
/// means, and `b = mean(y) - <mean(x), theta>`. Wherever rows are left out, the level is fitted anew without them.
///
/// # Privacy
/// Local: a function of the user's own rows and the released subspace, seen by nobody else. The whole is then
/// jointly private (billboard model), and choosing the ridge by leaving rows out costs nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalFit {
    penalties: Vec<f64>,
    loss: ConvexLoss,
    beyond: Beyond,
    own_level: bool,
}

/// Errors closer than this share are ties: of two rows and a level, one left out, nothing speaks for any ridge.
const TIE: f64 = 1e-9;

fn better(error: f64, than: f64) -> bool {
    error < than * (1.0 - TIE)
}

/// What a model has beside the subspace.
#[derive(Debug, Clone, PartialEq)]
enum Beyond {
    Nothing,
    /// Up to so many coordinates of the user's own.
    Sparse(usize),
    /// Anything, at one of these penalties.
    Near(Vec<f64>),
}

impl Default for LocalFit {
    /// A ridge of 1e-9: plain least squares wherever that has a solution.
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

    /// Every user takes the one of `penalties` with the least error on own rows left out one at a time; the first of those
    /// that differ by less than a part in 1e9, and of a single row.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for no penalty at all, and one that is not finite and positive.
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

    /// Low rank plus sparse: up to `most` coordinates of the user's own beside the subspace, for the squared loss.
    ///
    /// ```text
    /// min over v, s  sum_i (y_i - <U^T x_i, v> - <x_i, s>)^2 + lambda t ||(v, s)||^2,   ||s||_0 <= q
    /// ```
    ///
    /// by orthogonal matching pursuit: coordinates join one by one, each time the one most correlated with the residual, and `v` and `s` are
    /// solved for together. The user takes the `q` of 0 to `most` with the least error on own rows left out one at a time,
    /// coordinates chosen anew each time. The model class is that of alternating minimisation with hard thresholding
    /// (AMHT-LRS); here the shared part is learned without knowing of `s`, which is noise to it, and the sparse part is local and costs no privacy.
    /// A `most` above the number of features means all of them.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for 0 and for another loss than the squared one.
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
    /// `kappa` is the one of `penalties` with the least error on own rows left out one at a time, and no deviation at all where that
    /// is no worse. Many own rows so lead from the subspace to the user's own least squares.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for no penalty, one that is not finite and positive, and another loss than the squared one.
    pub fn with_soft_prior(mut self, penalties: Vec<f64>) -> Result<Self> {
        params::at_least_one("penalties", penalties.len())?;
        for &penalty in &penalties {
            params::finite_positive("penalty outside the subspace", penalty)?;
        }
        self.needs_squared_loss()?;
        self.beyond = Beyond::Near(penalties);
        Ok(self)
    }

    /// The same for models with a level of every user's own, for the squared loss.
    ///
    /// Rows may be centred already: the level is then 0. It makes a difference to what is left out even so, since means of all rows know the one
    /// that is left out. A row is left out by the diagonal of the hat matrix, `1/m + z_i^T (Z^T Z + lambda t I)^-1 z_i` of centred `z_i`, which is exact for the
    /// ridge `lambda t` of all rows and costs no fit of its own. Rows whose features are all 0 are no rows here either
    /// ([`SampleRows::iter`](dp_core::SampleRows::iter)), although they would say something of the level: code features so that no row is 0.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for another loss than the squared one.
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

    /// The user's own choice.
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
