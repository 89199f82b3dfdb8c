use dp_accounting::{Certificate, Plan, Spend};
use dp_core::{Interactions, Private, ShapeError, UserRow};
use dp_mechanism::{
    GramSums, Grid, NoiseSource, ReleasedGrams, ReleasedVector, vector_contribution,
};

use super::item_update::ItemUpdate;
use super::model::{FactorModel, Provenance};
use super::params::MatrixFactorization;
use super::residual_step::{KeptMatrices, RoundOn};
use super::run::{Progress, Run};
use super::state::{RoundState, TrainingState};
use crate::regression::TaskScales;
use crate::{NoisyCounts, Result, TaskWeights, WeightTotals};

/// One release of a fit, as it becomes public.
///
/// # Privacy
/// `one_user` computes what a user adds from that user's own records: whoever calls it must hold the
/// data anyway, as an audit does. Everything else is public.
#[allow(
    missing_debug_implementations,
    reason = "holds functions of private records"
)]
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Released<'a> {
    /// The item counts.
    Counts(&'a NoisyCounts),
    /// The item statistics of one round.
    Statistics {
        /// Item factors that users were described with, `(n_items, dim)` row-major: public
        /// constants or computed from earlier releases.
        factors: &'a [f64],
        /// The statistics.
        released: &'a ReleasedGrams,
    },
    /// The item factors after a round, `(n_items, dim)` row-major: computed from earlier releases.
    Round {
        /// The factors.
        factors: &'a [f64],
    },
    /// The residual sums of one round, or the total weights of the items; with implicit feedback, the Gramian
    /// of all users or the right-hand sides of one round.
    Sum {
        /// Its label in the plan.
        label: &'a str,
        /// The sum.
        released: &'a ReleasedVector,
        /// Its grid.
        grid: &'a Grid,
        /// Coordinates and integers of one user.
        one_user: &'a dyn Fn(UserRow<'_>) -> Vec<(usize, i64)>,
    },
}

/// Released factors with the certificate of the run that made them.
#[derive(Debug, Clone)]
pub struct FittedModel {
    /// The released model.
    pub model: FactorModel,
    /// What was released, under which guarantee.
    pub certificate: Certificate,
    /// The released counts, when the run made any.
    pub counts: Option<NoisyCounts>,
}

