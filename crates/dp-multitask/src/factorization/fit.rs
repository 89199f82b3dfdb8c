use std::collections::VecDeque;

use dp_accounting::{Certificate, Plan, ReleaseRecord, Spend};
use dp_core::{Interactions, Private, ShapeError};
use dp_mechanism::{GramSums, NoiseSource, ReleasedGrams};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, Normal};

use super::model::{FactorModel, Provenance};
use super::params::{FactorizationParams, MatrixFactorization};
use crate::{Error, NoisyCounts, Result, TaskWeights};

/// How far a fit has come. Depends on public settings only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Releases made so far.
    pub done: usize,
    /// Releases of the whole plan.
    pub total: usize,
}

/// One release of a fit, as it becomes public.
#[derive(Debug, Clone, Copy)]
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
    /// Source: Krichene et al. 2023, Algorithm 3 with Algorithm 1 as the item update, corrected as
    /// `docs/errata.md` says: counts once; then per round a local user step, the item statistics
    /// with exact noise, and the solve on what was released.
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
    /// [`Error::Spends`] when the spends are not those of the plan, before any data is touched;
    /// [`Error::Mechanism`] when a release is refused or entropy fails. Spends are consumed either
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
        let mut run = Run::start(plan, spends, data.expose().n_items(), self, progress)?;
        run.watch = Some(watch);
        let (weights, counts) = self.weights(data, &mut run, noise)?;
        #[cfg(privacy_mutants)]
        let weights = match &counts {
            Some(noisy) if dp_core::mutants::active("weights-by-the-true-n") => {
                TaskWeights::from_counts(noisy, 1.0, data.expose().n_users() as f64)?
            }
            _ => weights,
        };
        let dim = self.choose_dim(plan, counts.as_ref())?;
        let mut state = RoundState::new(self.params(), run.n_items, dim)?;
        for _ in 0..self.params().n_rounds {
            self.round(data, &weights, &mut state, &mut run, noise)?;
        }
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("mean-by-the-true-n") {
            let n_users = data.expose().n_users() as f64;
            state.factors.iter_mut().for_each(|f| *f /= n_users);
        }
        let provenance = if noise.is_insecure() {
            Provenance::SeededNoise
        } else {
            Provenance::Private
        };
        let certificate = run.certificate(self.assumptions(), noise.is_insecure())?;
        Ok(FittedModel {
            model: FactorModel::new(self.params().scoring(dim), state.factors, provenance)?,
            certificate,
            counts,
        })
    }

    fn weights(
        &self,
        data: &Private<Interactions>,
        run: &mut Run<'_>,
        noise: &mut NoiseSource,
    ) -> Result<(TaskWeights, Option<NoisyCounts>)> {
        let params = self.params();
        if !params.releases_counts() {
            return Ok((TaskWeights::uniform(run.n_items), None));
        }
        let spend = run.next_spend()?;
        let counts = NoisyCounts::release(data, run.n_items, params.count_clip_norm, spend, noise)?;
        run.report();
        run.show(Released::Counts(&counts));
        let weights =
            TaskWeights::from_counts(&counts, params.weight_exponent, params.count_floor)?;
        Ok((weights, Some(counts)))
    }

    /// The length of the factors: as set, or by rule from what was released.
    fn choose_dim(&self, plan: &Plan, counts: Option<&NoisyCounts>) -> Result<usize> {
        let params = self.params();
        let mean = counts.map(NoisyCounts::mean);
        Ok(match params.dim {
            Some(dim) => dim,
            None => params.rule_dim(plan.gdp()?.mu, mean),
        })
    }

    /// One round: users, sums, noise, items.
    fn round(
        &self,
        data: &Private<Interactions>,
        weights: &TaskWeights,
        state: &mut RoundState,
        run: &mut Run<'_>,
        noise: &mut NoiseSource,
    ) -> Result<()> {
        let (matrix, rhs) = (run.next_spend()?, run.next_spend()?);
        let grids = self.grids(matrix.noise_multiplier()?, rhs.noise_multiplier()?)?;
        let statistics = self.statistics(state.dim, &state.factors, weights)?;
        let sums = GramSums::accumulate(data, grids, &statistics)?;
        let released = sums.release(matrix, rhs, noise)?;
        run.report();
        run.show(Released::Statistics {
            factors: &state.factors,
            released: &released,
        });
        state.advance(self.solve_items(&released)?, grids.rhs().noise_multiplier());
        Ok(())
    }
}

/// Item factors as they stand after the rounds so far. Everything in it was released.
struct RoundState {
    dim: usize,
    factors: Vec<f64>,
    /// Sum of the inverse noise variances of the rounds so far.
    precision: f64,
}

impl RoundState {
    fn new(params: &FactorizationParams, n_items: usize, dim: usize) -> Result<Self> {
        Ok(Self {
            dim,
            factors: initial_factors(n_items, dim, params.init_stddev, params.init_seed)?,
            precision: 0.0,
        })
    }

