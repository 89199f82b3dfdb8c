//! The residual form of sufficient statistics perturbation.

use dp_accounting::{CertificateBuilder, Plan, ReleaseRequest, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, ReplaceFactor, params};
use dp_mechanism::{GramGrids, GramSums, ReleasedGrams, Run, Trainer, plan_for};

use super::pooled::Pooled;
use super::{ResidualContribution, ShrinkingBound, TotalsContribution};
use crate::learn::{StatisticsLearner, vectors_of};
use crate::problem::Vectors;
use crate::ssp::{OUTPUT, SspContribution};
use crate::{Error, ProblemSetup, Result, With, events, trainer};

/// Settings of [`ResidualSsp`], not yet checked. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResidualSspParams {
    /// Bounds, weights and unit.
    pub setup: ProblemSetup,
    /// Steps, 1 to 1000. The first is that of the pooled release.
    pub n_steps: usize,
    /// How residuals are bounded. The first bound also bounds the labels.
    pub bound: ShrinkingBound,
    /// Share of the budget spent on the pooled matrix, and again on the total weights; above 0 and below 1/2.
    pub pooled_share: f64,
    /// Whether a step's statistics forget the releases before it: gradient descent by a learner that makes single steps wants that, closed forms do not.
    pub forget: bool,
}

impl ResidualSspParams {
    /// Steps whose bound falls from `first` to `floor` in equal ratios, 2 % of the budget on the pooled matrix and on the weights.
    #[must_use]
    pub fn new(setup: ProblemSetup, n_steps: usize, first: f64, floor: f64) -> Self {
        let ratio = if n_steps > 1 {
            (floor / first).powf(((n_steps - 1) as f64).recip())
        } else {
            1.0
        };
        let bound = ShrinkingBound {
            first,
            ratio,
            floor,
        };
        Self {
            setup,
            n_steps,
            bound,
            pooled_share: 0.02,
            forget: false,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(mut self) -> Result<ResidualSsp> {
        self.setup.check()?;
        let range = "a whole number from 1 to 1000";
        params::in_range("n_steps", self.n_steps, 1, 1000, range)?;
        self.bound.check()?;
        params::open_unit("twice pooled_share", 2.0 * self.pooled_share)?;
        self.setup.label_norm = self
            .setup
            .label_norm
            .min(self.bound.first / self.setup.user_norm);
        self.setup.check()?;
        Ok(ResidualSsp { params: self })
    }
}

/// Item vectors by repeated small releases around what is known already.
///
/// ```text
/// S = sum_k u u^T,  W_j = sum_k w_kj,  n          released once;   A_j = W_j PSD(S) / n
/// r^t = sum_k w_kj clip(y - <u, v^t>, c_t) u      released in each step, noise in proportion to c_t
/// b^t = r^t + A v^t                               the right-hand side that r^t stands for
/// v^(t+1) = what a learner makes of A and the b's so far, each weighed by one over its noise's variance
/// ```
///
/// As the residuals shrink so can the bound and with it the noise, which SSP has to scale to the labels themselves. A pooled matrix costs noise on `d (d + 1) / 2` numbers instead of that many
/// per item; it is right when users' vectors do not depend on their items, else the steps still correct each other as long as `A_j` is more than half of
/// the true one. With [`KernelRidge`](crate::KernelRidge) the features' kernel and the known noise settle how much each item is believed; with
/// [`ValueDescent`](crate::ValueDescent), one step and `forget`, the steps are noisy gradient descent of a linear encoder with clipped residuals.
///
/// # Privacy
/// Released, and seen by anyone: `S` (sensitivity `Gamma_u^2`, positive semidefinite: `sqrt 2` times that for a replacement) with the first right-hand sides
/// (`min(Gamma_u B, c_1)`), the weights and the number of units (1, [`TotalsContribution`]), each further step (`c_t`, [`ResidualContribution`]). Unit: as in
/// [`ProblemSetup::unit`].
///
/// # Examples
/// ```
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_pubfeat::{ProblemSetup, ResidualSspParams};
/// let residual = ResidualSspParams::new(ProblemSetup::new(8, 1.0), 4, 0.5, 0.1).check()?;
/// let plan = residual.plan(500, ApproxDp::target(5.0, 1e-5)?, Adjacency::AddRemoveUser)?;
/// assert_eq!(plan.releases().len(), 3 + 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ResidualSsp {
    params: ResidualSspParams,
}

impl ResidualSsp {
    /// The settings, with the labels bounded by the first bound.
    #[must_use]
    pub const fn params(&self) -> &ResidualSspParams {
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
        let (params, dim) = (&self.params, self.params.setup.dim);
        params.setup.unit.check(adjacency)?;
        events::check_coordinates(n_items.saturating_mul(dim))?;
        let step = (1.0 - 2.0 * params.pooled_share) / params.n_steps as f64;
        let mut all = vec![
            events::request("total weights", params.pooled_share, n_items + 1),
            ReleaseRequest::new(
                "pooled matrix",
                params.pooled_share,
                ReplaceFactor::SqrtTwo,
                GramSums::pooled_matrix_draws(dim),
            ),
        ];
        let steps = 1..=params.n_steps;
        all.extend(steps.map(|t| events::request(format!("residuals {t}"), step, n_items * dim)));
        Ok(Requests::Shares(all))
    }

