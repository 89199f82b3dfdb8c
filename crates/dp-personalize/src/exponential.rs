//! Algorithm 4: selection of a subspace among public candidates by the exponential mechanism.

use dp_accounting::{CertificateBuilder, PlannedRelease, Requests};
use dp_core::{Adjacency, ParamError, SampleRows, UserRow, UserSamples, params};
use dp_mechanism::{
    ExponentialMechanism, Provenance, Run, ScoreChange, SparseBuffer, Trainer, VectorContribution,
};

use crate::design::{TINY_RIDGE, UserDesign};
use crate::small::{clip_factor, inner, norm};
use crate::subspace::describe;
use crate::{Error, Result, Subspace};

/// Label of the single release.
const LABEL: &str = "selected subspace";

/// Settings of [`ExponentialSelection`] before validation. All are public.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExponentialSelectionParams {
    /// Epsilon in nats, 0.001 to 40: the guarantee is pure.
    pub epsilon: f64,
    /// How users score candidates.
    pub loss: SelectionLoss,
}

impl ExponentialSelectionParams {
    /// Candidates scored by [`SelectionLoss::Explained`], which needs no bound in data units.
    #[must_use]
    pub const fn new(epsilon: f64) -> Self {
        Self {
            epsilon,
            loss: SelectionLoss::Explained,
        }
    }

    /// Checks every range. The candidates are public settings as well.
    ///
    /// # Errors
    /// [`crate::Error::Param`] or [`crate::Error::Mechanism`] naming the first setting out of range.
    pub fn check(self, candidates: Candidates) -> Result<ExponentialSelection> {
        self.loss.check()?;
        let selection = ExponentialSelection {
            params: self,
            candidates,
        };
        selection.mechanism(Adjacency::AddRemoveUser)?;
        Ok(selection)
    }
}

/// Selects one of several public candidates with a probability that grows with the sum of the
/// users' gains.
///
/// ```text
/// P(U) ~ exp(rate sum_j gain_j(U)),   gain_j in [0, R]
/// rate = epsilon / R   (add/remove),   epsilon / (2 R)   (replace)
/// ```
///
/// Source: Jain et al. 2021, Algorithm 4, with a corrected exponent: as printed,
/// `epsilon n / (8 L_f C xi)` times a score that already is a sum over users, it is n epsilon / 4
/// differentially private (`docs/errata.md`).
///
/// # Privacy
/// Released to everybody: the index of a candidate. Unit: the user with all rows. Under add/remove
/// one user's gains are added or removed, all of one sign and each at most `R`: a monotone score.
/// Under replacement each score moves by at most `R` in either direction.
/// [`ScoreSum`](dp_mechanism::ScoreSum) clamps every contribution in exact integers, so the bound
/// does not depend on the loss, and the mechanism samples exactly: (epsilon, 0), with a loss of
/// bounded range. The cost is part of the settings: [`plan`](Trainer::plan) states it at the
/// target's delta, which it does not need, and refuses a target with a smaller epsilon. Reserve it
/// on a [`Budget::schedule`](dp_accounting::Budget::schedule).
///
/// # Errors
/// [`plan`](Trainer::plan): [`crate::Error::Shape`] when the dimension of the candidates differs
/// from the number of features; [`crate::Error::Accounting`] when the target is below the cost.
///
/// # Examples
/// ```
/// use dp_data::SharedSubspace;
/// use dp_personalize::{
///     Adjacency, ApproxDp, Budget, Candidates, ExponentialSelectionParams, Ledger, NoiseSource, Trainer,
/// };
/// use rand::SeedableRng;
///
/// let set_up = SharedSubspace { n_users: 300, dim: 3, rank: 1, ..SharedSubspace::section_6() };
/// let data = set_up.generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
/// let (target, adjacency) = (ApproxDp::target(1.0, 1e-6)?, Adjacency::AddRemoveUser);
/// let selection = ExponentialSelectionParams::new(1.0).check(Candidates::net(3, 1, 6)?)?;
/// let plan = selection.plan(3, target, adjacency)?;
/// let spends = Ledger::in_memory("made data", Budget::schedule(target, adjacency)?)?.reserve(&plan)?;
/// let fitted = selection.fit(&data.samples, &plan, spends, &mut NoiseSource::operating_system())?;
/// assert_eq!(fitted.model.rank(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ExponentialSelection {
    params: ExponentialSelectionParams,
    candidates: Candidates,
}

impl ExponentialSelection {
    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &ExponentialSelectionParams {
        &self.params
    }

