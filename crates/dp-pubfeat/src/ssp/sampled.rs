//! Mini-batches of examples or users: Algorithm 4.

use dp_accounting::{CertificateBuilder, Plan, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, UserRow, params};
use dp_linalg::packed_len;
use dp_mechanism::{PoissonSampling, Run, SparseBuffer, Trainer, VectorContribution, plan_for};

use super::fit::OUTPUT;
use super::{ItemStatistics, scale_jointly};
use crate::learn::StatisticsLearner;
use crate::problem::{UnitValues, Vectors};
use crate::{Error, ProblemSetup, Result, With, trainer};

/// Settings of [`SampledSsp`], not yet checked. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampledSspParams {
    /// Bounds, weights and unit.
    pub setup: ProblemSetup,
    /// Share of the squared sensitivity that the matrices have, strictly between 0 and 1.
    pub matrix_share: f64,
    /// Releases, each on a sample of its own, 1 to 100,000.
    pub n_steps: usize,
    /// Probability that a unit is in a step's sample, in (0, 1].
    pub sampling_probability: f64,
}

impl SampledSspParams {
    /// Half of the squared sensitivity for matrices and half for right-hand sides.
    #[must_use]
    pub const fn new(setup: ProblemSetup, n_steps: usize, sampling_probability: f64) -> Self {
        Self {
            setup,
            matrix_share: 0.5,
            n_steps,
            sampling_probability,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<SampledSsp> {
        self.setup.check()?;
        params::open_unit("matrix_share", self.matrix_share)?;
        let range = "a whole number from 1 to 100000";
        params::in_range("n_steps", self.n_steps, 1, 100_000, range)?;
        let sampling = PoissonSampling::new(self.sampling_probability)?;
        Ok(SampledSsp {
            params: self,
            sampling,
        })
    }
}

/// Mini-batch SSP-i (Krichene et al. 2024, Algorithm 4): statistics of a fresh Poisson sample of units in every step, noised afresh.
///
/// The learner is given the sums divided by the sampling probability, so that they estimate those of everybody.
///
/// # Privacy
/// A step releases one vector: all upper triangles, off-diagonal entries times `sqrt 2`, and all right-hand sides, in units in which a unit's own part has
/// norm at most 1:
///
/// ```text
/// sqrt(a) svec(w_j u u^T) / Gamma_u^2,   sqrt(1 - a) w_j y_j u / (Gamma_u min(B, Gamma_y)),   a = matrix_share
/// squared norm <= a sum_j w_j^2 + (1 - a) <= 1
/// ```
///
/// with the bounds of [`SspContribution`](crate::SspContribution). The units are drawn by independent coins; the event is the Gaussian mechanism on
/// that sample, reserved as a whole on a [`Budget::schedule`](dp_accounting::Budget::schedule). Who was drawn stays secret. Unit: as in [`ProblemSetup::unit`]; for examples the coins are
/// those of single examples, as in the paper.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledSsp {
    params: SampledSspParams,
    sampling: PoissonSampling,
}

const SECRET: &str = "who was in the sample of which step stays secret";

impl SampledSsp {
    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &SampledSspParams {
        &self.params
    }

    /// What a fit over `n_items` will release, with the least noise for `target`.
    ///
    /// # Errors
    /// As [`Ssp::plan`](crate::Ssp::plan).
    pub fn plan(&self, n_items: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        Ok(plan_for(
            &self.requests(n_items, adjacency)?,
            target,
            adjacency,
        )?)
    }

    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        self.params.setup.unit.check(adjacency)?;
        let n = self.n_coordinates(n_items);
        trainer::check_coordinates(n)?;
        let n_steps = self.params.n_steps;
        Ok(trainer::sampled_steps(
            "statistics",
            n_steps,
            self.sampling,
            n,
        ))
    }

    const fn n_coordinates(&self, n_items: usize) -> usize {
        let dim = self.params.setup.dim;
        n_items.saturating_mul(packed_len(dim) + dim)
    }

    /// The trainer that has `learner` learn from the statistics of each step's sample.
    pub fn with<L>(&self, learner: L) -> With<Self, L> {
        let (settings, start) = (self.clone(), learner);
        With { settings, start }
    }

    fn release(&self, rows: &Private<Interactions>, run: &mut Run<'_>) -> Result<ItemStatistics> {
        let setup = &self.params.setup;
        let n_items = rows.expose().n_items();
        let contribution = VectorStatistics::new(setup, self.params.matrix_share, n_items);
        let n = self.n_coordinates(n_items);
        let released = run.sampled_vector(self.sampling, rows, (n, 1.0), &contribution)?;
        let q = self.sampling.sampling_probability();
        let scales = (
            1.0 / (contribution.matrix_scale * q),
            1.0 / (contribution.rhs_scale * q),
        );
        ItemStatistics::of_vector(
            setup.dim,
            &released.values(),
            scales,
            released.noise_stddev(),
        )
    }
}