    /// Takes over a round's factors. Item biases alone do not depend on how users were described
    /// in the round, so rounds are averaged by their precision; tastes are those of the last round.
    fn advance(&mut self, solved: Vec<f64>, noise_multiplier: f64) {
        let precision = noise_multiplier.powi(-2);
        self.precision += precision;
        if self.dim > 1 {
            self.factors = solved;
            return;
        }
        let share = precision / self.precision;
        for (average, new) in self.factors.iter_mut().zip(solved) {
            *average += share * (new - *average);
        }
    }
}

/// Rows `[0, q_i]` with `q_i` normal, shape `(n_items, dim)`.
pub(crate) fn initial_factors(
    n_items: usize,
    dim: usize,
    stddev: f64,
    seed: u64,
) -> Result<Vec<f64>> {
    let normal = Normal::new(0.0, stddev).map_err(|_| dp_core::ParamError {
        name: "init_stddev",
        value: stddev,
        expected: "a finite number above 0",
    })?;
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    Ok((0..n_items * dim)
        .map(|at| {
            if at % dim == 0 {
                0.0
            } else {
                normal.sample(&mut rng)
            }
        })
        .collect())
}

/// The spends of one run, handed out in plan order.
struct Run<'a> {
    plan: &'a Plan,
    n_items: usize,
    spends: VecDeque<Spend>,
    records: Vec<ReleaseRecord>,
    data_set_id: String,
    progress: &'a mut dyn FnMut(Progress),
    watch: Option<&'a mut dyn FnMut(Released<'_>)>,
}

impl<'a> Run<'a> {
    /// Checks that plan and spends are those of this fit, before any data is touched.
    fn start(
        plan: &'a Plan,
        spends: Vec<Spend>,
        n_items: usize,
        fit: &MatrixFactorization,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Result<Self> {
        fit.check_plan(plan, n_items)?;
        let mismatch = plan.releases().iter().enumerate().find(|(at, planned)| {
            spends.get(*at).is_none_or(|spend| {
                spend.label() != planned.label()
                    || spend.event() != planned.event()
                    || spend.data_set_id() != spends[0].data_set_id()
            })
        });
        if mismatch.is_some() || spends.len() != plan.releases().len() {
            return Err(Error::Spends {
                expected: plan.releases().len(),
                found: spends.len(),
                label: mismatch.map_or_else(String::new, |(_, planned)| planned.label().to_owned()),
            });
        }
        Ok(Self {
            plan,
            n_items,
            data_set_id: spends
                .first()
                .map_or_else(String::new, |spend| spend.data_set_id().to_owned()),
            records: spends.iter().map(Spend::record).collect(),
            spends: spends.into(),
            progress,
            watch: None,
        })
    }

    fn next_spend(&mut self) -> Result<Spend> {
        self.spends.pop_front().ok_or_else(|| Error::Spends {
            expected: self.plan.releases().len(),
            found: self.records.len(),
            label: "past the end of the plan".to_owned(),
        })
    }

    fn show(&mut self, released: Released<'_>) {
        if let Some(watch) = &mut self.watch {
            watch(released);
        }
    }

    fn report(&mut self) {
        let total = self.records.len();
        (self.progress)(Progress {
            done: total - self.spends.len(),
            total,
        });
    }

    fn certificate(self, assumptions: &[String], insecure: bool) -> Result<Certificate> {
        #[cfg(privacy_mutants)]
        let insecure = dp_core::mutants::pick("seeded-noise-unmarked", insecure, false);
        let mut builder = Certificate::builder(self.plan, self.data_set_id)
            .releases(self.records)
            .released_output("item factors, noisy item counts, settings", "anyone")
            .assumption("one person has one user id")
            .assumption("settings were not chosen by looking at this data set (the rules behind the defaults come from MovieLens-1M)")
            .not_covered("personal models: each is seen by its own user only (joint DP)")
            .not_covered("internal report: accuracy and data-handling counts")
            .not_covered("total running time")
            .tuning_included(false);
        for assumption in assumptions {
            builder = builder.assumption(assumption.as_str());
        }
        if insecure {
            builder = builder.not_private("seeded noise");
        }
        Ok(builder.build()?)
    }
}

impl MatrixFactorization {
    /// The plan must list what this fit releases, for a table of this many items.
    fn check_plan(&self, plan: &Plan, n_items: usize) -> Result<()> {
        let wanted = super::plan::requests(self.params(), n_items);
        let fits = wanted.len() == plan.releases().len()
            && wanted
                .iter()
                .zip(plan.releases())
                .all(|(request, planned)| {
                    request.label == planned.label() && request.n_draws == planned.n_draws()
                });
        if fits {
            return Ok(());
        }
        Err(Error::Shape(ShapeError {
            name: "plan (made for other settings or another number of items)",
            found: plan.releases().len(),
            expected: wanted.len(),
        }))
    }
}
