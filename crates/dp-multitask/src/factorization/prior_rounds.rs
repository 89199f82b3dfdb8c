//! Rounds in which users' factors come from the taste factors of a prior, and the decision to drop these.

use dp_linalg::packed_len;
use dp_mechanism::Run;

use super::fit::{RoundState, Weighted, initial_factors};
use super::implicit::UserGramian;
use super::item_update::{ItemUpdate, UserMatrix, bias_coordinate};
use super::params::MatrixFactorization;
use crate::regression::TaskScales;
use crate::{Error, Result};

/// Largest norm of the taste part of users' factors while taste factors come from a prior: they have
/// less to learn than random ones, so the item biases get more of the norm.
const CLIP_NORM: f64 = 0.7;

/// Fits of a run whose prior has taste factors.
pub(super) struct PriorFits {
    /// While users' factors are computed from these.
    described: MatrixFactorization,
    /// After they were dropped: their columns remain evidence for the means.
    dropped: MatrixFactorization,
}

impl PriorFits {
    /// The fit of the next round.
    pub(super) const fn at(&self, rounds: &RoundState) -> &MatrixFactorization {
        match rounds.described {
            Some(_) => &self.described,
            None => &self.dropped,
        }
    }

    /// Starts from the taste factors of the prior.
    pub(super) fn describe(&self, rounds: &mut RoundState) -> Result<()> {
        let (Some(prior), params) = (&self.described.prior, self.described.params()) else {
            return Ok(());
        };
        let without = rounds.dim;
        let dim = params.dim.unwrap_or(without.max(1 + prior.n_tastes()));
        (rounds.described, rounds.dim) = (Some(without), dim);
        rounds.factors =
            initial_factors(prior.n_items(), dim, params.init_stddev, params.init_seed)?;
        prior.write_tastes(&mut rounds.factors, dim, params.init_stddev);
        Ok(())
    }
}

impl MatrixFactorization {
    /// Whether the first round uses taste factors of a prior.
    pub(super) fn begins_described(&self) -> bool {
        let has_tastes = (self.prior.as_ref()).is_some_and(|prior| prior.n_tastes() > 0);
        has_tastes && self.params().dim.is_none_or(|dim| dim > 1)
    }

    /// The fits of a run whose first round uses taste factors of a prior.
    pub(super) fn prior_fits(&self) -> Option<PriorFits> {
        let prior = self.prior.as_ref().filter(|_| self.begins_described())?;
        let mut dropped = self.clone();
        dropped.prior = Some(prior.without_tastes());
        let mut described = self.clone();
        described.params.clip_norm = self.params.clip_norm.min(CLIP_NORM);
        Some(PriorFits { described, dropped })
    }

    /// A round of statistics in which users' factors are computed from the taste factors of the
    /// prior: it releases the users' matrix and sums of residuals around the estimates so far, which
    /// are 0 in the first round. Records are sent with the factor that the user has without them, so
    /// the sums of the first round show whether the prior's taste factors fit the ratings. If they
    /// do not, and a run without the prior has no taste factors, they are dropped.
    ///
    /// # Privacy
    /// Releases [`UserGramian`] and [`ItemResiduals`](super::ItemResiduals); the rest is
    /// post-processing.
    pub(super) fn described_round(
        &self,
        on: &Weighted<'_>,
        scales: &TaskScales,
        rounds: &mut RoundState,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let (params, dim) = (self.params(), rounds.dim);
        let (ItemUpdate::Residual(settings), Some(prior)) = (&params.item_update, &self.prior)
        else {
            let what = "a prior of items without residual rounds";
            return Err(Error::Unsupported { what });
        };
        let statistics = self.statistics(dim, &rounds.factors, on.weights)?;
        let shape = (packed_len(dim), params.factor_bound().powi(2));
        let released = run.vector(on.data, shape, &UserGramian(&statistics))?;
        rounds.users = Some(UserMatrix::of_vector(&released, dim)?);

        let is_first = rounds.n_rounds == 0;
        let mut x = self.coefficients(&rounds.factors, dim);
        let mut bound = settings.bound(params.label_bound, rounds.n_rounds);
        if is_first {
            x.fill(0.0);
            bound = params.label_bound;
        }
        let released = self.release_residuals(&x, on, rounds, (bound, settings.clip), run)?;
        let (sums, noise_stddev) = (released.values(), released.noise_stddev());
        let may_drop = is_first && rounds.described == Some(1);
        if may_drop && !prior.shows_in(&sums, scales.totals(), dim) {
            return self.drop_tastes(scales, rounds, (&sums, noise_stddev));
        }
        let x = self.posterior(rounds, scales, (&sums, &x, noise_stddev))?;
        rounds.refine(self.rows(x, dim), noise_stddev / bound);
        Ok(())
    }

    /// Continues with the item biases of the first round, without taste factors.
    fn drop_tastes(
        &self,
        scales: &TaskScales,
        rounds: &mut RoundState,
        (sums, noise_stddev): (&[f64], f64),
    ) -> Result<()> {
        // the constant coordinate of users' factors is 1 from now on
        let bias = bias_coordinate(self.params().clip_norm, rounds.dim);
        let sums: Vec<f64> = sums.iter().step_by(rounds.dim).map(|r| r / bias).collect();
        (rounds.described, rounds.users, rounds.dim) = (None, None, 1);
        let (nothing, noise) = (vec![0.0; sums.len()], noise_stddev / bias);
        let biases = self.posterior(rounds, scales, (&sums, &nothing, noise))?;
        rounds.refine(biases, noise_stddev / self.params().label_bound);
        Ok(())
    }
}
