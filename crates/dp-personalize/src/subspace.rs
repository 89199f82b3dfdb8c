//! Orthonormal bases of the shared subspace, and distances between subspaces.

use dp_accounting::CertificateBuilder;
use dp_core::{ParamError, ShapeError, params};
use dp_linalg::symmetric_eigen;
use dp_mechanism::{Provenance, Round, Run};

use crate::small::{inner, norm};
use crate::{Result, UserPrior};

/// The shared representation: an orthonormal basis `U`, shape `(dim, rank)`. User `j`'s model is
/// `theta_j = U v_j` with the user's own `v_j`.
///
/// A subspace that is read from a file must be orthonormal, and becomes [`Provenance::NonPrivate`]
/// if the file calls it private: only a certificate can establish that.
///
/// # Examples
/// ```
/// use dp_personalize::{Provenance, Subspace};
/// let plane = Subspace::spanned_by(3, 2, &[1.0, 1.0, 0.0, 1.0, 0.0, 0.0], Provenance::NonPrivate)?;
/// let axis = Subspace::spanned_by(3, 1, &[0.0, 0.0, 5.0], Provenance::NonPrivate)?;
/// assert!((axis.spectral_distance(&plane)? - 1.0).abs() < 1e-12);
/// # Ok::<(), dp_personalize::Error>(())
/// ```
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Subspace {
    dim: usize,
    rank: usize,
    basis: Vec<f64>,
    provenance: Provenance,
    #[serde(skip)]
    share_errors: Option<Vec<f64>>,
    #[serde(skip)]
    user_prior: Option<UserPrior>,
}

/// The same basis, bit for bit, of the same origin. Standard errors are not compared: a file and a round
/// have none.
impl PartialEq for Subspace {
    fn eq(&self, other: &Self) -> bool {
        let of = |s: &Self| (s.dim, s.rank, s.provenance);
        let same = |a: &Self, b: &Self| a.basis == b.basis && a.user_prior == b.user_prior;
        of(self) == of(other) && same(self, other)
    }
}

/// A subspace as stored in a file.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    dim: usize,
    rank: usize,
    basis: Vec<f64>,
    provenance: Provenance,
}

/// Tolerance for inner products of a basis from a file, which should be 0 and 1.
const FILE_TOLERANCE: f64 = 1e-9;

impl TryFrom<Unchecked> for Subspace {
    type Error = crate::Error;

    fn try_from(read: Unchecked) -> Result<Self> {
        // only its certificate can establish that it was released under a guarantee, and a file of
        // the subspace alone has none
        let provenance = match read.provenance {
            Provenance::Private => Provenance::NonPrivate,
            known => known,
        };
        Self::of_orthonormal((read.dim, read.rank), read.basis, provenance)
    }
}

/// See [`Subspace::parts`].
pub(crate) fn parts(rank: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |q: &usize| q.checked_mul(2))
        .take_while(move |q| *q < rank)
        .chain([rank])
}

impl Subspace {
    /// A subspace with exactly this basis, bit for bit.
    fn of_orthonormal(
        (dim, rank): (usize, usize),
        basis: Vec<f64>,
        provenance: Provenance,
    ) -> Result<Self> {
        params::in_range("dim", dim, 1, 1024, "a whole number from 1 to 1024")?;
        params::in_range("rank", rank, 1, dim, "a whole number from 1 to dim")?;
        params::same_size("basis", basis.len(), dim * rank)?;
        for (a, b) in (0..rank).flat_map(|a| (a..rank).map(move |b| (a, b))) {
            let rows = basis.chunks_exact(rank);
            let product: f64 = rows.map(|row| row[a] * row[b]).sum();
            let expected = if a == b { 1.0 } else { 0.0 };
            let off = (product - expected).abs();
            if off.is_nan() || off > FILE_TOLERANCE {
                return Err(not_orthonormal(product).into());
            }
        }
        Ok(Self {
            dim,
            rank,
            basis,
            provenance,
            share_errors: None,
            user_prior: None,
        })
    }