impl<L: StatisticsLearner + Clone> Trainer for With<SampledSsp, L> {
    type Data = Private<Interactions>;
    type Model = L;
    type Error = Error;

    fn width(&self, _: &Self::Data) -> usize {
        self.start.n_items()
    }

    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        self.settings.requests(n_items, adjacency)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let said = (&self.settings.params.setup, Vectors::Given);
        trainer::describe(certificate, said, (OUTPUT, &[SECRET]))
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<L> {
        let params = &self.settings.params;
        let mut learner = trainer::begin((&params.setup, &self.start), data, run)?;
        params.setup.unit.with_rows(data, |rows| {
            for _ in 0..params.n_steps {
                learner.learn(&self.settings.release(rows, run)?)?;
            }
            Ok(())
        })?;
        Ok(learner)
    }
}

/// A unit's statistics as one vector of norm at most 1: see [`SampledSsp`].
struct VectorStatistics<'a> {
    setup: &'a ProblemSetup,
    matrix_scale: f64,
    rhs_scale: f64,
    n_items: usize,
}

impl<'a> VectorStatistics<'a> {
    fn new(setup: &'a ProblemSetup, matrix_share: f64, n_items: usize) -> Self {
        let norm = setup.user_norm;
        Self {
            setup,
            matrix_scale: matrix_share.sqrt() / (norm * norm),
            rhs_scale: (1.0 - matrix_share).sqrt() / (norm * setup.label_reach()),
            n_items,
        }
    }
}

impl VectorContribution for VectorStatistics<'_> {
    type Scratch = UnitValues;

    fn scratch(&self) -> UnitValues {
        UnitValues::default()
    }

    fn contribute(&self, unit: UserRow<'_>, own: &mut UnitValues, out: &mut SparseBuffer) {
        let dim = self.setup.dim;
        own.read(self.setup, unit);
        scale_jointly(&mut own.labels, &own.weights, self.setup.label_norm);
        let n_packed = packed_len(dim);
        let u = &own.vector;
        let index = |at: usize| u32::try_from(at).unwrap_or(u32::MAX); // coordinates fit: checked
        for (&item, w) in unit.items().iter().zip(&own.weights) {
            let mut at = item as usize * n_packed;
            for a in 0..dim {
                for b in a..dim {
                    let isometric = if a == b { 1.0 } else { 2.0_f64.sqrt() };
                    out.push(index(at), self.matrix_scale * isometric * w * u[a] * u[b]);
                    at += 1;
                }
            }
        }
        for ((&item, w), y) in unit.items().iter().zip(&own.weights).zip(&own.labels) {
            let first = self.n_items * n_packed + item as usize * dim;
            for (a, u) in u.iter().enumerate() {
                out.push(index(first + a), self.rhs_scale * w * y * u);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;
    use dp_mechanism::{Grid, vector_contribution};

    use super::*;

    #[test]
    fn a_unit_s_vector_has_norm_one_and_turns_back_into_its_statistics() {
        let mut builder = InteractionsBuilder::new(3).with_feature_dim(2);
        builder.set_features(0, &[1.2, -1.6]).unwrap();
        builder.push(0, 0, 3.0).unwrap();
        builder.push(0, 2, -5.0).unwrap();
        let data = builder.build().0;
        let setup = ProblemSetup {
            user_norm: 2.0,
            label_norm: 3.0,
            ..ProblemSetup::new(2, 4.0)
        };
        let (n, grid) = (3 * (3 + 2), Grid::new(1.0, 1.0).unwrap());
        let contribution = VectorStatistics::new(&setup, 0.3, 3);
        let mut values = vec![0.0; n];
        let mut norm = 0_u128;
        for (at, z) in vector_contribution(&grid, n, &contribution, data.user(0)) {
            values[at] = z as f64 * grid.step();
            norm += u128::from(z.unsigned_abs()).pow(2);
        }
        let share = (norm as f64).sqrt() / grid.l2_bound() as f64;
        assert!(share <= 1.0 && share > 0.999_99, "{share}"); // at both bounds at once
        let scales = (
            1.0 / contribution.matrix_scale,
            1.0 / contribution.rhs_scale,
        );
        let back = ItemStatistics::of_vector(2, &values, scales, 0.1).unwrap();
        // w = 1/sqrt 2, labels 3 and -4 scaled together to weighted norm 3: times .848528
        let w = 0.5_f64.sqrt();
        for (item, y) in [(0, 3.0), (2, -4.0)] {
            let expected = [1.44, -1.92, -1.92, 2.56].map(|x| w * x);
            let b = [1.2, -1.6].map(|u| w * y * 0.848_528_137_4 * u);
            let pairs = back.matrix(item).iter().zip(expected);
            assert!({ pairs }.all(|(f, e)| (f - e).abs() < 1e-6));
            assert!(
                back.rhs(item)
                    .iter()
                    .zip(b)
                    .all(|(f, e)| (f - e).abs() < 1e-6)
            );
        }
        assert!(back.matrix(1).iter().all(|a| *a == 0.0));
    }
}
