use dp_accounting::{Budget, Ledger, Plan, PlannedRelease, Spend};
use dp_core::{Adjacency, ApproxDp, Gdp, Interactions, Private, ShapeError, UserRow};
use dp_mechanism::{
    Fitted, Grid, NoiseSource, Observed, ObservedSums, Observer, ReleasedGrams, Round, Run,
    Trainer as _, vector_contribution,
};
use dp_multitask::{CountContribution, FactorModel, MatrixFactorization, NoisyCounts, TaskWeights};

use super::failed;
use crate::kernel::{fill_grams, fill_vector, gram_views, vector_view};
use crate::view::{Layout, View};
use crate::{Error, Result, Trainer};

/// How the label of the item counts ends.
const ITEM_COUNTS: &str = "item counts";
/// How the label of the items' total weights ends.
const ITEM_WEIGHTS: &str = "item weights";

/// Private matrix factorisation (`dp-multitask`) under audit.
///
/// Everything that the statistics of a round depend on, one matrix per item or one for all, is computed here once more, from what was
/// released and public settings: weights from the released counts, factors from the statistics
/// of the round before. A trainer that used anything private in their place would give sums that
/// differ from these, and the audit of the release would fail. Sums other than the statistics (of
/// implicit feedback, total weights, residuals) are taken from the trainer's own account of what each
/// user adds. The Gramian of all users, a small part of the budget, is shared by the canaries of a
/// run: noise in it shifts all of their scores together, present or not, which a lower bound from both
/// error rates does not notice to first order.
#[derive(Debug, Clone)]
pub struct AuditedFactorization {
    fit: MatrixFactorization,
    plan: Plan,
}

/// A release of a fit.
enum Kept {
    Counts(NoisyCounts),
    Statistics(Vec<f64>, ReleasedGrams),
    Sum(View),
    /// The items' total weights, with what items are solved with.
    Weights(View, Vec<f64>),
    /// A release that this audit does not know: it must not be passed over.
    Unknown,
}

/// What a fit released, in order, and the factors that users are described by.
struct Seen<'a> {
    fit: &'a MatrixFactorization,
    data: &'a Interactions,
    canaries: Option<&'a Interactions>,
    factors: Vec<f64>,
    kept: Vec<Kept>,
}

impl Observer for Seen<'_> {
    fn round(&mut self, round: &Round<'_>) {
        self.factors = round.parameters.to_vec();
    }

    fn release(&mut self, seen: &Observed<'_>) {
        let label = seen.labels[0];
        self.kept.push(match seen.sums {
            ObservedSums::Vector { released, .. } if label.ends_with(ITEM_COUNTS) => {
                Kept::Counts(NoisyCounts::of(released))
            }
            ObservedSums::Vector {
                grid,
                released,
                one_user,
            } => {
                let mut view = vector_view(label, f64::NAN, grid, released);
                let one_user = |row: UserRow<'_>| Ok(one_user(row));
                match fill_vector(&mut view, self.data, self.canaries, &one_user) {
                    Ok(()) if label.ends_with(ITEM_WEIGHTS) => {
                        Kept::Weights(view, self.fit.item_weights(released))
                    }
                    Ok(()) => Kept::Sum(view),
                    Err(_) => Kept::Unknown,
                }
            }
            ObservedSums::Grams { released, .. } => {
                Kept::Statistics(self.factors.clone(), released.clone())
            }
            ObservedSums::Triangle { .. } => Kept::Unknown,
        });
    }
}

impl AuditedFactorization {
    /// A fit with these settings over `n_items`, calibrated to `target` for adding or removing one
    /// user.
    ///
    /// # Errors
    /// As [`plan`](dp_mechanism::Trainer::plan).
    pub fn new(fit: MatrixFactorization, n_items: usize, target: ApproxDp) -> Result<Self> {
        let plan = fit
            .plan(n_items, target, Adjacency::AddRemoveUser)
            .map_err(failed)?;
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
    ) -> Result<(Fitted<FactorModel>, Vec<View>)> {
        let budget = Budget::new(self.plan.target(), Adjacency::AddRemoveUser)?;
        let spends: Vec<Spend> = Ledger::in_memory("audit", budget)?.reserve(&self.plan)?;
        let mut seen = Seen {
            fit: &self.fit,
            data: data.expose(),
            canaries,
            factors: Vec::new(),
            kept: Vec::new(),
        };
        let run = Run::new(&self.plan, spends, noise)?.observed_by(&mut seen);
        let fitted = self.fit.run(data, run).map_err(failed)?;
        let views = self.views(&seen.kept, data.expose(), canaries)?;
        Ok((fitted, views))
    }