    /// The subspace after a round, as an [`Observer`](dp_mechanism::Observer) sees it.
    ///
    /// `provenance` is that of the run ([`Fitted::provenance`](dp_mechanism::Fitted::provenance));
    /// at round 0 of a fit with a given start, that of the start.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] or [`crate::Error::Param`] when the parameters of the round are not an orthonormal basis.
    ///
    /// # Examples
    /// ```
    /// use dp_data::SharedSubspace;
    /// use dp_personalize::{
    ///     Adjacency, ApproxDp, Budget, Ledger, NoiseSource, Observer, Provenance, ResidualAltMinParams, Round, Run, Subspace, Trainer,
    /// };
    /// use rand::SeedableRng;
    ///
    /// #[derive(Default)]
    /// struct Rounds(Vec<Subspace>);
    ///
    /// impl Observer for Rounds {
    ///     fn round(&mut self, round: &Round<'_>) {
    ///         self.0.extend(Subspace::of_round(round, Provenance::Private));
    ///     }
    /// }
    ///
    /// let set_up = SharedSubspace { n_users: 300, dim: 6, ..SharedSubspace::section_6() };
    /// let data = set_up.generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
    /// let (target, adjacency) = (ApproxDp::target(5.0, 1e-6)?, Adjacency::AddRemoveUser);
    /// let fit = ResidualAltMinParams { n_steps: 3, ..ResidualAltMinParams::new(2) }.check()?;
    /// let plan = fit.plan(6, target, adjacency)?;
    /// let spends = Ledger::in_memory("made data", Budget::new(target, adjacency)?)?.reserve(&plan)?;
    /// let (mut rounds, mut noise) = (Rounds::default(), NoiseSource::operating_system());
    /// let run = Run::new(&plan, spends, &mut noise)?.observed_by(&mut rounds);
    /// let fitted = fit.run(&data.samples, run)?;
    /// assert_eq!(rounds.0.len(), 1 + 3); // what the first step starts from, and the steps
    /// assert_eq!(rounds.0[3], fitted.model);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_round(round: &Round<'_>, provenance: Provenance) -> Result<Self> {
        Self::of_orthonormal(round.shape, round.parameters.to_vec(), provenance)
    }

    /// Shows the subspace after a round to the observer of a run.
    pub(crate) fn show(&self, round: usize, run: &mut Run<'_>) {
        run.round(&Round {
            round,
            parameters: &self.basis,
            shape: (self.dim, self.rank),
            local: None,
        });
    }

    /// The span of the columns of a matrix of shape `(dim, rank)`, row-major, by Gram-Schmidt in
    /// the order of the columns. A column that is (numerically) in the span of the previous ones,
    /// or not finite, is replaced by the first unit vector that is not.
    ///
    /// # Errors
    /// [`crate::Error::Param`] unless `rank` is from 1 to `dim` and `dim` at most 1024;
    /// [`crate::Error::Shape`] when the length does not match.
    pub fn spanned_by(
        dim: usize,
        rank: usize,
        columns: &[f64],
        provenance: Provenance,
    ) -> Result<Self> {
        params::in_range("dim", dim, 1, 1024, "a whole number from 1 to 1024")?;
        params::in_range("rank", rank, 1, dim, "a whole number from 1 to dim")?;
        params::same_size("columns", columns.len(), dim * rank)?;
        let mut basis: Vec<Vec<f64>> = Vec::with_capacity(rank);
        for k in 0..rank {
            let column: Vec<f64> = columns.iter().skip(k).step_by(rank).copied().collect();
            let unit = (0..dim).map(|at| {
                let mut unit = vec![0.0; dim];
                unit[at] = 1.0;
                unit
            });
            let mut candidates = std::iter::once(column).chain(unit);
            basis.extend(candidates.find_map(|candidate| orthogonal_part(candidate, &basis)));
        }
        Ok(Self {
            dim,
            rank,
            basis: (0..dim * rank)
                .map(|at| basis[at % rank][at / rank])
                .collect(),
            provenance,
            share_errors: None,
            user_prior: None,
        })
    }

    /// The span of the eigenvectors of the `rank` largest eigenvalues of a symmetric matrix, shape `(dim, dim)`.
    ///
    /// # Errors
    /// As [`spanned_by`](Self::spanned_by); [`crate::Error::Linalg`] when the matrix is not finite.
    pub fn top_eigenvectors(
        dim: usize,
        rank: usize,
        matrix: &[f64],
        provenance: Provenance,
    ) -> Result<Self> {
        params::in_range("rank", rank, 1, dim, "a whole number from 1 to dim")?;
        let eigen = symmetric_eigen(matrix, dim)?;
        let top = |k: usize| &eigen.vectors[(dim - 1 - k) * dim..][..dim];
        let columns: Vec<f64> = (0..dim * rank)
            .map(|at| top(at % rank)[at / rank])
            .collect();
        Self::spanned_by(dim, rank, &columns, provenance)
    }

    /// Number of features, `d`.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Dimension of the subspace, `k`.
    #[must_use]
    pub const fn rank(&self) -> usize {
        self.rank
    }

    /// Dimensions of the parts of the subspace that users' own fits are near: 1, 2, 4, ..., and [`rank`](Self::rank). Each part is
    /// spanned by the first columns of the basis.
    pub fn parts(&self) -> impl Iterator<Item = usize> + use<> {
        parts(self.rank)
    }

    /// Its origin.
    #[must_use]
    pub const fn provenance(&self) -> Provenance {
        self.provenance
    }

    pub(crate) const fn with_provenance(mut self, provenance: Provenance) -> Self {
        self.provenance = provenance;
        self
    }

    /// The basis `U`, shape `(dim, rank)`, row-major.
    #[must_use]
    pub fn basis(&self) -> &[f64] {
        &self.basis
    }

    /// The share of each feature's direction in the subspace, `(U U^T)_aa`, from 0 to 1.
    pub fn shares(&self) -> impl ExactSizeIterator<Item = f64> {
        let rows = self.basis.chunks_exact(self.rank);
        rows.map(|row| row.iter().map(|u| u * u).sum())
    }

    /// Standard errors of the [shares](Self::shares) due to the noise of some releases, to first order,
    /// without other noise and without the sampling of users: far too small for directions that the data hardly
    /// identify, where the noise of the whitening and of earlier steps stays. `None` for a subspace that was read from a file and after
    /// methods that have none.
    ///
    /// | method | noise that is included |
    /// |---|---|
    /// | [`ResidualAltMin`](crate::ResidualAltMin) | of the last step, in `N` |
    /// | [`NightlySubspace`](crate::NightlySubspace), once it makes steps | of all steps, in `N` |
    /// | [`AltMin`](crate::AltMin) with [`Embedding::Ssp`](crate::Embedding) | of the last step, in the matrix and the right-hand side |
    ///
    /// A step moves `U` to `U + N M` up to what the data say, with independent noise of standard
    /// deviation `s` in each entry of `N`, and `B = W^T (U + N M)` in the original features has the
    /// share `P_aa`, `P = B B^+`. So `dP = (I - P) dB B^+` and its transpose, and the standard error is
    /// `2 s ||(W (I - P))_a|| ||(M B^+)_a||`, with norms of columns. The noise in `M` is left out. Steps are shrunk towards the
    /// previous subspace, which reduces the error of all features together below this. A step of `Embedding::Ssp` replaces the
    /// subspace by the span of a ridge solution, whose noise to first order follows from that of both sums.
    ///
    /// A gradient step (`Embedding::Gd`) has no standard errors: it releases no curvature, so nothing says how much of the noise
    /// of earlier steps is left.
    #[must_use]
    pub fn share_errors(&self) -> Option<&[f64]> {
        self.share_errors.as_deref()
    }

    /// The prior of users' own fits, if one was released with the subspace.
    #[must_use]
    pub const fn user_prior(&self) -> Option<&UserPrior> {
        self.user_prior.as_ref()
    }

    /// The same subspace with this prior of users' own fits. It is not part of [`serde`]'s form.
    #[must_use]
    pub fn with_user_prior(mut self, prior: Option<UserPrior>) -> Self {
        self.user_prior = prior;
        self
    }

    pub(crate) fn with_share_errors(mut self, errors: Option<Vec<f64>>) -> Self {
        self.share_errors = errors;
        self
    }

    /// `||(I - W W^T) U||_F`, with `W` the other basis: 0 for the same subspace, at most sqrt
    /// `rank`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the dimensions differ.
    pub fn frobenius_distance(&self, other: &Self) -> Result<f64> {
        Ok(norm(&self.outside(other)?))
    }

    /// `||(I - W W^T) U||_2`, the sine of the largest principal angle: from 0 to 1.
    ///
    /// # Errors
    /// As [`frobenius_distance`](Self::frobenius_distance); [`crate::Error::Linalg`] when the
    /// eigenvalue iteration fails.
    pub fn spectral_distance(&self, other: &Self) -> Result<f64> {
        let (outside, rank) = (self.outside(other)?, self.rank);
        let mut gram = vec![0.0; rank * rank];
        for row in outside.chunks_exact(rank) {
            for (at, g) in gram.iter_mut().enumerate() {
                *g += row[at / rank] * row[at % rank];
            }
        }
        let largest = symmetric_eigen(&gram, rank)?.values[rank - 1];
        Ok(largest.max(0.0).sqrt())
    }

    /// `(I - W W^T) U`, row-major.
    fn outside(&self, other: &Self) -> Result<Vec<f64>, ShapeError> {
        params::same_size("other subspace", other.dim, self.dim)?;
        let column = |s: &Self, k: usize| -> Vec<f64> {
            s.basis.iter().skip(k).step_by(s.rank).copied().collect()
        };
        let mut outside = self.basis.clone();
        for k in 0..self.rank {
            let mut left = column(self, k);
            for w in (0..other.rank).map(|w| column(other, w)) {
                let along = inner(&left, &w);
                left.iter_mut().zip(&w).for_each(|(l, w)| *l -= along * w);
            }
            for (row, l) in left.into_iter().enumerate() {
                outside[row * self.rank + k] = l;
            }
        }
        Ok(outside)
    }
}

