//! The method: what it does, what it releases, what that costs, and what its certificate takes on trust.

use dp_accounting::{CertificateBuilder, Plan, PlannedRelease, ReleaseRequest, Requests};
use dp_core::{Adjacency, ApproxDp, DpEvent, ParamError, ReplaceFactor};
use dp_mechanism::{ClientSampling, try_grids};

use super::{Participation, PpSgdParams, RoundLayout};
use crate::Result;

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
/// Source: Bietti et al. 2022, Algorithms 1 ([`Participation::Full`](super::Participation::Full)), 2 (sampled, [`BatchReduction::Sum`](super::BatchReduction::Sum)) and 3 (sampled, mean), corrected
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
/// round ([`LocalTraining::EveryRound`](super::LocalTraining::EveryRound)), contributions are functions of own data and releases, and the standard argument holds. It wants that
/// clients who miss a round do not miss it because they were asked or not. And joint privacy is weaker there: a user knows whether it was asked itself, and a
/// user who was not knows that the `m` who were are among `n - 1`. Against one user the ratio is `m / (n - 1)` instead of `m / n`, against `k` who pool what they
/// know `m / (n - k)`; the plan pays for `m / n`, against those who see releases alone. Independent coins say nothing of one another, and there nothing changes.
///
/// # Examples
/// ```
/// use dp_data::PersonalOffsets;
/// use dp_fedsgd::{
///     AdditiveLoss, AdditiveModel, Adjacency, ApproxDp, Budget, Ledger, NoiseSource, PpSgdParams, StreamedBatches, Trainer,
/// };
/// use rand::SeedableRng;
///
/// let set_up = PersonalOffsets { n_users: 400, dim: 10, ..PersonalOffsets::figure_1a() };
/// let data = set_up.generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
/// let batches = StreamedBatches::new(&data.table, 10, |user, step, out| {
///     data.rows(user, step, 10, out.cells_mut());
/// });
/// let model = AdditiveModel::new(AdditiveLoss::Squared, 10)?;
///
/// let trainer = PpSgdParams::new(1.0, 0.8, 10.0, 40, 400.0).check()?.with(&model);
/// let (target, adjacency) = (ApproxDp::target(4.0, 1e-4)?, Adjacency::AddRemoveUser);
/// let plan = trainer.plan(10, target, adjacency)?;
/// let spends = Ledger::in_memory("made data", Budget::new(target, adjacency)?)?.reserve(&plan)?;
/// let fitted = trainer.fit(&batches, &plan, spends, &mut NoiseSource::operating_system())?;
///
/// let (shared, local) = (&fitted.model.shared, fitted.model.local.expose());
/// let risk = data.excess_risk(|user, theta| {
///     let both = shared.last().iter().zip(local.last(user));
///     theta.iter_mut().zip(both).for_each(|(t, (w, own))| *t = w + own);
/// });
/// assert!(risk < 30.0); // 293 on average for zeros
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PpSgd {
    params: PpSgdParams,
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

    /// The releases of all rounds, for an objective with `n_shared` shared parameters, before it is known how much noise they get.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for `alpha = 0`, which releases nothing: see [`train_alone`](Self::train_alone).
    pub fn requests(&self, n_shared: usize) -> Result<Requests> {
        self.check_releases()?;
        let n_draws = self.layout(n_shared).n_coordinates() as u64;
        let (fit, rounds) = (*self, 1..=self.params.n_rounds);
        let request = |round| ReleaseRequest::new(label(round), 1.0, ReplaceFactor::Two, n_draws);
        Ok(match self.params.participation {
            Participation::Full => Requests::Shares(rounds.map(request).collect()),
            Participation::Sampled(_) => Requests::schedule(move |z| fit.planned(n_shared, z)),
        })
    }

    /// The plan of all rounds with the least noise for `target`, for an objective with `n_shared` shared parameters.
    ///
    /// Full participation is reserved on a [`Budget::new`](dp_accounting::Budget::new), samples on a
    /// [`Budget::schedule`](dp_accounting::Budget::schedule).
    ///
    /// # Errors
    /// [`crate::Error::Param`] for `alpha = 0`; [`crate::Error::Accounting`] when the target cannot be met, and under neighbours that the
    /// scheme is not defined for (samples of fixed size: replacement only); [`crate::Error::Mechanism`] when the noise does not fit the
    /// kernel's grid.
    pub fn plan(&self, n_shared: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        let plan = self.requests(n_shared)?.calibrate(target, adjacency)?;
        self.fits_grids(n_shared, plan)
    }

    /// The plan of all rounds with a given noise multiplier (noise standard deviation on the sum, over the bound on a user's whole
    /// contribution), and the guarantee that follows at `delta`.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn plan_with_noise(
        &self,
        n_shared: usize,
        noise_multiplier: f64,
        delta: f64,
        adjacency: Adjacency,
    ) -> Result<Plan> {
        self.check_releases()?;
        let rounds = self.planned(n_shared, noise_multiplier);
        let plan = Plan::with_noise_multipliers(delta, adjacency, rounds)?;
        self.fits_grids(n_shared, plan)
    }

    fn check_releases(&self) -> Result<()> {
        if self.releases() {
            return Ok(());
        }
        Err(ParamError {
            name: "alpha",
            value: self.params.alpha,
            expected: "above 0: at 0 users learn alone and nothing is released",
        }
        .into())
    }

    /// The event of a round: made from the scheme that is run.
    fn event(&self, noise_multiplier: f64) -> DpEvent {
        let gaussian = DpEvent::gaussian(noise_multiplier);
        #[cfg(privacy_mutants)]
        if let Participation::Sampled(ClientSampling::Poisson(poisson)) = self.params.participation
            && dp_core::mutants::active("sgd-accounted-probability-halved")
        {
            let half = 0.5 * poisson.sampling_probability();
            return DpEvent::sampled_gaussian(noise_multiplier, half);
        }
        match self.params.participation {
            Participation::Full => gaussian,
            Participation::Sampled(sampling) => sampling.event(gaussian),
        }
    }

    fn planned(&self, n_shared: usize, noise_multiplier: f64) -> Vec<PlannedRelease> {
        let event = self.event(noise_multiplier);
        let n_draws = self.layout(n_shared).n_coordinates() as u64;
        let round = |round| PlannedRelease::new(label(round), event.clone(), n_draws);
        (1..=self.params.n_rounds).map(round).collect()
    }

    /// Nothing should be paid for that could not be released, with the least and the largest clip norm that a round may have.
    fn fits_grids(&self, n_shared: usize, plan: Plan) -> Result<Plan> {
        let layout = self.layout(n_shared);
        let norms = self.params.clip.extremes(self.params.n_rounds);
        let norms: Vec<f64> = norms.into_iter().map(|c| layout.whole_norm(c)).collect();
        try_grids(&plan, &norms)?;
        Ok(plan)
    }

    /// Completes a certificate: what is released to whom, and what is taken on trust.
    pub(crate) fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let certificate = certificate
            .released_output("shared parameters after every round, settings", "anyone")
            .not_covered("local parameters, which stay with their users")
            .tuning_included(false);
        self.assumptions().fold(certificate, |certificate, said| {
            certificate.assumption(said)
        })
    }

    /// What the guarantee of a run takes on trust, as its certificate says it: for the certificate of several runs.
    pub fn assumptions(&self) -> impl Iterator<Item = &'static str> {
        let of_sampling: &[&str] = match self.params.participation {
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
        let of_all = [
            "one person has one user id",
            "settings were not chosen by looking at this data set",
        ];
        of_all.into_iter().chain(of_sampling.iter().copied())
    }
}

fn label(round: usize) -> String {
    format!("round {round}")
}

const N_USERS_IS_PUBLIC: &str = "the declared number of users is public or was paid for elsewhere";
const SAMPLES_ARE_SECRET: &str = "who took part in which round stays secret";
const EVERYBODY_TRAINS: &str = "every client trains in every round, whether asked or not, and missing a round does not depend on being asked";
const OWN_PARTICIPATION_IS_KNOWN: &str = "the stated guarantee is against those who do not know who took part: \
    against a user who knows its own participation the sampling ratio is m/(n - 1), against k users who pool theirs m/(n - k), \
    for samples of m of n";
