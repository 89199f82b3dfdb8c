//! The rounds.

use dp_accounting::{Certificate, Plan, Spend};
use dp_core::{Private, params};
use dp_mechanism::{ClientSampling, Grid, NoiseSource, VectorSum, vector_contribution};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::local_state::StepScratch;
use super::plan::noise_multiplier;
use super::round::{LocalStates, Look, RoundWork};
use super::{
    LocalModels, LocalStep, LocalTraining, Participation, PpSgdParams, Provenance, RoundEnd,
    RoundLayout, Run, SharedModel,
};
use crate::objective::PersonalizedObjective;
use crate::paid::Paid;
use crate::watch::{Observed, Watch};
use crate::{Result, UserBatches};

/// A run's shared model with its certificate, and the local models of the simulated users.
#[allow(
    missing_debug_implementations,
    reason = "holds private models; printing them is never wanted"
)]
pub struct FittedPpSgd {
    /// What was released.
    pub model: SharedModel,
    /// Under which guarantee; none where nothing was released or there was no privacy.
    pub certificate: Option<Certificate>,
    /// Every user's own parameters. They stay with their users.
    pub personal: Private<LocalModels>,
}

/// Personalised private SGD: shared parameters `w` move along a noisy sum of clipped user gradients, each user's own `theta_i`
/// along that user's gradient.
///
/// ```text
/// round t:  g_i = mean or sum over user i's minibatch of grad f(w_(t-1), theta_(i,t-1), .)
///           theta_(i,t) = theta_(i,t-1) - eta_local g_theta,i                               no clip, no noise
///           w_t = w_(t-1) - eta_global (sum_(i in A_t) clip(g_w,i, C_t) + z C_t N(0, I)) / (q N)
/// eta_global / eta_local = alpha
/// ```
///
/// Source: Bietti et al. 2022, Algorithms 1 ([`Participation::Full`]), 2 (sampled, [`BatchReduction::Sum`](super::BatchReduction::Sum)) and 3 (sampled, mean), corrected
/// (`docs/errata.md`). `alpha` is the paper's times the clients in a round.
///
/// # Privacy
/// Released to everybody: `w` after every round. Unit: the user with all rows. Local parameters go to their users alone, so the
/// whole is jointly private (billboard model): what user `i` learns besides the releases is a function of `i`'s own data and coins. With samples of fixed size
/// those coins say something of others', see below.
///
/// **Sensitivity of a round.** Given what was released before, user `i` adds a vector of norm at most `C_t sqrt(1 + a^2 k)` (`k` extra
/// coordinates) or nothing: that is what adding or removing moves the sum by, and replacing moves it at most twice as far. The denominator is public.
/// Clients who drop out add 0, which is within the bound, and the noise stays what it was.
///
/// **Local parameters under sampling.** `theta_i` depends on whether `i` took part in earlier rounds, which was not released, so
/// one round's contribution is not a function of data and releases alone. For independent coins that does not matter. Fix the coins of
/// all others: they say nothing of `i`, and then, given the releases so far, everything others may add is fixed, with `i` in the data or without. Given these, the
/// next release without `i` is `N(S, s^2)`; with `i` it is `(1 - q) N(S, s^2) + q E N(S + Z, s^2)`, where the mean runs over `i`'s
/// earlier coins given the releases and `||Z|| <= D`: this round's coin is independent of them. By joint convexity of every divergence that differential privacy is
/// read from, it is no further from `N(S, s^2)` than for one worst `Z`, which is the pair accounted for; for a replacement the same holds with
/// the means over both users' coins. Composition over rounds is given the releases only, and not knowing the others' coins makes nothing worse.
/// With samples of fixed size the others' coins do tell `i`'s: if the rest of a sample is one short, `i` was in it. Then others' local parameters, and with
/// them what they add later, would depend on `i` in a way that no bound on `i`'s own vector covers. So there everybody trains in every
/// round ([`LocalTraining::EveryRound`]), contributions are functions of own data and releases, and the standard argument holds. It wants that
/// clients who miss a round do not miss it because they were asked or not. And joint privacy is weaker there: a user knows whether it was asked itself, and a
/// user who was not knows that the `m` who were are among `n - 1`. Against one user the ratio is `m / (n - 1)` instead of `m / n`, against `k` who pool what they
/// know `m / (n - k)`; the plan pays for `m / n`, against those who see releases alone. Independent coins say nothing of one another, and there nothing changes.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger};
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_data::PersonalOffsets;
/// use dp_fedsgd::{AdditiveLoss, AdditiveModel, PpSgdParams, StreamedBatches};
/// use dp_mechanism::NoiseSource;
/// use rand::SeedableRng;
///
/// let set_up = PersonalOffsets { n_users: 400, dim: 10, ..PersonalOffsets::figure_1a() };
/// let data = set_up.generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
/// let batches = StreamedBatches::new(&data.table, 10, |user, step, out| {
///     data.rows(user, step, 10, out.cells_mut());
/// });
/// let model = AdditiveModel::new(AdditiveLoss::Squared, 10)?;
///
/// let fit = PpSgdParams::new(1.0, 0.8, 10.0, 40, 400.0).check()?;
/// let (target, adjacency) = (ApproxDp::target(4.0, 1e-4)?, Adjacency::AddRemoveUser);
/// let plan = fit.plan(10, target, adjacency)?;
/// let spends = Ledger::in_memory("made data", Budget::new(target, adjacency)?)?.reserve(&plan)?;
/// let fitted = fit.fit(&model, &batches, &plan, spends, &mut NoiseSource::operating_system())?;
///
/// let own = fitted.personal.expose();
/// let risk = data.excess_risk(|user, theta| {
///     let both = fitted.model.last().iter().zip(own.last(user));
///     theta.iter_mut().zip(both).for_each(|(t, (w, o))| *t = w + o);
/// });
/// assert!(risk < 30.0); // 293 on average for zeros
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PpSgd {
    params: PpSgdParams,
}

