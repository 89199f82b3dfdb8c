//! Lists by popularity alone, where likes are too few for taste factors.

use dp_core::{Interactions, Private};
use dp_mechanism::{Error as RunError, Run};

use super::fit::shown;
use super::implicit::NoContribution;
use super::item_update::ScoreModel;
use super::model::{FactorModel, Scoring};
use super::params::MatrixFactorization;
use crate::{NoisyCounts, Result, TaskWeights, WeightTotals};

/// Likes support taste factors if `mu` times the mean released count of the items in use is at
/// least this; below it, popularity alone gives better lists.
const LEAST_LIKES: f64 = 3.2;

/// Popularity of items, on the scale of released counts, with the standard deviations of its noise.
#[derive(Clone)]
pub(super) struct Popularity {
    pub(super) values: Vec<f64>,
    pub(super) noise: Vec<f64>,
}

impl Popularity {
    pub(super) fn of(counts: &NoisyCounts) -> Self {
        Self {
            values: counts.values().to_vec(),
            noise: vec![counts.noise_stddev(); counts.values().len()],
        }
    }

    /// Combines the popularity of an item with another release of it, by the precision of their
    /// noise.
    pub(super) fn refine(&mut self, item: usize, value: f64, noise: f64) {
        let (own, other) = (self.noise[item].powi(-2), noise.powi(-2));
        self.values[item] += other / (own + other) * (value - self.values[item]);
        self.noise[item] = (own + other).sqrt().recip();
    }

    /// As counts, with the largest noise of an item.
    pub(super) fn as_counts(&self, counts: &NoisyCounts) -> Result<NoisyCounts> {
        let noise = self.noise.iter().copied().fold(0.0, f64::max);
        NoisyCounts::released_elsewhere(self.values.clone(), noise, counts.is_insecure())
    }

    /// The same in units in which the largest is 1.
    pub(super) fn relative(mut self) -> Self {
        let unit = self.values.iter().fold(1.0, |most: f64, n| most.max(*n));
        let all = self.values.iter_mut().chain(&mut self.noise);
        all.for_each(|x| *x /= unit);
        self
    }
}

impl MatrixFactorization {
    /// Whether the counts show too few likes for taste factors, so that all rounds refine the
    /// popularity of items. Applies to scores without biases if the dimension of the factors is by
    /// rule and rounds release no matrices of items. Post-processing.
    pub(super) fn falls_back_to_popularity(&self, mu: f64, counts: &NoisyCounts) -> bool {
        self.params().considers_cooccurrences() && mu * counts.mean_in_use() < LEAST_LIKES
    }

    /// Spends the rounds on popularity: instead of sums of factors, a round releases `sum_j w_ij`
    /// with `w_ij = n_j^-1/2`, which has norm 1 for every user as `C w_ij` has norm `C` in the
    /// counts. The model ranks items by the mean of both, weighted by their precision.
    pub(super) fn popularity(
        &self,
        counts: &NoisyCounts,
        data: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<FactorModel> {
        let n_items = counts.values().len();
        let weights = TaskWeights::uniform(n_items);
        let totals = WeightTotals {
            dim: 1,
            weights: &weights,
        };
        let scale = self.params().count_clip_norm;
        let mut popularity = Popularity::of(counts);
        let mut model = self.by_popularity(popularity.clone(), counts, run)?;
        run.round(&shown(0, model.item_factors(), 1));
        for round in 1..=self.params().n_rounds {
            let released = (run.vector(data, (1, 1.0), &NoContribution))
                .and_then(|_| run.vector(data, (n_items, 1.0), &totals));
            let released = match released {
                // the model of a list that ends early is that of its last complete round
                Err(RunError::EndOfList) if round > 1 && run.is_at_end()? => break,
                released => released?,
            };
            let noise = scale * released.noise_stddev();
            for (item, sum) in released.values().iter().enumerate() {
                popularity.refine(item, scale * sum, noise);
            }
            model = self.by_popularity(popularity.clone(), counts, run)?;
            run.round(&shown(round, model.item_factors(), 1));
        }
        Ok(model)
    }

    /// The model that ranks items by this popularity.
    pub(super) fn by_popularity(
        &self,
        popularity: Popularity,
        counts: &NoisyCounts,
        run: &Run<'_>,
    ) -> Result<FactorModel> {
        let scoring = Scoring {
            score_model: ScoreModel::Biased,
            ..self.params().scoring(1)
        };
        let popularity = popularity.relative();
        let model = FactorModel::new(scoring, popularity.values, run.provenance())?;
        let model = model.with_counts(Some(counts.clone()));
        model.with_standard_errors(popularity.noise)
    }
}
