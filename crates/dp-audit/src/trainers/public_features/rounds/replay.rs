//! A run made once more.

use dp_core::{Interactions, UserRow};
use dp_mechanism::{
    Grid, Observed, ObservedSums, ReleasedVector, VectorContribution, vector_contribution,
};
use dp_pubfeat::{
    ExampleWeights, LikesContribution, ProblemSetup, RoundContribution, TotalsContribution,
};

use super::FeatureRounds;
use super::items::{Likes, Residuals, Round, Totals, constant};
use super::prior::Features;
use crate::Result;
use crate::trainers::failed;
use crate::trainers::public_features::replay::{differs, same_within};

/// Of a bound: what equal formulas may differ by, since solves end at a residual of 1e-5. In some forty runs of the audits the
/// largest difference was a 5,600th.
const ROOM: u64 = 1_000;

type OneVector<'a> = &'a dyn Fn(UserRow<'_>) -> Vec<(usize, i64)>;

/// What rounds are learned with, once the totals are there.
enum Learner<'a> {
    Residuals(Residuals<'a>),
    Likes(Likes<'a>),
}

pub(super) struct Replay<'a> {
    fit: &'a FeatureRounds,
    features: &'a Features,
    /// Users and canaries.
    tables: [&'a Interactions; 2],
    learner: Option<(Totals, Learner<'a>)>,
    /// Per unit of constant, shape `(m, d)`.
    vectors: Vec<f64>,
    outcome: Result<()>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        fit: &'a FeatureRounds,
        features: &'a Features,
        tables: [&'a Interactions; 2],
    ) -> Self {
        let n_items = features.n_items();
        let vectors = match fit {
            FeatureRounds::Ratings(fit) => fit.initial_vectors(n_items),
            FeatureRounds::Likes(fit) => fit.initial_vectors(n_items),
        };
        Self {
            fit,
            features,
            tables,
            learner: None,
            vectors,
            outcome: Ok(()),
        }
    }

    /// Takes in one release; after a first failure nothing more.
    pub(super) fn look(&mut self, seen: &Observed<'_>) {
        if self.outcome.is_ok() {
            self.outcome = match &seen.sums {
                ObservedSums::Vector {
                    grid,
                    released,
                    one_user,
                } => self.vector(grid, released, *one_user),
                _ => Err(differs("vectors and nothing else")),
            };
        }
    }

    /// The model of the trainer has to be that of the replay.
    pub(super) fn finish(self, vectors: &[f64]) -> Result<()> {
        let own = self.with_biases();
        self.outcome?;
        dp_core::params::same_size("item vectors", vectors.len(), own.len())?;
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= (1.0 + b.abs()) / ROOM as f64;
        if vectors.iter().zip(&own).all(near) {
            return Ok(());
        }
        Err(differs("item vectors that follow from the releases"))
    }

    fn settings(&self) -> (usize, f64, &'a ExampleWeights) {
        match self.fit {
            FeatureRounds::Ratings(fit) => {
                let params = fit.params();
                (params.dim, params.taste_norm, &params.weights)
            }
            FeatureRounds::Likes(fit) => {
                let params = fit.params();
                (params.dim, params.taste_norm, &params.weights)
            }
        }
    }

    /// Rows `[h_j, q_j]`.
    fn with_biases(&self) -> Vec<f64> {
        let (dim, taste_norm, _) = self.settings();
        let mut rows = self.vectors.clone();
        let a = constant(dim, taste_norm);
        rows.iter_mut().step_by(dim).for_each(|v| *v *= a);
        rows
    }

    fn vector(&mut self, grid: &Grid, released: &ReleasedVector, one: OneVector<'_>) -> Result<()> {
        match self.learner.take() {
            None => self.totals(grid, released, one),
            Some((totals, learner)) => self.round((grid, released, one), totals, learner),
        }
    }

    fn totals(&mut self, grid: &Grid, released: &ReleasedVector, one: OneVector<'_>) -> Result<()> {
        let (dim, _, weights) = self.settings();
        let setup = &ProblemSetup {
            weights: weights.clone(),
            ..ProblemSetup::new(dim, 1.0)
        };
        let n_items = self.features.n_items();
        self.same(
            (grid, released),
            &TotalsContribution { setup, n_items },
            one,
        )?;
        let totals = Totals::new(released);
        let learner = match self.fit {
            FeatureRounds::Ratings(fit) => {
                Learner::Residuals(Residuals::new(fit.params(), self.features, &totals)?)
            }
            FeatureRounds::Likes(fit) => {
                Learner::Likes(Likes::new(fit.params(), self.features, &totals))
            }
        };
        self.learner = Some((totals, learner));
        Ok(())
    }

    fn round(
        &mut self,
        (grid, released, one): (&Grid, &ReleasedVector, OneVector<'_>),
        totals: Totals,
        mut learner: Learner<'a>,
    ) -> Result<()> {
        let rows = self.with_biases();
        let at = std::mem::take(&mut self.vectors);
        self.vectors = match (&mut learner, self.fit) {
            (Learner::Residuals(residuals), FeatureRounds::Ratings(fit)) => {
                let bound = fit.params().bound.at(residuals.n_rounds() + 1);
                let contribution = RoundContribution {
                    params: fit.params(),
                    item_vectors: &rows,
                    bound,
                };
                self.same((grid, released), &contribution, one)?;
                residuals.learn(Round::new(released, &totals, bound, at)?)?
            }
            (Learner::Likes(likes), FeatureRounds::Likes(fit)) => {
                let contribution = LikesContribution::new(fit.params(), &rows);
                self.same((grid, released), &contribution.map_err(failed)?, one)?;
                likes.learn(&Round::new(released, &totals, 1.0, at)?)?
            }
            _ => return Err(differs("a learner of the fit's kind")),
        };
        self.learner = Some((totals, learner));
        Ok(())
    }

    fn same<C: VectorContribution>(
        &self,
        (grid, released): (&Grid, &ReleasedVector),
        contribution: &C,
        one: OneVector<'_>,
    ) -> Result<()> {
        for row in self.tables.into_iter().flat_map(Interactions::users) {
            let expected = vector_contribution(grid, released.len(), contribution, row);
            same_within(&one(row), &expected, grid.l2_bound() / ROOM + 2)?;
        }
        Ok(())
    }
}