impl MatrixFactorization {
    /// Trains item factors, consuming exactly the spends of `plan`.
    ///
    /// Source: Krichene et al. 2023, Algorithm 3 with Algorithm 1 or 2 as the item update
    /// ([`ItemUpdate`]), corrected as `docs/errata.md` says: counts once; then per round a local user
    /// step, the item sums with exact noise, and a step on what was released.
    ///
    /// # Arguments
    /// * `data` - training records; `n_items` of the table must be that of the plan
    /// * `plan` - from [`plan`](Self::plan)
    /// * `spends` - from `Ledger::reserve(&plan)`, in plan order
    /// * `noise` - the operating system's, except in tests
    /// * `progress` - called after each release
    ///
    /// # Privacy
    /// The returned factors and counts are (epsilon, delta)-DP for every user under the plan's
    /// adjacency. Per-user vectors never leave the kernel's contribution buffers.
    ///
    /// # Errors
    /// [`crate::Error::Spends`] when the spends are not those of the plan, before any data is touched;
    /// [`crate::Error::Mechanism`] when a release is refused or entropy fails. Spends are consumed either
    /// way.
    pub fn fit(
        &self,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<FittedModel> {
        self.fit_watched(data, plan, spends, noise, progress, &mut |_| {})
    }

    /// [`fit`](Self::fit), showing each release to `watch` as it is made: for audits, and for
    /// keeping what was released.
    ///
    /// # Privacy
    /// As [`fit`](Self::fit): `watch` sees releases, which are covered by the guarantee.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_watched(
        &self,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        progress: &mut dyn FnMut(Progress),
        watch: &mut dyn FnMut(Released<'_>),
    ) -> Result<FittedModel> {
        let n_items = data.expose().n_items();
        self.check_plan(plan, n_items)?;
        let mut run = Run::paid(plan, spends, progress)?.watched_by(watch);
        let start = TrainingState::default();
        let state = self.train(data, start, &mut run, noise, &mut |_, _| Ok(()))?;
        let insecure = noise.is_insecure();
        self.fitted(
            state,
            run.certificate(self.assumptions(), insecure)?,
            insecure,
        )
    }

    /// Goes on from `state` to the end of the plan; `save` is called after each step.
    pub(super) fn train(
        &self,
        data: &Private<Interactions>,
        mut state: TrainingState,
        run: &mut Run<'_>,
        noise: &mut NoiseSource,
        save: &mut dyn FnMut(&TrainingState, &Run<'_>) -> Result<()>,
    ) -> Result<TrainingState> {
        let (params, n_items) = (self.params(), data.expose().n_items());
        if params.releases_counts() && state.counts.is_none() {
            let [spend] = run.next()?;
            let clip_norm = params.count_clip_norm;
            let counts = NoisyCounts::release(data, n_items, clip_norm, spend, noise)?;
            run.show(Released::Counts(&counts));
            state.counts = Some(counts);
            save(&state, run)?;
            run.report();
        }
        let weights = self.weights(n_items, state.counts.as_ref())?;
        #[cfg(privacy_mutants)]
        let weights = match &state.counts {
            Some(noisy) if dp_core::mutants::active("weights-by-the-true-n") => {
                TaskWeights::from_counts(noisy, 1.0, data.expose().n_users() as f64)?
            }
            _ => weights,
        };
        if params.weight_share().is_some() && state.scales.is_none() {
            state.scales = Some(self.release_weights(data, &weights, &state, run, noise)?);
            save(&state, run)?;
            run.report();
        }
        while state.n_rounds() < params.n_rounds {
            let rounds = match state.rounds.take() {
                Some(rounds) => rounds,
                None => self.first_round(&weights, run, state.counts.as_ref())?,
            };
            let scales = state.scales.as_ref();
            let mut rounds = self.round(data, &weights, scales, rounds, run, noise)?;
            weights.clear_others(&mut rounds.factors);
            run.show(Released::Round {
                factors: &rounds.factors,
            });
            state.rounds = Some(rounds);
            save(&state, run)?;
            run.report();
        }
        Ok(state)
    }

    /// The model that a state stands for.
    pub(super) fn fitted(
        &self,
        state: TrainingState,
        certificate: Certificate,
        insecure: bool,
    ) -> Result<FittedModel> {
        let rounds = state.rounds.ok_or(ShapeError {
            name: "rounds made",
            found: 0,
            expected: 1,
        })?;
        let provenance = if insecure {
            Provenance::SeededNoise
        } else {
            Provenance::Private
        };
        let scoring = self.params().scoring(rounds.dim);
        Ok(FittedModel {
            model: FactorModel::new(scoring, rounds.factors, provenance)?,
            certificate,
            counts: state.counts,
        })
    }

    /// The weights that users' records have, from the released counts where the settings ask for them. Post-processing.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when there is not one count for each item, or none where a head asks for them.
    pub fn weights(&self, n_items: usize, counts: Option<&NoisyCounts>) -> Result<TaskWeights> {
        let params = self.params();
        let found = counts.map_or(0, |counts| counts.values().len());
        if (counts.is_some() || params.releases_counts()) && found != n_items {
            return Err(ShapeError {
                name: "item counts",
                found,
                expected: n_items,
            }
            .into());
        }
        let weights = match counts {
            Some(counts) => {
                TaskWeights::from_counts(counts, params.weight_exponent, params.count_floor)?
            }
            None => TaskWeights::uniform(n_items),
        };
        let weights = weights.keeping(params.record_sampling.selection(counts));
        match (params.n_head(n_items), counts) {
            (Some(n_head), Some(counts)) => weights.with_head(counts, n_head),
            _ => Ok(weights),
        }
    }

    /// Releases how much weight every item has.
    fn release_weights(
        &self,
        data: &Private<Interactions>,
        weights: &TaskWeights,
        state: &TrainingState,
        run: &mut Run<'_>,
        noise: &mut NoiseSource,
    ) -> Result<TaskScales> {
        let dim = self.dim(run, state.counts.as_ref())?;
        let [spend] = run.next()?;
        let totals = WeightTotals {
            dim: self.params().score_model.coordinates(dim),
            weights,
        };
        let (label, grid) = (spend.label().to_owned(), WeightTotals::grid(&spend)?);
        let released = totals.release(data, spend, noise)?;
        let n_items = weights.omega().len();
        run.show(Released::Sum {
            label: &label,
            released: &released,
            grid: &grid,
            one_user: &|row| vector_contribution(&grid, n_items, &totals, row),
        });
        Ok(totals.scales(&released, state.counts.as_ref().map(NoisyCounts::values)))
    }

    /// The items' total weights as [`solve_items`](Self::solve_items) takes them, from their released sum: at least the standard
    /// deviation of the noise. Post-processing.
    #[must_use]
    pub fn item_weights(&self, released: &ReleasedVector) -> Vec<f64> {
        let sd = released.noise_stddev();
        released.values().iter().map(|w| w.max(sd)).collect()
    }

    /// Length of the factors as set, or by rule from what was released.
    fn dim(&self, run: &Run<'_>, counts: Option<&NoisyCounts>) -> Result<usize> {
        let params = self.params();
        Ok(match params.dim {
            Some(dim) => dim,
            None => params.rule_dim(run.plan().gdp()?.mu, counts.map(NoisyCounts::mean)),
        })
    }

    /// Factors before any round.
    fn first_round(
        &self,
        weights: &TaskWeights,
        run: &Run<'_>,
        counts: Option<&NoisyCounts>,
    ) -> Result<RoundState> {
        let n_items = weights.omega().len();
        let mut first = RoundState::new(self.params(), n_items, self.dim(run, counts)?)?;
        weights.clear_others(&mut first.factors);
        Ok(first)
    }

    /// One round: users, sums, noise, items.
    fn round(
        &self,
        data: &Private<Interactions>,
        weights: &TaskWeights,
        scales: Option<&TaskScales>,
        mut rounds: RoundState,
        run: &mut Run<'_>,
        noise: &mut NoiseSource,
    ) -> Result<RoundState> {
        if let Some(implicit) = self.params().feedback.implicit() {
            return self.implicit_round(implicit, data, weights, rounds, run, noise);
        }
        let on = RoundOn {
            data,
            weights,
            run: &mut *run,
            noise: &mut *noise,
        };
        match (&self.params().item_update, scales) {
            (ItemUpdate::NoisyGd(settings), Some(scales)) => {
                return self.gradient_round(settings, scales, rounds, on);
            }
            (ItemUpdate::Residual(settings), _)
                if rounds.n_rounds >= settings.n_statistics_rounds =>
            {
                return self.residual_round(settings, scales, rounds, on);
            }
            _ => {}
        }
        let [matrix, rhs] = run.next()?;
        let grids = self.grids(matrix.noise_multiplier()?, rhs.noise_multiplier()?)?;
        let statistics = self.statistics(rounds.dim, &rounds.factors, weights)?;
        let sums = GramSums::accumulate(data, grids, &statistics)?;
        let released = sums.release(matrix, rhs, noise)?;
        run.show(Released::Statistics {
            factors: &rounds.factors,
            released: &released,
        });
        if matches!(self.params().item_update, ItemUpdate::Residual(_)) {
            rounds.matrices = Some(KeptMatrices::of(&released));
        }
        let weights = scales.map(TaskScales::totals);
        rounds.advance(
            self.solve_items(&released, weights)?,
            grids.rhs().noise_multiplier(),
        );
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("mean-by-the-true-n") {
            let n_users = data.expose().n_users() as f64;
            rounds.factors.iter_mut().for_each(|f| *f /= n_users);
        }
        Ok(rounds)
    }

    /// The plan must list what this fit releases, for a table of this many items.
    pub(super) fn check_plan(&self, plan: &Plan, n_items: usize) -> Result<()> {
        crate::paid::check_plan(plan, &self.requests(n_items))
    }
}