    /// The candidates.
    #[must_use]
    pub const fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    fn mechanism(&self, adjacency: Adjacency) -> Result<ExponentialMechanism> {
        let change = if adjacency.is_replace() {
            ScoreChange::General
        } else {
            ScoreChange::Monotone
        };
        let (epsilon, range) = (self.params.epsilon, self.params.loss.range());
        Ok(ExponentialMechanism::new(
            epsilon,
            range,
            change,
            adjacency.relation(),
        )?)
    }
}

impl Trainer for ExponentialSelection {
    type Data = UserSamples;
    type Model = Subspace;
    type Error = Error;

    fn width(&self, samples: &UserSamples) -> usize {
        samples.n_features()
    }

    fn requests(&self, dim: usize, adjacency: Adjacency) -> Result<Requests> {
        let candidates = self.candidates.subspaces();
        params::same_size("candidates' dim", candidates[0].dim(), dim)?;
        let event = self.mechanism(adjacency)?.event();
        Ok(Requests::Fixed(vec![PlannedRelease::new(LABEL, event, 0)]))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        describe(certificate, "index of the selected candidate, settings")
            .assumption("the candidates were not chosen by looking at this data set")
    }

    fn train(&self, samples: &UserSamples, run: &mut Run<'_>) -> Result<Subspace> {
        let subspaces = self.candidates.subspaces();
        let gains = CandidateGains {
            loss: self.params.loss,
            subspaces,
        };
        let mechanism = self.mechanism(run.plan().adjacency())?;
        let selected = run.select(samples.table(), subspaces.len(), mechanism, &gains)?;
        // a candidate from a run with seeded noise would be passed on unchanged
        let seeded = |one: &Subspace| one.provenance() == Provenance::SeededNoise;
        run.taint(subspaces.iter().any(seeded));
        let chosen = &subspaces[selected.index().min(subspaces.len() - 1)];
        Ok(chosen.clone().with_provenance(run.provenance()))
    }
}

/// One user's gains over all candidates.
///
/// # Privacy
/// Each gain is clamped to `[0, R]` by [`ScoreSum`](dp_mechanism::ScoreSum) in exact integers.
#[allow(
    missing_debug_implementations,
    reason = "public values; print those instead"
)]
pub struct CandidateGains<'a> {
    /// How users score candidates.
    pub loss: SelectionLoss,
    /// The candidates.
    pub subspaces: &'a [Subspace],
}

/// Scratch memory for one user.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct GainScratch(UserDesign);

impl VectorContribution for CandidateGains<'_> {
    type Scratch = GainScratch;

    fn scratch(&self) -> GainScratch {
        GainScratch(UserDesign::new(
            self.subspaces.first().map_or(1, Subspace::rank),
        ))
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut GainScratch, out: &mut SparseBuffer) {
        let dim = self.subspaces.first().map_or(1, Subspace::dim);
        let rows = SampleRows::of(user, dim);
        for (at, subspace) in (0..).zip(self.subspaces) {
            out.push(at, self.loss.gain(subspace, rows, &mut own.0));
        }
    }
}

/// Maximum number of candidates of a net.
const MOST: f64 = (1 << 20) as f64;

/// Public candidates for the shared subspace, all of the same shape.
///
/// # Privacy
/// They must not depend on the private data, except through released values.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidates {
    subspaces: Vec<Subspace>,
}

impl Candidates {
    /// Any list of candidates: a published catalogue, released subspaces of other runs.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for an empty list, [`crate::Error::Shape`] when shapes differ.
    pub fn new(subspaces: Vec<Subspace>) -> Result<Self> {
        params::at_least_one("candidates", subspaces.len())?;
        for other in &subspaces {
            params::same_size("dim of a candidate", other.dim(), subspaces[0].dim())?;
            params::same_size("rank of a candidate", other.rank(), subspaces[0].rank())?;
        }
        Ok(Self { subspaces })
    }