/// Adds what the certificates of all trainers of this crate state.
pub(crate) fn describe(certificate: CertificateBuilder, output: &str) -> CertificateBuilder {
    certificate
        .released_output(output, "anyone")
        .assumption("one person has one user id")
        .assumption("settings were not chosen by looking at this data set")
        .not_covered("personal models, which stay with their users")
        .tuning_included(false)
}

fn not_orthonormal(product: f64) -> ParamError {
    ParamError {
        name: "inner products of the basis",
        value: product,
        expected: "1 on the diagonal and 0 off it",
    }
}

/// The unit vector along the part of `column` that is orthogonal to `basis`; `None` if that part is
/// negligible.
fn orthogonal_part(mut column: Vec<f64>, basis: &[Vec<f64>]) -> Option<Vec<f64>> {
    let largest = column.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    if !(largest > 0.0 && largest.is_finite()) {
        return None;
    }
    column.iter_mut().for_each(|x| *x /= largest);
    let before = norm(&column);
    for _ in 0..2 {
        for unit in basis {
            let along = inner(&column, unit);
            column
                .iter_mut()
                .zip(unit)
                .for_each(|(x, u)| *x -= along * u);
        }
    }
    let left = norm(&column);
    if left.is_nan() || left <= 1e-10 * before {
        return None;
    }
    column.iter_mut().for_each(|x| *x /= left);
    Some(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(dim: usize, rank: usize, columns: &[f64]) -> Subspace {
        Subspace::spanned_by(dim, rank, columns, Provenance::NonPrivate).unwrap()
    }

    #[test]
    fn any_columns_give_an_orthonormal_basis() {
        let nan = f64::NAN;
        for columns in [
            [1.0, 1.0, 1.0, 1.0, 0.0, 0.0],
            [0.0; 6],
            [nan; 6],
            [1e300, 1e-300, 1e300, 0.0, -1e300, 0.0],
            [1e-200, 2e-200, 0.0, 1e-200, 0.0, 0.0],
        ] {
            let s = span(3, 2, &columns);
            for (a, b, expected) in [(0, 0, 1.0), (0, 1, 0.0), (1, 1, 1.0)] {
                let found: f64 = s.basis().chunks_exact(2).map(|r| r[a] * r[b]).sum();
                assert!((found - expected).abs() < 1e-12, "{columns:?}");
            }
        }
        assert!(Subspace::spanned_by(2, 3, &[0.0; 6], Provenance::Private).is_err());
        assert!(Subspace::spanned_by(3, 2, &[0.0; 5], Provenance::Private).is_err());
    }

    #[test]
    fn distances_are_sines_of_angles() {
        let angle = 1e-7_f64;
        let a = span(3, 1, &[1.0, 0.0, 0.0]);
        let b = span(3, 1, &[angle.cos(), angle.sin(), 0.0]);
        assert!((a.frobenius_distance(&b).unwrap() / angle.sin() - 1.0).abs() < 1e-6);
        assert!((a.spectral_distance(&b).unwrap() / angle.sin() - 1.0).abs() < 1e-6);
        let plane = span(4, 2, &[1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        let other = span(4, 2, &[0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
        assert!((plane.frobenius_distance(&other).unwrap() - 2.0_f64.sqrt()).abs() < 1e-12);
        assert!((plane.spectral_distance(&other).unwrap() - 1.0).abs() < 1e-12);
        assert!(plane.frobenius_distance(&a).is_err());
    }

    #[test]
    fn top_eigenvectors_come_first() {
        let matrix = [1.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 4.0];
        let top = Subspace::top_eigenvectors(3, 2, &matrix, Provenance::NonPrivate).unwrap();
        let plane = span(3, 2, &[0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
        assert!(top.frobenius_distance(&plane).unwrap() < 1e-12);
    }
}
