use dp_mechanism::{GramGrids, Grid, Observed, ObservedSums, ReleasedGrams, ReleasedVector, Round};
use dp_multitask::{CountContribution, FactorModel, MatrixFactorization, NoisyCounts, TaskWeights};

use super::shares::{EXACT, OneGrams, same_grams, same_vectors};
use crate::trainer::{AuditedUsers, differs, failed};
use crate::view::View;
use crate::{Oracle, Result, Watch};

/// How the label of the item counts ends.
const ITEM_COUNTS: &str = "item counts";
/// How the label of the items' total weights ends.
const ITEM_WEIGHTS: &str = "item weights";

/// Oracle for private matrix factorisation (`dp-multitask`).
///
/// Everything that the statistics of a round depend on, one matrix per item or one for all, is computed here once more, from what was
/// released and public settings: weights from the released counts, factors from the statistics of the round before. A trainer that used
/// anything private in their place has users who add something else, and is refused, to the last integer. Factors of the first round are public
/// constants, and runs of item biases alone average their rounds: both are taken as shown. Sums other than counts and statistics (of
/// implicit feedback, total weights, residuals) are taken from the trainer's own contributions.
///
/// The Gramian of all users that implicit feedback releases, a small part of the budget, is shared by the canaries of a
/// run: noise in it shifts all of their scores together, present or not, which a lower bound from both
/// error rates does not notice to first order.
#[derive(Debug, Clone)]
pub struct FactorizationOracle {
    fit: MatrixFactorization,
}

impl FactorizationOracle {
    /// For runs with these settings.
    #[must_use]
    pub const fn new(fit: MatrixFactorization) -> Self {
        Self { fit }
    }
}

impl Oracle<FactorModel> for FactorizationOracle {
    fn watch<'a>(&'a self, users: AuditedUsers<'a>) -> Box<dyn Watch<FactorModel> + 'a> {
        Box::new(Replay {
            fit: &self.fit,
            users,
            shown: Vec::new(),
            weights: TaskWeights::uniform(users.data.n_items()),
            before: None,
            item_weights: None,
        })
    }
}

/// A run made once more, release by release.
struct Replay<'a> {
    fit: &'a MatrixFactorization,
    users: AuditedUsers<'a>,
    /// The factors that the trainer says it is at.
    shown: Vec<f64>,
    weights: TaskWeights,
    /// The statistics of the round before.
    before: Option<ReleasedGrams>,
    item_weights: Option<Vec<f64>>,
}

impl Watch<FactorModel> for Replay<'_> {
    fn round(&mut self, round: &Round<'_>) {
        self.shown = round.parameters.to_vec();
    }

    fn release(&mut self, seen: &Observed<'_>) -> Result<()> {
        let label = seen.labels[0];
        match seen.sums {
            ObservedSums::Vector {
                grid,
                released,
                one_user,
            } if label.ends_with(ITEM_COUNTS) => {
                let clip_norm = self.fit.params().count_clip_norm;
                same_grid(*grid == Grid::new(seen.noise_multipliers[0], clip_norm)?)?;
                let contribution = CountContribution::new(clip_norm).map_err(failed)?;
                let n_items = self.users.data.n_items();
                same_vectors(self.users, (grid, n_items), &contribution, one_user, EXACT)?;
                let counts = NoisyCounts::of(released);
                self.weights = self.fit.weights(n_items, Some(&counts)).map_err(failed)?;
                Ok(())
            }
            ObservedSums::Vector { released, .. } => {
                self.remember(label, released);
                Ok(())
            }
            ObservedSums::Grams {
                grids,
                released,
                one_user,
            } => {
                let [of_matrix, of_rhs] = seen.noise_multipliers;
                let own = self.fit.grids(of_matrix, of_rhs).map_err(failed)?;
                same_grid(*grids == own)?;
                self.statistics(grids, released, one_user)
            }
            ObservedSums::Triangle { .. } => Err(differs("a known kind of release")),
        }
    }

    fn finish(self: Box<Self>, _: &FactorModel, _: &mut [View]) -> Result<()> {
        Ok(())
    }
}

impl Replay<'_> {
    fn remember(&mut self, label: &str, released: &ReleasedVector) {
        if label.ends_with(ITEM_WEIGHTS) {
            self.item_weights = Some(self.fit.item_weights(released));
        }
    }

    fn statistics(
        &mut self,
        grids: &GramGrids,
        released: &ReleasedGrams,
        one: OneGrams<'_>,
    ) -> Result<()> {
        let dim = released.dim();
        let mut factors = self.factors(dim)?;
        self.weights.clear_others(&mut factors);
        let statistics = self.fit.statistics(dim, &factors, &self.weights);
        let statistics = statistics.map_err(failed)?;
        same_grams(self.users, grids, &statistics, one, EXACT)?;
        self.before = Some(released.clone());
        Ok(())
    }

    /// Factors of a round from the release before it.
    fn factors(&self, dim: usize) -> Result<Vec<f64>> {
        match &self.before {
            Some(before) if dim > 1 && self.fit.params().feedback.implicit().is_none() => {
                let weights = self.item_weights.as_deref();
                self.fit.solve_items(before, weights).map_err(failed)
            }
            _ => Ok(self.shown.clone()),
        }
    }
}

fn same_grid(is_same: bool) -> Result<()> {
    if is_same {
        return Ok(());
    }
    Err(differs("grids that follow from settings and plan"))
}
