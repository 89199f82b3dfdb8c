use std::borrow::Cow;

use dp_core::{Interactions, Private, params};
use dp_mechanism::{GramGrids, Grid, Observed, ObservedSums, ReleasedGrams, ReleasedVector, Round};
use dp_multitask::{
    CountContribution, FactorModel, MatrixFactorization, NoisyCounts, RatingScale,
    ScaleContribution, TaskWeights, TunedModel, Tuning,
};

use super::shares::{EXACT, OneGrams, same_grams, same_vectors};
use crate::trainer::{AuditedUsers, differs, failed, views_of};
use crate::view::View;
use crate::{Oracle, Result, Watch};

/// The end of the label of the scale of ratings.
const RATING_SCALE: &str = "rating scale";
/// The end of the label of the item counts.
const ITEM_COUNTS: &str = "item counts";
/// The end of the label of the items' total weights.
const ITEM_WEIGHTS: &str = "item weights";

/// Oracle for private matrix factorisation (`dp-multitask`).
///
/// This oracle recomputes everything that the statistics of a round depend on (one matrix per item
/// or one for all) from releases and public settings: the scale of ratings from its release,
/// weights from the released counts, factors from the statistics of the previous round. If a
/// trainer uses anything private instead, its users contribute something else, and the oracle
/// rejects it, exact to the last integer. Factors of the first round are public constants, and runs
/// of item biases alone average their rounds: both are taken as shown. Sums other than counts and
/// statistics (for implicit feedback, total weights, residuals) are taken from the trainer's own
/// contributions.
///
/// The Gram matrix of all users that is released for implicit feedback, a small part of the budget,
/// is shared by the canaries of a run: its noise shifts all of their scores together, whether
/// present or not, which does not affect a lower bound based on both error rates to first order.
#[derive(Debug, Clone)]
pub struct FactorizationOracle {
    fit: MatrixFactorization,
}

impl FactorizationOracle {
    /// Creates an oracle for runs with these settings.
    #[must_use]
    pub const fn new(fit: MatrixFactorization) -> Self {
        Self { fit }
    }
}

impl Oracle<FactorModel> for FactorizationOracle {
    fn watch<'a>(&'a self, users: AuditedUsers<'a>) -> Box<dyn Watch<FactorModel> + 'a> {
        let users = [users.data, users.canaries].map(Cow::Borrowed);
        Box::new(Replay::new(&self.fit, users))
    }
}

/// Oracle for a choice among settings of private matrix factorisation ([`Tuning`]).
///
/// Every candidate must satisfy what [`FactorizationOracle`] requires of a run, on the records that
/// candidates are trained on, and the choice has to follow from the released scores. What users
/// contribute to the scores is taken from the trainer's own contributions.
#[derive(Debug, Clone)]
pub struct TuningOracle {
    tuning: Tuning,
}

impl TuningOracle {
    /// Creates an oracle for runs with these candidates.
    #[must_use]
    pub const fn new(tuning: Tuning) -> Self {
        Self { tuning }
    }
}

impl Oracle<TunedModel> for TuningOracle {
    fn watch<'a>(&'a self, users: AuditedUsers<'a>) -> Box<dyn Watch<TunedModel> + 'a> {
        let part = |table: &Interactions| -> Result<_> {
            let table = Private::new(table.clone());
            let part = self.tuning.training_part(&table).map_err(failed)?;
            Ok(Cow::Owned(part.into_exposed()))
        };
        let candidates = self.tuning.candidates();
        let first = candidates.first().ok_or_else(|| differs("candidates"));
        let replay = first.and_then(|fit| {
            let training = [part(users.data)?, part(users.canaries)?];
            Ok(Replay::new(fit, training))
        });
        Box::new(Choice {
            candidates,
            all: users,
            replay,
            at: 0,
            views: Vec::new(),
            scores: Vec::new(),
        })
    }

    /// Candidates and scores read different records of a user.
    fn trusts_contributions(&self) -> bool {
        false
    }
}

/// One candidate after the other, then the scores.
struct Choice<'a> {
    candidates: &'a [MatrixFactorization],
    all: AuditedUsers<'a>,
    /// The current candidate, on the records that it is trained on; the error of the first release
    /// if these cannot be computed.
    replay: Result<Replay<'a>>,
    at: usize,
    /// Includes what users contribute.
    views: Vec<View>,
    scores: Vec<f64>,
}