const N_USERS_IS_PUBLIC: &str = "the declared number of users is public or was paid for elsewhere";
const SAMPLES_ARE_SECRET: &str = "who took part in which round stays secret";
const EVERYBODY_TRAINS: &str = "every client trains in every round, whether asked or not, and missing a round does not depend on being asked";
const OWN_PARTICIPATION_IS_KNOWN: &str = "the stated guarantee is against those who do not know who took part: \
    against a user who knows its own participation the sampling ratio is m/(n - 1), against k users who pool theirs m/(n - k), \
    for samples of m of n";

/// How a run gets the sum over the users of a round.
enum SumSource<'s, 'p> {
    /// By the kernel, paid.
    Released(Paid<'p>, &'s mut NoiseSource, &'s mut Watch<'s>),
    /// In floating point, with noise of this multiplier: a baseline without privacy.
    Float(f64, &'s mut dyn Rng),
    /// Not at all: `alpha = 0`.
    None,
}

impl PpSgd {
    pub(super) const fn new(params: PpSgdParams) -> Self {
        Self { params }
    }

    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &PpSgdParams {
        &self.params
    }

    /// Local and global step size of round `t`, from 1.
    #[must_use]
    pub fn step_sizes(&self, round: usize) -> (f64, f64) {
        let (alpha, eta) = (self.params.alpha, self.params.learning_rate);
        let (local, global) = if alpha <= 1.0 {
            (eta, alpha * eta)
        } else {
            (eta / alpha, eta)
        };
        (
            local * self.params.local_schedule.factor(round),
            global * self.params.global_schedule.factor(round),
        )
    }

    /// Whether anything is released: not for `alpha = 0`.
    #[must_use]
    pub fn releases(&self) -> bool {
        self.params.alpha > 0.0
    }