    /// A net over all subspaces of dimension `rank`: every subspace has a candidate at a distance
    /// of at most `sqrt((dim - rank) rank) / cells`, in the Frobenius distance of
    /// [`Subspace::frobenius_distance`].
    ///
    /// ```text
    /// candidates: span of [I; B] with rows permuted, for each of the C(dim, rank) sets of rows that may hold I,
    ///             entries of B the centres of `cells` equal cells of [-1, 1]
    /// ```
    ///
    /// Proof of coverage: let the `rank` rows of a basis with the determinant of largest magnitude
    /// hold `I`; by Cramer's rule all entries of `B` then lie in [-1, 1]. The nearest centres are
    /// at most `1/cells` away each, so some `B'` has
    /// `||B - B'||_F <= sqrt((dim - rank) rank) / cells`. With an orthonormal basis `U` of the span
    /// of `[I; B]`, `[I; B] = U T` with `T^T T = I + B^T B`, so `||T^-1|| <= 1` and
    /// `||(I - P') U||_F = ||(I - P') ([I; B] - [I; B']) T^-1||_F <= ||B - B'||_F`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] unless `rank` is from 1 to `dim`, there is a cell, and the net has at most
    /// 2^20 candidates.
    pub fn net(dim: usize, rank: usize, cells: usize) -> Result<Self> {
        params::in_range("dim", dim, 1, 64, "a whole number from 1 to 64")?;
        params::in_range("rank", rank, 1, dim, "a whole number from 1 to dim")?;
        params::at_least_one("cells", cells)?;
        let entries = (dim - rank) * rank;
        let size = (cells as f64).powf(entries as f64) * n_choose_k(dim, rank);
        if size.is_nan() || size > MOST {
            let expected = "a net of at most 2^20 candidates";
            return Err(ParamError::new("cells", cells as f64, expected).into());
        }
        let mut subspaces = Vec::new();
        let mut chosen: Vec<usize> = (0..rank).collect();
        loop {
            chart(dim, &chosen, cells, &mut subspaces)?;
            if !next_set(&mut chosen, dim) {
                return Ok(Self { subspaces });
            }
        }
    }

    /// The candidates.
    #[must_use]
    pub fn subspaces(&self) -> &[Subspace] {
        &self.subspaces
    }
}

