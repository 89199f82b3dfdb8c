//! Runs, by whichever way in.

use dp_accounting::{Plan, Spend};
use dp_core::{Private, params};
use dp_mechanism::NoiseSource;
use rand::Rng;

use super::round::{LocalStates, RoundWork};
use super::sum_source::SumSource;
use super::{FittedPpSgd, LocalModels, LocalStep, PpSgd, Provenance, RoundEnd, Run, SharedModel};
use crate::objective::PersonalizedObjective;
use crate::paid::Paid;
use crate::watch::{ObservedRound, RoundWatch, Watch};
use crate::{Result, UserBatches};

/// Sees every round, and says whether it was the last.
type Stop<'a> = dyn FnMut(ObservedRound<'_>) -> bool + 'a;

impl PpSgd {
    /// Trains, consuming exactly the spends of `plan`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`], [`crate::Error::Spends`] or [`crate::Error::Param`] when objective, data, plan and spends do not belong together, before
    /// any data is touched; [`crate::Error::Mechanism`] when a release is refused or entropy fails. Spends are consumed either way.
    pub fn fit<O: PersonalizedObjective, B: UserBatches>(
        &self,
        objective: &O,
        data: &B,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
    ) -> Result<FittedPpSgd> {
        let never = &mut |_: ObservedRound<'_>| false;
        self.run(objective, data, plan, spends, noise, (&mut |_| {}, never))
    }