    fn views(
        &self,
        kept: &[Kept],
        data: &Interactions,
        canaries: Option<&Interactions>,
    ) -> Result<Vec<View>> {
        let mut views: Vec<(usize, View)> = Vec::new();
        let mut left: Vec<usize> = (0..self.plan.releases().len()).collect();
        let mut weights = TaskWeights::uniform(data.n_items());
        let mut before: Option<&ReleasedGrams> = None;
        let mut item_weights: Option<&[f64]> = None;
        for release in kept {
            match release {
                Kept::Counts(counts) => {
                    let (at, planned) = self.next(&mut left, "")?;
                    views.push((at, self.counts_view(planned, counts, data, canaries)?));
                    let n_items = data.n_items();
                    weights = self.fit.weights(n_items, Some(counts)).map_err(failed)?;
                }
                Kept::Statistics(factors, released) => {
                    let mut factors =
                        self.factors(factors, before, item_weights, released.dim())?;
                    weights.clear_others(&mut factors);
                    let (matrix, of_matrix) = self.next(&mut left, "matrices")?;
                    let (rhs, of_rhs) = self.next(&mut left, "right-hand sides")?;
                    let planned = [of_matrix, of_rhs];
                    let made =
                        self.round_views(planned, &factors, &weights, released, data, canaries)?;
                    views.extend([matrix, rhs].into_iter().zip(made));
                    before = Some(released);
                }
                Kept::Sum(view) | Kept::Weights(view, _) => {
                    if let Kept::Weights(_, weights) = release {
                        item_weights = Some(weights);
                    }
                    let (at, planned) = self.next(&mut left, &view.label)?;
                    let mut view = view.clone();
                    view.noise_multiplier = planned.noise_multiplier()?;
                    views.push((at, view));
                }
                Kept::Unknown => return Err(unseen(1, 0)),
            }
        }
        if !left.is_empty() {
            return Err(unseen(left.len(), 0));
        }
        views.sort_by_key(|(at, _)| *at);
        Ok(views.into_iter().map(|(_, view)| view).collect())
    }

    /// The first release of the plan that is not accounted for and whose label ends so.
    fn next(&self, left: &mut Vec<usize>, ending: &str) -> Result<(usize, &PlannedRelease)> {
        let releases = self.plan.releases();
        let found = (left.iter()).position(|&at| releases[at].label().ends_with(ending));
        let at = found.map(|place| left.remove(place));
        let at = at.ok_or_else(|| unseen(releases.len() + 1, releases.len()))?;
        Ok((at, &releases[at]))
    }

    /// Factors of a round from the release before it. Those of the first round are public
    /// constants, and runs of item biases alone average their rounds: both are taken as shown.
    fn factors(
        &self,
        shown: &[f64],
        before: Option<&ReleasedGrams>,
        item_weights: Option<&[f64]>,
        dim: usize,
    ) -> Result<Vec<f64>> {
        match before {
            Some(before) if dim > 1 && self.fit.params().feedback.implicit().is_none() => {
                self.fit.solve_items(before, item_weights).map_err(failed)
            }
            _ => Ok(shown.to_vec()),
        }
    }

    fn counts_view(
        &self,
        planned: &PlannedRelease,
        counts: &NoisyCounts,
        data: &Interactions,
        canaries: Option<&Interactions>,
    ) -> Result<View> {
        let clip_norm = self.fit.params().count_clip_norm;
        let multiplier = planned.noise_multiplier()?;
        let grid = Grid::new(multiplier, clip_norm)?;
        let contribution = CountContribution::new(clip_norm).map_err(failed)?;
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
        let one_user =
            |row: UserRow<'_>| Ok(vector_contribution(&grid, n_items, &contribution, row));
        fill_vector(&mut view, data, canaries, &one_user)?;
        Ok(view)
    }

    fn round_views(
        &self,
        planned: [&PlannedRelease; 2],
        factors: &[f64],
        weights: &TaskWeights,
        released: &ReleasedGrams,
        data: &Interactions,
        canaries: Option<&Interactions>,
    ) -> Result<[View; 2]> {
        let multipliers = (
            planned[0].noise_multiplier()?,
            planned[1].noise_multiplier()?,
        );
        let grids = self
            .fit
            .grids(multipliers.0, multipliers.1)
            .map_err(failed)?;
        let dim = factors.len() / weights.omega().len().max(1);
        let statistics = self.fit.statistics(dim, factors, weights).map_err(failed)?;
        let labels = (planned[0].label(), planned[1].label());
        let mut views = gram_views(labels, multipliers, &grids, released);
        fill_grams(&mut views, data, canaries, &grids, &statistics)?;
        Ok(views)
    }
}

impl Trainer for AuditedFactorization {
    fn claim(&self) -> (ApproxDp, Gdp) {
        super::claim(&self.plan)
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

/// Releases and plan do not match: something was released that the audit would not look at, or the
/// other way round.
fn unseen(found: usize, expected: usize) -> Error {
    let name = "releases beside those that the audit looks at";
    ShapeError {
        name,
        found,
        expected,
    }
    .into()
}

/// The integer behind a dequantised value `(Y + 1/2) g`: exact while `|Y|` is below 2^50.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a released count has far fewer than 63 bits"
)]
fn integer(value: f64, grid: &Grid) -> i64 {
    (value / grid.step() - 0.5).round() as i64
}
