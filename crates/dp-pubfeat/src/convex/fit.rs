//! The outer steps.

use dp_accounting::{CertificateBuilder, Plan, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, params};
use dp_mechanism::{Run, Trainer, plan_for};

use super::{ConvexLoss, CurvatureContribution};
use crate::features::in_public_range;
use crate::learn::{StatisticsLearner, vectors_of};
use crate::problem::Vectors;
use crate::ssp::{ItemStatistics, OUTPUT, gram_requests};
use crate::{Error, ProblemSetup, Result, With, trainer};

/// Settings of [`ConvexSsp`], not yet checked. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvexSspParams {
    /// Bounds, weights and unit. Of the bounds on labels only `label_bound` is used.
    pub setup: ProblemSetup,
    /// Share of each release's budget spent on the curvatures, strictly between 0 and 1.
    pub matrix_share: f64,
    /// Quadratic approximations `T`, each a release of its own, 1 to 1000.
    pub n_steps: usize,
    /// Bound `E` on the weighted norm of a unit's slopes, from 1e-6 to 1e6; at the loss's own bound and above it never acts.
    pub slope_norm: f64,
}

impl ConvexSspParams {
    /// `n_steps` approximations, a fifth of the budget on curvatures, slopes up to the loss's own bound.
    #[must_use]
    pub const fn new(setup: ProblemSetup, n_steps: usize) -> Self {
        Self {
            setup,
            matrix_share: 0.2,
            n_steps,
            slope_norm: 1e6,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<ConvexSsp> {
        self.setup.check()?;
        params::open_unit("matrix_share", self.matrix_share)?;
        let range = "a whole number from 1 to 1000";
        params::in_range("n_steps", self.n_steps, 1, 1000, range)?;
        in_public_range("slope_norm", self.slope_norm)?;
        Ok(ConvexSsp { params: self })
    }
}

/// SSP for a convex loss: noisy curvatures and slopes around the present item vectors, a learner for the quadratic they make, and again.
///
/// ```text
/// sum_j (v - v^t)_j^T PSD(H_j) (v - v^t)_j / 2 + g_j^T (v - v^t)_j:   statistics A = PSD(H), b = PSD(H) v^t - g
/// ```
///
/// Source: Krichene et al. 2024, Algorithm 7, with the positive semidefinite parts of the noisy curvatures. The paper leaves its evaluation open; ours stands in
/// `docs/results.md`.
///
/// # Privacy
/// Released, and seen by anyone: per step all curvatures (sensitivity `L2 Gamma_u^2`, `sqrt 2` times that for a replacement) and all slopes
/// (`Gamma_u min(E, L1)`, twice that): [`CurvatureContribution`]. Unit: as in [`ProblemSetup::unit`].
///
/// # Examples
/// ```
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_pubfeat::{ConvexSspParams, ProblemSetup};
/// let convex = ConvexSspParams::new(ProblemSetup::new(8, 1.0), 2).check()?;
/// let plan = convex.plan(500, ApproxDp::target(5.0, 1e-5)?, Adjacency::AddRemoveUser)?;
/// assert_eq!(plan.releases().len(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ConvexSsp {
    params: ConvexSspParams,
}

impl ConvexSsp {
    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &ConvexSspParams {
        &self.params
    }

    /// What a fit over `n_items` will release, calibrated to `target`.
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
        let params = &self.params;
        params.setup.unit.check(adjacency)?;
        params::at_least_one("n_items", n_items)?;
        let of_one = |t| {
            let name = format!("curvature {t}");
            gram_requests(&name, params.setup.dim, n_items, params.matrix_share, 1.0)
        };
        let steps = 1..=params.n_steps;
        Ok(Requests::Shares(steps.flat_map(of_one).collect()))
    }

    /// The trainer that has `learner` learn from the quadratic approximation of `loss` in each step. A loss whose bounds are not from 1e-6 to
    /// 1e6 is refused when it is run.
    pub fn with<C, L>(&self, loss: C, learner: L) -> With<Self, (C, L)> {
        With {
            settings: self.clone(),
            start: (loss, learner),
        }
    }

    /// `A = PSD(H)`, `b = A v - g`.
    fn release(
        &self,
        loss: &dyn ConvexLoss,
        v: &[f64],
        rows: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<ItemStatistics> {
        let params = &self.params;
        let contribution = CurvatureContribution::new(&params.setup, loss, v, params.slope_norm)?;
        let grids = |matrix, rhs| contribution.grids(matrix, rhs);
        let released = run.grams(rows, grids, &contribution)?;
        let mut statistics = ItemStatistics::of(&released);
        statistics.project_psd()?;
        let dim = params.setup.dim;
        let mut image = vec![0.0; v.len()];
        for (item, image) in image.chunks_exact_mut(dim).enumerate() {
            // A v - g, since the residual is A v - rhs
            statistics.residual(item, &v[item * dim..][..dim], image);
        }
        statistics.rhs = image;
        Ok(statistics)
    }
}

impl<C: ConvexLoss, L: StatisticsLearner + Clone> Trainer for With<ConvexSsp, (C, L)> {
    type Data = Private<Interactions>;
    type Model = L;
    type Error = Error;

    fn width(&self, _: &Self::Data) -> usize {
        self.start.1.n_items()
    }

    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        self.settings.requests(n_items, adjacency)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let said = (&self.settings.params.setup, Vectors::Given);
        trainer::describe(certificate, said, (OUTPUT, &[]))
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<L> {
        let (loss, start) = &self.start;
        let setup = &self.settings.params.setup;
        in_public_range("second_bound", loss.second_bound())?;
        in_public_range("first_bound", loss.first_bound(setup.label_bound))?;
        let mut learner = trainer::begin((setup, start), data, run)?;
        let shape = (learner.n_items(), learner.dim());
        setup.unit.with_rows(data, |rows| {
            for _ in 0..self.settings.params.n_steps {
                let v = vectors_of(&learner, shape)?;
                learner.learn(&self.settings.release(loss, &v, rows, run)?)?;
            }
            Ok(())
        })?;
        Ok(learner)
    }
}
