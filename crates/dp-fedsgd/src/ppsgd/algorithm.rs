//! The method and its settings.

use super::{PpSgdParams, RoundLayout};

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
}
