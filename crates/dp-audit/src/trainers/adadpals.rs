use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp, Gdp, Interactions, Private};
use dp_mechanism::{Grid, NoiseSource, ReleasedGrams, vector_contribution};
use dp_multitask::{
    CountContribution, FittedModel, MatrixFactorization, NoisyCounts, Released, TaskWeights,
};

use crate::kernel::{add_users, fill_grams, gram_views};
use crate::view::{Layout, View};
use crate::{Error, Result, Trainer};

/// Private matrix factorisation (`dp-multitask`) under audit.
///
/// Everything that the statistics of a round depend on is computed here once more, from what was
/// released and public settings: weights from the released counts, factors from the statistics
/// of the round before. A trainer that used anything private in their place would give sums that
/// differ from these, and the audit of the release would fail.
#[derive(Debug, Clone)]
pub struct AuditedFactorization {
    fit: MatrixFactorization,
    plan: Plan,
}

/// What a fit released, in order.
enum Kept {
    Counts(NoisyCounts),
    Statistics(Vec<f64>, ReleasedGrams),
}

impl AuditedFactorization {
    /// A fit with these settings over `n_items`, calibrated to `target` for adding or removing one
    /// user.
    ///
    /// # Errors
    /// As [`MatrixFactorization::plan`].
    pub fn new(fit: MatrixFactorization, n_items: usize, target: ApproxDp) -> Result<Self> {
        let plan = fit
            .plan(n_items, target, Adjacency::AddRemoveUser)
            .map_err(trainer)?;
        Ok(Self { fit, plan })
    }

    /// The plan of a run.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// One run on a ledger of its own: the model, and each release with the exact sums behind it.
    ///
    /// # Errors
    /// [`Error::Trainer`] when the fit fails.
    pub fn run(
        &self,
        data: &Private<Interactions>,
        canaries: Option<&Interactions>,
        noise: &mut NoiseSource,
    ) -> Result<(FittedModel, Vec<View>)> {
        let budget = Budget::new(self.plan.target(), Adjacency::AddRemoveUser)?;
        let spends: Vec<Spend> = Ledger::in_memory("audit", budget)?.reserve(&self.plan)?;
        let mut kept = Vec::new();
        let fitted = self
            .fit
            .fit_watched(
                data,
                &self.plan,
                spends,
                noise,
                &mut |_| {},
                &mut |seen| match seen {
                    Released::Counts(counts) => kept.push(Kept::Counts(counts.clone())),
                    Released::Statistics { factors, released } => {
                        kept.push(Kept::Statistics(factors.to_vec(), released.clone()));
                    }
                    _ => {}
                },
            )
            .map_err(trainer)?;
        let views = self.views(&kept, data.expose(), canaries)?;
        Ok((fitted, views))
    }

    fn views(
        &self,
        kept: &[Kept],
        data: &Interactions,
        canaries: Option<&Interactions>,
    ) -> Result<Vec<View>> {
        let mut views = Vec::new();
        let mut weights = TaskWeights::uniform(data.n_items());
        let mut before: Option<&ReleasedGrams> = None;
        for release in kept {
            match release {
                Kept::Counts(counts) => {
                    views.push(self.counts_view(counts, data, canaries)?);
                    let params = self.fit.params();
                    weights = TaskWeights::from_counts(
                        counts,
                        params.weight_exponent,
                        params.count_floor,
                    )
                    .map_err(trainer)?;
                }
                Kept::Statistics(factors, released) => {
                    let factors = self.factors(factors, before, released.dim())?;
                    let at = views.len();
                    views.extend(
                        self.round_views(at, &factors, &weights, released, data, canaries)?,
                    );
                    before = Some(released);
                }
            }
        }
        Ok(views)
    }

    /// Factors of a round from the release before it. Those of the first round are public
    /// constants, and runs of item biases alone average their rounds: both are taken as shown.
    fn factors(
        &self,
        shown: &[f64],
        before: Option<&ReleasedGrams>,
        dim: usize,
    ) -> Result<Vec<f64>> {
        match before {
            Some(before) if dim > 1 => self.fit.solve_items(before).map_err(trainer),
            _ => Ok(shown.to_vec()),
        }
    }

    fn counts_view(
        &self,
        counts: &NoisyCounts,
        data: &Interactions,
        canaries: Option<&Interactions>,
    ) -> Result<View> {
        let planned = &self.plan.releases()[0];
        let clip_norm = self.fit.params().count_clip_norm;
        let multiplier = planned.noise_multiplier()?;
        let grid = Grid::new(multiplier, clip_norm)?;
        let contribution = CountContribution::new(clip_norm).map_err(trainer)?;
        let n_items = data.n_items();
        let mut view = View {
            label: planned.label().to_owned(),
            layout: Layout::Vector {
                sigma: grid.sigma(),
            },
            noise_multiplier: multiplier,
            integers: counts.values().iter().map(|&v| integer(v, &grid)).collect(),
            exact: vec![0; n_items],
            canaries: Vec::new(),
        };
        add_users(&mut view.exact, data, |row| {
            Ok(vector_contribution(&grid, n_items, &contribution, row))
        })?;
        for row in canaries.into_iter().flat_map(Interactions::users) {
            view.canaries
                .push(vector_contribution(&grid, n_items, &contribution, row));
        }
        Ok(view)
    }

    fn round_views(
        &self,
        at: usize,
        factors: &[f64],
        weights: &TaskWeights,
        released: &ReleasedGrams,
        data: &Interactions,
        canaries: Option<&Interactions>,
    ) -> Result<[View; 2]> {
        let planned = &self.plan.releases()[at..at + 2];
        let multipliers = (
            planned[0].noise_multiplier()?,
            planned[1].noise_multiplier()?,
        );
        let grids = self
            .fit
            .grids(multipliers.0, multipliers.1)
            .map_err(trainer)?;
        let statistics = self
            .fit
            .statistics(released.dim(), factors, weights)
            .map_err(trainer)?;
        let labels = (planned[0].label(), planned[1].label());
        let mut views = gram_views(labels, multipliers, &grids, released);
        fill_grams(&mut views, data, canaries, &grids, &statistics)?;
        Ok(views)
    }
}

impl Trainer for AuditedFactorization {
    fn claim(&self) -> (ApproxDp, Gdp) {
        // a plan of Gaussian releases always has this parameter
        let gdp = self.plan.gdp().unwrap_or(Gdp { mu: f64::NAN });
        (self.plan.guarantee(), gdp)
    }

    fn train(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> Result<Vec<View>> {
        Ok(self.run(data, Some(canaries), noise)?.1)
    }
}

/// The integer behind a dequantised value `(Y + 1/2) g`: exact while `|Y|` is below 2^50.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a released count has far fewer than 63 bits"
)]
fn integer(value: f64, grid: &Grid) -> i64 {
    (value / grid.step() - 0.5).round() as i64
}

fn trainer(error: dp_multitask::Error) -> Error {
    Error::Trainer(Box::new(error))
}