    /// The trainer that has `learner` learn after each step. Residuals are those of the learner's item vectors; a learner whose vectors are not 0 at the
    /// start is refused when it is run.
    pub fn with<L>(&self, learner: L) -> With<Self, L> {
        let (settings, start) = (self.clone(), learner);
        With { settings, start }
    }

    fn steps<L: StatisticsLearner>(
        &self,
        learner: &mut L,
        rows: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let setup = &self.params.setup;
        let n_items = rows.expose().n_items();
        let totals = TotalsContribution { setup, n_items };
        let totals = run.vector(rows, (n_items + 1, 1.0), &totals)?;
        let first = first_release(setup, rows, run)?;
        let mut pooled = Pooled::new(
            &first,
            &totals,
            #[cfg(privacy_mutants)]
            rows,
        )?;
        let (mut matrix, mut residuals) = (vec![0.0; setup.dim * setup.dim], Vec::new());
        residuals.resize(n_items * setup.dim, 0.0);
        for (item, b) in residuals.chunks_exact_mut(setup.dim).enumerate() {
            first.write_item(item, &mut matrix, b);
        }
        let mut stddev = first.rhs_noise_stddev();
        for step in 1..=self.params.n_steps {
            let item_vectors = vectors_of(learner, (n_items, setup.dim))?;
            if step > 1 {
                let bound = self.params.bound.at(step);
                let contribution = ResidualContribution {
                    setup,
                    item_vectors: &item_vectors,
                    bound,
                };
                let released = run.vector(rows, (residuals.len(), bound), &contribution)?;
                residuals = released.values();
                stddev = released.noise_stddev();
            }
            let forget = self.params.forget;
            learner.learn(&pooled.observe(&item_vectors, &residuals, stddev, forget)?)?;
        }
        Ok(())
    }
}

/// The pooled matrix and the first right-hand sides.
fn first_release(
    setup: &ProblemSetup,
    rows: &Private<Interactions>,
    run: &mut Run<'_>,
) -> Result<ReleasedGrams> {
    let norm = setup.user_norm;
    let grids = |matrix, rhs| {
        let reach = norm * setup.label_reach();
        Ok::<_, Error>(GramGrids::pooled(matrix, norm * norm, rhs, reach)?)
    };
    run.grams(rows, grids, &SspContribution::new(setup))
}

impl<L: StatisticsLearner + Clone> Trainer for With<ResidualSsp, L> {
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
        trainer::describe(certificate, said, (OUTPUT, &[]))
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<L> {
        let setup = &self.settings.params.setup;
        let mut learner = trainer::begin((setup, &self.start), data, run)?;
        let shape = (learner.n_items(), learner.dim());
        if vectors_of(&learner, shape)?.iter().any(|v| *v != 0.0) {
            return Err(Error::Unsupported {
                what: "residual steps from item vectors other than 0",
            });
        }
        setup
            .unit
            .with_rows(data, |rows| self.settings.steps(&mut learner, rows, run))?;
        Ok(learner)
    }
}