fn n_choose_k(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

/// The next increasing set of numbers below `n`, in lexicographic order.
fn next_set(set: &mut [usize], n: usize) -> bool {
    let k = set.len();
    let Some(at) = (0..k).rev().find(|&i| set[i] < n - k + i) else {
        return false;
    };
    set[at] += 1;
    for i in at + 1..k {
        set[i] = set[i - 1] + 1;
    }
    true
}

/// All candidates with the identity in the rows `chosen`.
fn chart(dim: usize, chosen: &[usize], cells: usize, out: &mut Vec<Subspace>) -> Result<()> {
    let rank = chosen.len();
    let mut counters = vec![0_usize; (dim - rank) * rank];
    loop {
        let mut columns = vec![0.0; dim * rank];
        let mut free = counters.iter();
        for row in 0..dim {
            for column in 0..rank {
                let entry = &mut columns[row * rank + column];
                if chosen.contains(&row) {
                    *entry = if chosen[column] == row { 1.0 } else { 0.0 };
                } else if let Some(&cell) = free.next() {
                    *entry = (2 * cell + 1) as f64 / cells as f64 - 1.0;
                }
            }
        }
        out.push(Subspace::spanned_by(
            dim,
            rank,
            &columns,
            Provenance::NonPrivate,
        )?);
        let Some(at) = counters.iter().position(|&c| c + 1 < cells) else {
            return Ok(());
        };
        counters[at] += 1;
        counters[..at].fill(0);
    }
}

/// Number of iterations of projected gradient descent for losses without a closed form: the same
/// for all users.
const N_ITERATIONS: usize = 60;

/// A user's score of a candidate: the improvement of the best personal model in it over predicting
/// 0.
///
/// ```text
/// gain_j(U) = loss_j(0) - min_v loss_j(v)    in [0, R]
/// ```
///
/// The printed score is the loss itself. Subtracting it from the loss at `v = 0`, which is the same
/// for all candidates, changes no probability under a fixed data set and puts one user's term into
/// `[0, R]` (`docs/errata.md`).
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum SelectionLoss {
    /// Squared loss relative to that of predicting 0: the share of the user's own label variance
    /// that a model in the candidate explains. `R = 1` without any bound on features or labels.
    Explained,
    /// Mean Huber loss, with slopes of at most `slope` (`xi`), features in the subspace clipped to `feature_clip` (`L_f`) and `||v|| <= model_bound`
    /// (`C`): `R = xi L_f C`, as in the paper, for a loss that is `xi`-Lipschitz in the prediction.
    Huber {
        /// `xi`, in label units: residuals beyond it count linearly.
        slope: f64,
        /// `L_f`.
        feature_clip: f64,
        /// `C`.
        model_bound: f64,
    },
}

impl SelectionLoss {
    fn check(&self) -> Result<()> {
        if let Self::Huber {
            slope,
            feature_clip,
            model_bound,
        } = *self
        {
            params::finite_positive("slope", slope)?;
            params::finite_positive("feature_clip", feature_clip)?;
            params::finite_positive("model_bound", model_bound)?;
            params::finite_positive("slope * feature_clip * model_bound", self.range())?;
        }
        Ok(())
    }

    /// `R`.
    #[must_use]
    pub fn range(&self) -> f64 {
        match *self {
            Self::Explained => 1.0,
            Self::Huber {
                slope,
                feature_clip,
                model_bound,
            } => slope * feature_clip * model_bound,
        }
    }

    /// The user's gain before it is bounded by the kernel.
    fn gain(&self, subspace: &Subspace, rows: SampleRows<'_>, own: &mut UserDesign) -> f64 {
        own.read(rows.iter(), subspace.basis());
        match *self {
            Self::Explained => {
                own.solve(TINY_RIDGE);
                let total = inner(&own.labels, &own.labels);
                let left: f64 = own.residuals().map(|r| r * r).sum();
                if total > 0.0 { 1.0 - left / total } else { 0.0 }
            }
            Self::Huber {
                slope,
                feature_clip,
                model_bound,
            } => {
                for z in own.projected.chunks_exact_mut(own.rank) {
                    let factor = clip_factor(norm(z), feature_clip);
                    z.iter_mut().for_each(|z| *z *= factor);
                }
                own.own.fill(0.0);
                let before = mean_huber(own, slope);
                descend(own, slope, model_bound);
                before - mean_huber(own, slope)
            }
        }
    }
}

fn mean_huber(own: &UserDesign, slope: f64) -> f64 {
    let terms = own.residuals().map(|r| {
        let size = r.abs();
        if size <= slope {
            0.5 * size * size
        } else {
            slope * (size - 0.5 * slope)
        }
    });
    terms.sum::<f64>() / own.n_rows().max(1) as f64
}

/// Projected gradient descent from 0, with the step size that the largest possible curvature
/// allows.
fn descend(own: &mut UserDesign, slope: f64, model_bound: f64) {
    let curvature = inner(&own.projected, &own.projected); // trace of Z^T Z, at least its largest eigenvalue
    if !(curvature > 0.0 && curvature.is_finite()) {
        return;
    }
    for _ in 0..N_ITERATIONS {
        let pulls: Vec<f64> = own.residuals().map(|r| r.clamp(-slope, slope)).collect();
        for (z, pull) in own.projected.chunks_exact(own.rank).zip(pulls) {
            own.own
                .iter_mut()
                .zip(z)
                .for_each(|(v, z)| *v += pull * z / curvature);
        }
        let factor = clip_factor(norm(&own.own), model_bound);
        own.own.iter_mut().for_each(|v| *v *= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_net_covers_within_its_radius() {
        let mut state = 1_u64;
        let mut number = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        };
        for (dim, rank, cells, size) in
            [(3, 1, 18, 972), (4, 2, 3, 486), (3, 2, 5, 75), (2, 2, 4, 1)]
        {
            let net = Candidates::net(dim, rank, cells).unwrap();
            assert_eq!(net.subspaces().len(), size);
            let radius = (((dim - rank) * rank) as f64).sqrt() / cells as f64;
            let mut widest = 0.0_f64;
            for _ in 0..300 {
                let columns: Vec<f64> = (0..dim * rank).map(|_| number()).collect();
                let any =
                    Subspace::spanned_by(dim, rank, &columns, Provenance::NonPrivate).unwrap();
                let distances = net
                    .subspaces()
                    .iter()
                    .map(|s| any.frobenius_distance(s).unwrap());
                widest = widest.max(distances.fold(f64::INFINITY, f64::min));
            }
            assert!(
                widest <= radius + 1e-12,
                "{dim} {rank}: {widest} > {radius}"
            );
            assert!(
                radius == 0.0 || widest > 0.3 * radius,
                "the bound is needlessly wide"
            );
        }
    }

    #[test]
    fn lists_and_sizes_are_checked() {
        assert!(Candidates::new(Vec::new()).is_err());
        let line =
            |dim| Subspace::spanned_by(dim, 1, &vec![1.0; dim], Provenance::NonPrivate).unwrap();
        assert!(Candidates::new(vec![line(2), line(3)]).is_err());
        assert!(Candidates::new(vec![line(2), line(2)]).is_ok());
        assert!(Candidates::net(3, 0, 4).is_err() && Candidates::net(3, 4, 4).is_err());
        assert!(Candidates::net(3, 1, 0).is_err() && Candidates::net(60, 30, 2).is_err());
    }
}
