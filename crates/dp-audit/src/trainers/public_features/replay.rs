//! What users have to add, from settings and releases alone.

use dp_core::{Interactions, ShapeError, UserRow};
use dp_mechanism::{
    FactorContribution, GramContribution, GramGrids, Grid, Observed, ObservedSums, ReleasedGrams,
    ReleasedVector, VectorContribution, gram_contribution, vector_contribution,
};
use dp_pubfeat::{
    CurvatureContribution, ItemStatistics, Logistic, RatingStatistics, ResidualContribution,
    SspContribution, StatisticsLearner, TotalsContribution,
};

use super::PublicFeatures;
use super::pooled::Pooled;
use crate::kernel::gram_entries;
use crate::trainers::failed;
use crate::view::Entries;
use crate::{Error, Result};

type OneVector<'a> = &'a dyn Fn(UserRow<'_>) -> Vec<(usize, i64)>;
type OneGrams<'a> = &'a dyn Fn(UserRow<'_>) -> dp_mechanism::Result<GramContribution>;

/// A run made once more, release by release.
pub(super) struct Replay<'a, L> {
    fit: &'a PublicFeatures,
    learner: L,
    /// Users and canaries.
    tables: [&'a Interactions; 2],
    pooled: Pooled,
    outcome: Result<()>,
}

impl<'a, L: StatisticsLearner> Replay<'a, L> {
    pub(super) fn new(fit: &'a PublicFeatures, learner: L, tables: [&'a Interactions; 2]) -> Self {
        Self {
            fit,
            pooled: Pooled::new(learner.dim()),
            learner,
            tables,
            outcome: Ok(()),
        }
    }

    /// Takes in one release; after a first failure nothing more.
    pub(super) fn look(&mut self, seen: Observed<'_>) {
        if self.outcome.is_ok() {
            self.outcome = match seen.sums {
                ObservedSums::Grams {
                    grids,
                    released,
                    one_user,
                } => self.grams(grids, released, one_user),
                ObservedSums::Vector {
                    grid,
                    released,
                    one_user,
                } => self.vector(grid, released, one_user),
                ObservedSums::Triangle { .. } => Err(differs("a known kind of release")),
            };
        }
    }

    /// The model of the trainer has to be that of the replay.
    pub(super) fn finish(self, vectors: &[f64]) -> Result<()> {
        self.outcome?;
        let own = self.learner.item_vectors().map_err(failed)?;
        dp_core::params::same_size("item vectors", vectors.len(), own.len())?;
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * (1.0 + b.abs());
        if vectors.iter().zip(&own).all(near) {
            return Ok(());
        }
        Err(differs("item vectors that follow from the releases"))
    }

    fn vectors(&self) -> Result<Vec<f64>> {
        self.learner.item_vectors().map_err(failed)
    }

    fn grams(
        &mut self,
        grids: &GramGrids,
        released: &ReleasedGrams,
        one: OneGrams<'_>,
    ) -> Result<()> {
        let v = self.vectors()?;
        match self.fit {
            PublicFeatures::Ssp(fit) => {
                let contribution = SspContribution::new(&fit.params().setup);
                self.same_grams(grids, &contribution, one)?;
                self.learn(&statistics(released)?)
            }
            PublicFeatures::AmSsp(fit) => {
                let contribution = RatingStatistics {
                    setup: &fit.params().setup,
                    user_step: &fit.params().user_step,
                    item_vectors: &v,
                };
                self.same_grams(grids, &contribution, one)?;
                self.learn(&statistics(released)?)
            }
            PublicFeatures::Logistic(fit) => {
                let (setup, most) = (&fit.params().setup, fit.params().slope_norm);
                let contribution = CurvatureContribution::new(setup, &Logistic, &v, most);
                self.same_grams(grids, &contribution.map_err(failed)?, one)?;
                let quadratic = around(&statistics(released)?, &v)?;
                self.learn(&quadratic)
            }
            PublicFeatures::Residual(fit) => {
                let contribution = SspContribution::new(&fit.params().setup);
                self.same_grams(grids, &contribution, one)?;
                self.pooled.matrix(released)?;
                let stddev = released.rhs_noise_stddev();
                let rhs = right_hand_sides(released);
                let statistics = self.pooled.observe(&v, &rhs, stddev, true)?;
                self.learn(&statistics)
            }
        }
    }

    fn vector(&mut self, grid: &Grid, released: &ReleasedVector, one: OneVector<'_>) -> Result<()> {
        let PublicFeatures::Residual(fit) = self.fit else {
            return Err(differs("statistics and nothing else"));
        };
        let (setup, n) = (&fit.params().setup, released.len());
        let n_items = self.learner.n_items();
        if !self.pooled.has_totals() {
            self.same_vector((grid, n), &TotalsContribution { setup, n_items }, one)?;
            self.pooled.totals(released);
            return Ok(());
        }
        let v = self.vectors()?;
        let contribution = ResidualContribution {
            setup,
            item_vectors: &v,
            bound: fit.params().bound.at(self.pooled.n_observed() + 1),
        };
        self.same_vector((grid, n), &contribution, one)?;
        let (values, stddev) = (released.values(), released.noise_stddev());
        let forget = fit.params().forget;
        let statistics = self.pooled.observe(&v, &values, stddev, forget)?;
        self.learn(&statistics)
    }

    fn learn(&mut self, statistics: &ItemStatistics) -> Result<()> {
        self.learner.learn(statistics).map_err(failed)
    }

    fn rows(&self) -> impl Iterator<Item = UserRow<'a>> + use<'a, L> {
        self.tables.into_iter().flat_map(Interactions::users)
    }

    fn same_grams<C: FactorContribution>(
        &self,
        grids: &GramGrids,
        contribution: &C,
        one: OneGrams<'_>,
    ) -> Result<()> {
        let dim = contribution.dim();
        let bounds = [grids.matrix().l2_bound(), grids.rhs().l2_bound()];
        for row in self.rows() {
            let found = gram_entries(&one(row)?, dim);
            let expected = gram_entries(&gram_contribution(grids, contribution, row)?, dim);
            same(&found.0, &expected.0, bounds[0])?;
            same(&found.1, &expected.1, bounds[1])?;
        }
        Ok(())
    }

    fn same_vector<C: VectorContribution>(
        &self,
        (grid, n): (&Grid, usize),
        contribution: &C,
        one: OneVector<'_>,
    ) -> Result<()> {
        for row in self.rows() {
            let expected = vector_contribution(grid, n, contribution, row);
            same(&one(row), &expected, grid.l2_bound())?;
        }
        Ok(())
    }
}

/// Equal but for a few roundings: a millionth of the bound.
pub(super) fn same(found: &Entries, expected: &Entries, bound: u64) -> Result<()> {
    same_within(found, expected, bound / 1_000_000 + 2)
}

/// Equal but for `room`.
pub(super) fn same_within(found: &Entries, expected: &Entries, room: u64) -> Result<()> {
    let value = |entries: &Entries, at: usize| match entries.binary_search_by_key(&at, |e| e.0) {
        Ok(place) => entries[place].1,
        Err(_) => 0,
    };
    let near = |&(at, _): &(usize, i64)| value(found, at).abs_diff(value(expected, at)) <= room;
    if found.iter().chain(expected).all(near) {
        return Ok(());
    }
    Err(differs(
        "users' shares that follow from settings and earlier releases",
    ))
}

pub(super) fn differs(name: &'static str) -> Error {
    let (found, expected) = (0, 1);
    ShapeError {
        name,
        found,
        expected,
    }
    .into()
}

/// What was released, per item.
fn statistics(released: &ReleasedGrams) -> Result<ItemStatistics> {
    let (dim, n_items) = (released.dim(), released.n_items());
    let (mut matrices, mut b) = (vec![0.0; n_items * dim * dim], vec![0.0; dim]);
    for (item, matrix) in matrices.chunks_exact_mut(dim * dim).enumerate() {
        released.write_item(item, matrix, &mut b);
    }
    let noise = [released.matrix_noise_stddev(), released.rhs_noise_stddev()];
    ItemStatistics::new(dim, matrices, right_hand_sides(released), noise).map_err(failed)
}

fn right_hand_sides(released: &ReleasedGrams) -> Vec<f64> {
    let (dim, n_items) = (released.dim(), released.n_items());
    let (mut matrix, mut rhs) = (vec![0.0; dim * dim], vec![0.0; n_items * dim]);
    for (item, b) in rhs.chunks_exact_mut(dim).enumerate() {
        released.write_item(item, &mut matrix, b);
    }
    rhs
}

/// Curvatures and slopes at `v` as a quadratic: `A = PSD(H)`, `b = A v - g`.
fn around(slopes: &ItemStatistics, v: &[f64]) -> Result<ItemStatistics> {
    let (dim, mut curved) = (slopes.dim(), slopes.clone());
    curved.project_psd().map_err(failed)?;
    let (mut matrices, mut rhs) = (Vec::new(), Vec::new());
    for (item, v) in v.chunks_exact(dim).enumerate() {
        let matrix = curved.matrix(item);
        for (row, g) in matrix.chunks_exact(dim).zip(slopes.rhs(item)) {
            rhs.push(row.iter().zip(v).map(|(a, v)| a * v).sum::<f64>() - g);
        }
        matrices.extend_from_slice(matrix);
    }
    ItemStatistics::new(dim, matrices, rhs, slopes.noise_stddevs()).map_err(failed)
}