    pub(crate) fn layout(&self, n_shared: usize) -> RoundLayout {
        RoundLayout {
            n_shared,
            within: self.params.clip.is_adaptive(),
            count: self.params.minimum_clients.is_some(),
            extra: self.params.extra_share,
        }
    }

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
        let never = &mut |_: RoundEnd<'_>| false;
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
        let never = &mut |_: RoundEnd<'_>| false;
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
        self.run(objective, data, plan, spends, noise, (&mut |_| {}, stop))
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
        let never = &mut |_: RoundEnd<'_>| false;
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
        (watch, stop): (&'w mut Watch<'w>, &mut dyn FnMut(RoundEnd<'_>) -> bool),
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

    /// What the certificate takes on trust beyond what holds for every run, and `more`.
    pub(crate) fn assumptions(&self, more: &[&'static str]) -> Vec<&'static str> {
        let own: &[&str] = match self.params.participation {
            Participation::Full => &[N_USERS_IS_PUBLIC],
            Participation::Sampled(ClientSampling::Poisson(_)) => {
                &[N_USERS_IS_PUBLIC, SAMPLES_ARE_SECRET]
            }
            Participation::Sampled(ClientSampling::FixedSize(_)) => &[
                SAMPLES_ARE_SECRET,
                EVERYBODY_TRAINS,
                OWN_PARTICIPATION_IS_KNOWN,
            ],
        };
        [own, more].concat()
    }

    fn rounds<'s, 'p, O: PersonalizedObjective, B: UserBatches>(
        &self,
        objective: &O,
        data: &B,
        mut source: SumSource<'s, 'p>,
        stop: &mut dyn FnMut(RoundEnd<'_>) -> bool,
    ) -> Result<(SharedModel, Private<LocalModels>, Option<Paid<'p>>)> {
        params::same_size("features", data.n_features(), objective.n_features())?;
        let average = self.params.average;
        let mut states = LocalStates::new(data.table().expose(), objective.n_local(), average)?;
        let mut run = Run::new(self, objective.n_shared());
        for round in 1..=self.params.n_rounds {
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
                    reduction: self.params.reduction,
                    layout: self.layout(objective.n_shared()),
                },
            };
            let values = self.sum(&work, &mut source)?;
            run.end_round(self, values);
            let shared = run.shared();
            if stop(RoundEnd {
                round,
                shared,
                clip_norm,
            }) {
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

    /// The sum over the users of a round, noisy or exact; none where nothing is released.
    fn sum<O: PersonalizedObjective, B: UserBatches>(
        &self,
        work: &RoundWork<'_, O, B>,
        source: &mut SumSource<'_, '_>,
    ) -> Result<Option<Vec<f64>>> {
        let everybody = self.params.local_training == LocalTraining::EveryRound
            || self.params.participation == Participation::Full
            || !self.releases();
        if everybody {
            work.train_all(work.batches.table().expose());
        }
        match source {
            SumSource::None => Ok(None),
            SumSource::Float(multiplier, rng) => {
                Ok(Some(self.float_sum(work, *multiplier, &mut **rng)))
            }
            SumSource::Released(paid, noise, watch) => {
                self.release(work, paid.next()?, noise, *watch).map(Some)
            }
        }
    }

    fn release<O: PersonalizedObjective, B: UserBatches>(
        &self,
        work: &RoundWork<'_, O, B>,
        spend: Spend,
        noise: &mut NoiseSource,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<f64>> {
        let table = work.batches.table();
        let (n, label) = (work.step.layout.n_coordinates(), spend.label().to_owned());
        let noise_multiplier = noise_multiplier(spend.event())?;
        let grid = Grid::new(
            noise_multiplier,
            work.step.layout.whole_norm(work.step.clip_norm),
        )?;
        let sum = match self.params.participation {
            Participation::Full => VectorSum::accumulate(table, n, grid, work)?,
            Participation::Sampled(sampling) => {
                VectorSum::accumulate_sampled(sampling, table, n, grid, work, noise)?
            }
        };
        let released = sum.release(spend, noise)?;
        watch(Observed {
            label: &label,
            noise_multiplier,
            grid: &grid,
            released: &released,
            one_user: &|row| vector_contribution(&grid, n, &Look(work), row),
        });
        Ok(released.values())
    }

    fn float_sum<O: PersonalizedObjective, B: UserBatches>(
        &self,
        work: &RoundWork<'_, O, B>,
        noise_multiplier: f64,
        rng: &mut dyn Rng,
    ) -> Vec<f64> {
        let table = work.batches.table().expose();
        let users = self.params.participation.draw(table.n_users(), rng);
        let mut sums = vec![0.0; work.step.layout.n_coordinates()];
        let mut scratch = StepScratch::new(work.batches.n_features());
        for user in users {
            if cfg!(debug_assertions) {
                scratch = StepScratch::new(work.batches.n_features());
            }
            work.add_to(table.user(user), &mut scratch, &mut sums);
        }
        let stddev = noise_multiplier * work.step.layout.whole_norm(work.step.clip_norm);
        if stddev > 0.0 {
            for sum in &mut sums {
                let normal: f64 = StandardNormal.sample(rng);
                *sum += stddev * normal;
            }
        }
        sums
    }
}