impl Watch<TunedModel> for Choice<'_> {
    fn round(&mut self, round: &Round<'_>) {
        if let Ok(replay) = &mut self.replay {
            Watch::<FactorModel>::round(replay, round);
        }
    }

    fn release(&mut self, seen: &Observed<'_>) -> Result<()> {
        let candidate = seen.labels[0].strip_prefix("candidate ");
        let number = candidate.and_then(|rest| rest.split_once(": "));
        let Some(number) = number.and_then(|(number, _)| number.parse::<usize>().ok()) else {
            if let ObservedSums::Vector { released, .. } = seen.sums {
                self.scores = released.values();
            }
            self.views.extend(views_of(seen, Some(self.all))?);
            return Ok(());
        };
        let replay = match &mut self.replay {
            Ok(replay) => replay,
            Err(error) => return Err(std::mem::replace(error, differs("candidates"))),
        };
        if number != self.at {
            let fit = self.candidates.get(number.saturating_sub(1));
            replay.start(fit.ok_or_else(|| differs("candidates"))?);
            self.at = number;
        }
        self.views.extend(views_of(seen, Some(replay.users()))?);
        Watch::<FactorModel>::release(replay, seen)
    }

    fn finish(self: Box<Self>, model: &TunedModel, views: &mut [View]) -> Result<()> {
        let best =
            (0..self.scores.len()).min_by(|&a, &b| self.scores[a].total_cmp(&self.scores[b]));
        if model.scores != self.scores || best != Some(model.chosen) {
            return Err(differs("a choice that follows from the scores"));
        }
        params::same_size("releases seen", self.views.len(), views.len())?;
        for (view, filled) in views.iter_mut().zip(self.views) {
            (view.exact, view.canaries) = (filled.exact, filled.canaries);
        }
        Ok(())
    }
}

/// A run that is recomputed release by release.
struct Replay<'a> {
    fit: Cow<'a, MatrixFactorization>,
    scale: Option<RatingScale>,
    /// All participants, and all canaries.
    tables: [Cow<'a, Interactions>; 2],
    /// The factors of the last round, and the length of a row.
    shown: (Vec<f64>, usize),
    weights: TaskWeights,
    /// The statistics of the previous round.
    before: Option<ReleasedGrams>,
    item_weights: Option<Vec<f64>>,
}

impl Watch<FactorModel> for Replay<'_> {
    fn round(&mut self, round: &Round<'_>) {
        self.shown = (round.parameters.to_vec(), round.shape.1);
    }

    fn release(&mut self, seen: &Observed<'_>) -> Result<()> {
        let label = seen.labels[0];
        match seen.sums {
            ObservedSums::Vector {
                grid,
                released,
                one_user,
            } if label.ends_with(RATING_SCALE) => {
                let clip_norm = ScaleContribution::CLIP_NORM;
                same_grid(*grid == Grid::new(seen.noise_multipliers[0], clip_norm)?)?;
                let shape = (grid, ScaleContribution::LEN);
                same_vectors(self.users(), shape, &ScaleContribution, one_user, EXACT)?;
                let scale = self.fit.scale_from(released);
                self.fit = Cow::Owned(self.fit.at_scale(&scale));
                self.scale = Some(scale);
                Ok(())
            }
            ObservedSums::Vector {
                grid,
                released,
                one_user,
            } if label.ends_with(ITEM_COUNTS) => {
                let clip_norm = self.fit.params().count_clip_norm;
                same_grid(*grid == Grid::new(seen.noise_multipliers[0], clip_norm)?)?;
                let contribution = CountContribution::new(clip_norm).map_err(failed)?;
                let n_items = self.users().data.n_items();
                same_vectors(
                    self.users(),
                    (grid, n_items),
                    &contribution,
                    one_user,
                    EXACT,
                )?;
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

    fn finish(self: Box<Self>, model: &FactorModel, _: &mut [View]) -> Result<()> {
        let own = [self.fit.params().label_center, model.scoring().bias.center];
        if own[0].to_bits() != own[1].to_bits() || model.scale() != self.scale.as_ref() {
            return Err(differs("a scale that follows from its release"));
        }
        Ok(())
    }
}

impl<'a> Replay<'a> {
    fn new(fit: &'a MatrixFactorization, tables: [Cow<'a, Interactions>; 2]) -> Self {
        Self {
            fit: Cow::Borrowed(fit),
            scale: None,
            shown: (Vec::new(), 1),
            weights: TaskWeights::uniform(tables[0].n_items()),
            tables,
            before: None,
            item_weights: None,
        }
    }

    /// Starts another run on the same tables. Its first factors may have been shown already.
    fn start(&mut self, fit: &'a MatrixFactorization) {
        self.fit = Cow::Borrowed(fit);
        self.weights = TaskWeights::uniform(self.tables[0].n_items());
        (self.scale, self.before, self.item_weights) = (None, None, None);
    }

    fn users(&self) -> AuditedUsers<'_> {
        let [data, canaries] = &self.tables;
        AuditedUsers { data, canaries }
    }

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
        same_grams(self.users(), grids, &statistics, one, EXACT)?;
        self.before = Some(released.clone());
        Ok(())
    }

    /// Factors of a round, computed from the previous release.
    fn factors(&self, dim: usize) -> Result<Vec<f64>> {
        match &self.before {
            Some(before) if dim > 1 && self.fit.params().feedback.implicit().is_none() => {
                let weights = self.item_weights.as_deref();
                self.fit.solve_items(before, weights).map_err(failed)
            }
            _ => Ok(self.fit.without_effects(&self.shown.0, self.shown.1)),
        }
    }
}

fn same_grid(is_same: bool) -> Result<()> {
    if is_same {
        return Ok(());
    }
    Err(differs("grids that follow from settings and plan"))
}