    /// [`fit`](Self::fit), showing each release to `watch` as it is made: for audits.
    ///
    /// # Errors
    /// Those of [`fit`](Self::fit).
    pub fn fit_watched<'w, O: PersonalizedObjective, B: UserBatches>(
        &self,
        objective: &O,
        data: &B,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        watch: &'w mut Watch<'w>,
    ) -> Result<FittedPpSgd> {
        let never = &mut |_: ObservedRound<'_>| false;
        self.run(objective, data, plan, spends, noise, (watch, never))
    }

    /// [`fit`](Self::fit), asking `stop` after every round whether it was the last: see
    /// [`PublicEarlyStopping`](crate::PublicEarlyStopping).
    ///
    /// # Privacy
    /// `stop` sees released values. It may use those and public data, nothing else. What was paid for rounds not made stays paid.
    ///
    /// # Errors
    /// Those of [`fit`](Self::fit).
    pub fn fit_until<O: PersonalizedObjective, B: UserBatches>(
        &self,
        objective: &O,
        data: &B,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        stop: &mut dyn FnMut(RoundEnd<'_>) -> bool,
    ) -> Result<FittedPpSgd> {
        let stop = &mut |round: ObservedRound<'_>| stop(round.end);
        self.run(objective, data, plan, spends, noise, (&mut |_| {}, stop))
    }

    /// [`fit`](Self::fit), showing every round that is over to `watch` with users' own parameters: for measurements. Of
    /// `alpha = 0`, which releases nothing, it shows the rounds as well.
    ///
    /// # Privacy
    /// The fit is covered as always. What `watch` makes of local parameters and private data is not: see [`ObservedRound`].
    ///
    /// # Errors
    /// Those of [`fit`](Self::fit).
    ///
    /// # Examples
    /// ```
    /// use dp_accounting::{Budget, Ledger};
    /// use dp_core::{Adjacency, UserSamplesBuilder};
    /// use dp_fedsgd::{AdditiveLoss, AdditiveModel, HeldBatches, ObservedRound, PpSgdParams};
    /// use dp_mechanism::NoiseSource;
    ///
    /// let mut users = UserSamplesBuilder::new(1, 4)?;
    /// for user in 0..100 {
    ///     users.push(user, &[1.0], 3.0)?;
    /// }
    /// let samples = users.build().0;
    /// let (model, rows) = (AdditiveModel::new(AdditiveLoss::Squared, 1)?, HeldBatches::new(&samples, 4)?);
    /// let fit = PpSgdParams::new(1.0, 0.1, 1.0, 8, 100.0).check()?;
    /// let plan = fit.plan_with_noise(1, 1.0, 1e-6, Adjacency::AddRemoveUser)?;
    /// let budget = Budget::new(plan.target(), plan.adjacency())?;
    /// let spends = Ledger::in_memory("made data", budget)?.reserve(&plan)?;
    /// let mut errors = Vec::new();
    /// let mut watch = |round: ObservedRound<'_>| {
    ///     errors.push((3.0 - round.end.shared[0] - (round.local)(0)[0]).abs());
    /// };
    /// let noise = &mut NoiseSource::operating_system();
    /// fit.fit_rounds_watched(&model, &rows, &plan, spends, noise, &mut watch)?;
    /// assert_eq!(errors.len(), 8);
    /// assert!(errors[7] < errors[0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fit_rounds_watched<O: PersonalizedObjective, B: UserBatches>(
        &self,
        objective: &O,
        data: &B,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        watch: &mut RoundWatch<'_>,
    ) -> Result<FittedPpSgd> {
        let show = &mut |round: ObservedRound<'_>| {
            watch(round);
            false
        };
        self.run(objective, data, plan, spends, noise, (&mut |_| {}, show))
    }

    /// The same rounds with float sums and float noise of this multiplier, 0 for none: a baseline without privacy, and a measurement
    /// of what noise does at levels that no ledger would pay for. Samples and noise come from `rng`.
    ///
    /// # Privacy
    /// None. The model says so.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when objective and data do not belong together; [`crate::Error::Param`] for a multiplier that is negative or not
    /// finite.
    pub fn simulate<O: PersonalizedObjective, B: UserBatches, R: Rng>(
        &self,
        objective: &O,
        data: &B,
        noise_multiplier: f64,
        rng: &mut R,
    ) -> Result<FittedPpSgd> {
        params::finite_non_negative("noise_multiplier", noise_multiplier)?;
        let source = if self.releases() {
            SumSource::Float(noise_multiplier, rng)
        } else {
            SumSource::None
        };
        let never = &mut |_: ObservedRound<'_>| false;
        let (model, personal, _) = self.rounds(objective, data, source, never)?;
        Ok(FittedPpSgd {
            model,
            certificate: None,
            personal,
        })
    }

    fn run<'w, O: PersonalizedObjective, B: UserBatches>(
        &self,
        objective: &O,
        data: &B,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &'w mut NoiseSource,
        (watch, stop): (&'w mut Watch<'w>, &mut Stop<'_>),
    ) -> Result<FittedPpSgd> {
        self.check_plan(objective.n_shared(), plan)?;
        let paid = Paid::new(plan, spends)?;
        let source = if self.releases() {
            SumSource::Released(paid, noise, watch)
        } else {
            SumSource::None
        };
        let (model, personal, paid) = self.rounds(objective, data, source, stop)?;
        let insecure = model.provenance == Provenance::SeededNoise;
        let certificate = match paid {
            Some(paid) => paid.certificate(&self.assumptions(&[]), insecure)?,
            None => None,
        };
        Ok(FittedPpSgd {
            model,
            certificate,
            personal,
        })
    }

    fn rounds<'s, 'p, O: PersonalizedObjective, B: UserBatches>(
        &self,
        objective: &O,
        data: &B,
        mut source: SumSource<'s, 'p>,
        stop: &mut Stop<'_>,
    ) -> Result<(SharedModel, Private<LocalModels>, Option<Paid<'p>>)> {
        params::same_size("features", data.n_features(), objective.n_features())?;
        let average = self.params().average;
        let mut states = LocalStates::new(data.table().expose(), objective.n_local(), average)?;
        let mut run = Run::new(self, objective.n_shared());
        for round in 1..=self.params().n_rounds {
            run.begin_round(round);
            let clip_norm = run.clip_norm();
            let work = RoundWork {
                objective,
                batches: data,
                states: &states,
                step: LocalStep {
                    round,
                    shared: run.shared(),
                    clip_norm,
                    rate: self.step_sizes(round).0,
                    reduction: self.params().reduction,
                    layout: self.layout(objective.n_shared()),
                },
            };
            let values = self.sum(&work, &mut source)?;
            #[cfg(privacy_mutants)]
            let values = values.map(|values| {
                let ratio = self.params().n_users / data.table().expose().n_users() as f64;
                let ratio = dp_core::mutants::pick("sgd-denominator-true-n", 1.0, ratio);
                values.into_iter().map(|v| ratio * v).collect()
            });
            run.end_round(self, values);
            let end = RoundEnd {
                round,
                shared: run.shared(),
                clip_norm,
            };
            let local = &|user| states.theta(user);
            if stop(ObservedRound { end, local }) {
                break;
            }
        }
        let (last, averages) = states.collect(run.n_rounds(), average);
        let personal = Private::new(LocalModels {
            n_local: objective.n_local(),
            last,
            average: averages,
        });
        let provenance = match &source {
            SumSource::None => Provenance::NotTrained,
            SumSource::Float(..) => Provenance::NonPrivate,
            SumSource::Released(_, noise, _) if noise.is_insecure() => Provenance::SeededNoise,
            SumSource::Released(..) => Provenance::Private,
        };
        let model = run.into_model(average, provenance);
        let paid = match source {
            SumSource::Released(paid, ..) => Some(paid),
            _ => None,
        };
        Ok((model, personal, paid))
    }
}
