//! L3: a whole training run with canary users.

use std::fmt;

use dp_accounting::Plan;
use dp_core::{ApproxDp, Gdp, Interactions, Private, params};
use dp_mechanism::NoiseSource;
use serde::{Deserialize, Serialize};

use crate::black_box::audit_black_box;
use crate::canary::Canaries;
use crate::release::{audit_independence, pooled};
use crate::report::{Check, Verdict, verdict_of, write_failures};
use crate::sequential::{GuessingGame, NoiseWatch};
use crate::view::View;
use crate::{BlackBoxAudit, ReleaseAudit, Result};

/// Training runs that can be audited: their claim, and how to make one.
///
/// [`AuditedTrainer`](crate::AuditedTrainer) implements it for every trainer of this workspace.
/// Implement it yourself for a trainer that does not run on dp-mechanism, or to audit a claim other
/// than the trainer's own.
pub trait AuditedRun {
    /// The claim of a run: the guarantee and its Gaussian-DP parameter, for adding or removing one
    /// user.
    fn claim(&self) -> (ApproxDp, Gdp);

    /// Whether all canaries contribute to the same coordinates of the release with this label, and
    /// the release has more than a few percent of the budget. Its noise is then common to all
    /// outputs of a run, so it is not used in the lower bounds from outputs alone, but it is
    /// included in the white-box estimate. By default this is false for all releases.
    fn is_shared(&self, _label: &str) -> bool {
        false
    }

    /// Trains once on `data` and returns a view of each release, in order.
    ///
    /// A view's exact sum is computed from the users' contributions one by one, as clients would
    /// send them. Its canary entries are what each user of `canaries` contributes if present, given
    /// the earlier releases.
    ///
    /// # Errors
    /// If training fails.
    fn train(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> Result<Vec<View>>;
}

/// The claim of a run of `plan`, for [`AuditedRun::claim`]. A plan of Gaussian releases on all
/// users always has a Gaussian-DP parameter; for a plan with samples it is NaN.
#[must_use]
pub fn claim_of(plan: &Plan) -> (ApproxDp, Gdp) {
    let gdp = plan.gdp().unwrap_or(Gdp { mu: f64::NAN });
    (plan.guarantee(), gdp)
}

/// The number of runs and the error probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    /// Number of training runs; each gives one output per canary.
    pub n_runs: usize,
    /// Confidence of the lower bound on mu.
    pub confidence: f64,
    /// False-alarm probability of each check.
    pub level: f64,
    /// Seed of the coins that determine which canaries take part.
    pub coin_seed: u64,
}

impl Default for RunSettings {
    /// 32 runs, confidence 1 - 1e-9, level 1e-9.
    fn default() -> Self {
        Self {
            n_runs: 32,
            confidence: 1.0 - 1e-9,
            level: 1e-9,
            coin_seed: 0,
        }
    }
}

/// Outcome of [`audit_run`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunAudit {
    /// The claimed guarantee.
    pub claimed: ApproxDp,
    /// The claimed Gaussian-DP parameter.
    pub claimed_mu: f64,
    /// The privacy loss of the canaries' contributions at the promised noise, mean over canaries
    /// and runs: at most the claim, and close to it for canaries that use all of their bound.
    pub canary_mu: f64,
    /// The same at the measured noise: the white-box estimate of mu.
    pub white_box_mu: f64,
    /// Relative error of the white-box estimate at the level of the checks.
    pub white_box_error: f64,
    /// Share of mu^2 in releases with so few numbers that their noise could not be measured. It
    /// counts as claimed in the white-box estimate, so this part of the estimate is taken on trust
    /// and no confidence can be stated for it.
    pub trusted_share: f64,
    /// Probability that `white_box_mu` is within `white_box_error` of the canaries' privacy loss at
    /// the true noise; absent if anything is taken on trust.
    pub white_box_confidence: Option<f64>,
    /// Epsilon of the white-box estimate at the claimed delta.
    pub white_box_epsilon: f64,
    /// Lower bound from outputs alone.
    pub black_box: BlackBoxAudit,
    /// Epsilon of the lower bound at the claimed delta.
    pub lower_bound_epsilon: f64,
    /// Lower bound on mu that is valid at every stopping time, at the level of the checks.
    pub anytime_lower_bound_mu: f64,
    /// The releases, pooled over all runs.
    pub releases: Vec<ReleaseAudit>,
    /// Number of training runs.
    pub n_runs: usize,
    /// Checks of the run as a whole.
    pub checks: Vec<Check>,
    /// Reasons why the audit could not have detected much; empty if it had enough power.
    pub inconclusive: Vec<String>,
    /// Outcome.
    pub verdict: Verdict,
}

/// Audits whole training runs with canaries that take part or not according to fair coins.
///
/// For canary `c` and releases `t`, with `Z` its contribution and `S'` the sum of all other users,
///
/// ```text
/// mu_c^2 = sum_t sum_k Z_tk^2 / sigma_tk^2,    x_c = sum_t sum_k Z_tk (Y - S' + 1/2)_tk / sigma_tk^2 / mu_c
/// x_c ~ N(0, 1) if c stayed out, N(mu_c, 1) if it took part
/// ```
///
/// is the most powerful test, and the claim bounds `mu_c`. White box: the same with the measured
/// noise instead of sigma. For releases with so few numbers that the noise cannot be measured to
/// within a half, sigma itself is taken on trust; their share of mu^2 is reported. Black box:
/// [`audit_black_box`] on the pooled `x_c` with threshold mu/2. The audit checks each release as in
/// [`crate::audit_release`], that no noise is shared between releases or runs, that every canary is
/// within its bound (exact integers), that the white-box mu is not above the claim beyond the error
/// of its estimate, and that the lower bounds are not above the claim.
///
/// If nothing is found, the verdict is [`Verdict::Inconclusive`] if little could have been
/// detected: more than 5 % of mu^2 on trust, or canaries whose privacy loss is less than a quarter
/// of the claim.
///
/// The lower bound pools the canaries of one run. This is correct if the noise of their coordinates
/// is independent, which the white-box checks test; releases that [all of them
/// share](AuditedRun::is_shared) are not used in it. [`GuessingGame`] does not need this
/// assumption.
///
/// # Errors
/// [`crate::Error::Param`] for settings out of range; the errors of the trainer.
pub fn audit_run<T: AuditedRun + ?Sized>(
    trainer: &T,
    canaries: &Canaries,
    settings: &RunSettings,
    mut noise: impl FnMut() -> NoiseSource,
) -> Result<RunAudit> {
    params::at_least_one("n_runs", settings.n_runs)?;
    params::open_unit("confidence", settings.confidence)?;
    params::open_unit("level", settings.level)?;
    let (_, claimed) = trainer.claim();
    let mut evidence = Evidence::new(claimed.mu);
    let mut coins = Coins::new(settings.coin_seed);
    for _ in 0..settings.n_runs {
        let present = coins.flip(canaries.len());
        let data = canaries.with(&present)?;
        let views = trainer.train(&data, canaries.users(), &mut noise())?;
        evidence.take_in(&present, &views, settings.level, &|label| {
            trainer.is_shared(label)
        })?;
    }
    evidence.report(trainer, settings)
}

/// The results of the runs so far.
struct Evidence {
    claimed_mu: f64,
    without: Vec<f64>,
    with: Vec<f64>,
    game: GuessingGame,
    watch: NoiseWatch,
    /// Per release: its view of the last run, and residuals and integer noise of all runs.
    pools: Vec<Pool>,
    /// Per canary and run: squared mu by release.
    squares: Vec<Vec<f64>>,
    checks: Vec<Check>,
    n_runs: usize,
}

struct Pool {
    view: View,
    residuals: Vec<f64>,
    noise: Vec<i64>,
    last: Vec<f64>,
}

impl Evidence {
    fn new(claimed_mu: f64) -> Self {
        Self {
            claimed_mu,
            without: Vec::new(),
            with: Vec::new(),
            game: GuessingGame::default(),
            watch: NoiseWatch::default(),
            pools: Vec::new(),
            squares: Vec::new(),
            checks: Vec::new(),
            n_runs: 0,
        }
    }

    fn take_in(
        &mut self,
        present: &[bool],
        views: &[View],
        level: f64,
        is_shared: &dyn Fn(&str) -> bool,
    ) -> Result<()> {
        let mut residuals = Vec::new();
        for view in views {
            view.check()?;
            residuals.push((view.label.clone(), view.residuals()));
        }
        self.keep_failures(audit_independence(&residuals, level));
        for (at, (view, (_, fresh))) in views.iter().zip(&residuals).enumerate() {
            self.watch.observe(fresh);
            self.check_norms(view);
            self.pool(at, view, fresh, level);
        }
        let is_shared: Vec<bool> = views.iter().map(|view| is_shared(&view.label)).collect();
        self.score(present, views, &residuals, &is_shared);
        self.n_runs += 1;
        Ok(())
    }

    fn keep_failures(&mut self, checks: Vec<Check>) {
        self.checks
            .extend(checks.into_iter().filter(|c| !c.passed()));
    }

    /// Checks that every canary is within its bound, in exact integers.
    fn check_norms(&mut self, view: &View) {
        let allowed = u128::from(view.allowed_norm()).pow(2);
        for entries in &view.canaries {
            let squares = entries.iter().map(|&(at, z)| {
                let magnitude = u128::from(z.unsigned_abs());
                let weight = if view.scale(at) < view.layout.sigma() as f64 {
                    2
                } else {
                    1
                };
                (magnitude * magnitude).saturating_mul(weight)
            });
            if squares.fold(0, u128::saturating_add) > allowed {
                self.checks.push(Check::new(
                    format!("a canary adds more to `{}` than is paid for", view.label),
                    0.0,
                    f64::MIN_POSITIVE,
                ));
            }
        }
    }

    fn pool(&mut self, at: usize, view: &View, fresh: &[f64], level: f64) {
        let noise = view.integers.iter().zip(&view.exact);
        let noise = noise.map(|(y, s)| y.wrapping_sub(*s));
        if let Some(pool) = self.pools.get_mut(at) {
            let pair = [
                (
                    format!("{} of one run", view.label),
                    std::mem::take(&mut pool.last),
                ),
                ("the run after it".to_owned(), fresh.to_vec()),
            ];
            let checks = audit_independence(&pair, level);
            let pool = &mut self.pools[at];
            pool.residuals.extend_from_slice(fresh);
            pool.noise.extend(noise);
            pool.last = fresh.to_vec();
            self.keep_failures(checks);
            return;
        }
        self.pools.push(Pool {
            view: view.clone(),
            residuals: fresh.to_vec(),
            noise: noise.collect(),
            last: fresh.to_vec(),
        });
    }

    /// The most powerful score of each canary, and the guess based on it.
    fn score(
        &mut self,
        present: &[bool],
        views: &[View],
        residuals: &[(String, Vec<f64>)],
        is_shared: &[bool],
    ) {
        let (mut n_right, mut n_guesses) = (0, 0);
        for (canary, &here) in present.iter().enumerate() {
            let (score, squares) = score(canary, here, views, residuals, is_shared);
            let own = squares.iter().zip(is_shared);
            let own: f64 = own.filter(|(_, shared)| !**shared).map(|(s, _)| s).sum();
            if squares.iter().sum::<f64>() > 0.0 {
                self.squares.push(squares);
            }
            if !(own > 0.0) {
                continue;
            }
            let score = score / own.sqrt();
            let guess = score > 0.5 * self.claimed_mu;
            n_guesses += 1;
            n_right += u64::from(guess == here);
            if here {
                &mut self.with
            } else {
                &mut self.without
            }
            .push(score);
        }
        self.game.observe(n_right, n_guesses);
    }

    fn report<T: AuditedRun + ?Sized>(
        mut self,
        trainer: &T,
        settings: &RunSettings,
    ) -> Result<RunAudit> {
        let (claimed, gdp) = trainer.claim();
        let level = settings.level;
        let releases: Vec<ReleaseAudit> = self
            .pools
            .iter()
            .map(|pool| pooled(&pool.view, &pool.residuals, &pool.noise, level))
            .collect();
        let ratios: Vec<f64> = releases.iter().map(measured_noise).collect();
        let white_box_error = white_box_error(&releases);
        let trusted_share = trusted_share(&releases);
        let canary_mu = self.mean_mu(|_| 1.0);
        let white_box_mu = self.mean_mu(|at| ratios[at]);
        let black_box = audit_black_box(
            "whole run",
            gdp.mu,
            &self.without,
            &self.with,
            0.5 * gdp.mu,
            settings.confidence,
        )?;
        let anytime = self.game.lower_bound_mu(level);
        self.add_facts(
            gdp.mu,
            white_box_mu,
            white_box_error,
            canary_mu,
            anytime,
            level,
        );
        let violated = verdict_of(&self.checks).is_violated()
            || black_box.verdict.is_violated()
            || releases.iter().any(|r| r.verdict.is_violated());
        let inconclusive = powerless(trusted_share, canary_mu / gdp.mu);
        let verdict = match violated {
            true => Verdict::Violated,
            false if inconclusive.is_empty() => Verdict::Holds,
            false => Verdict::Inconclusive,
        };
        // the noise of one release exceeds its error with probability 2 `level`, that of any with
        // at most the sum
        let miss = releases.iter().map(|r| 2.0 * r.level).sum::<f64>();
        let epsilon = |mu| epsilon_of(mu, claimed.delta);
        Ok(RunAudit {
            claimed,
            claimed_mu: gdp.mu,
            canary_mu,
            white_box_mu,
            white_box_error,
            trusted_share,
            white_box_confidence: (trusted_share <= 0.0).then_some(1.0 - miss),
            white_box_epsilon: epsilon(white_box_mu),
            lower_bound_epsilon: epsilon(black_box.lower_bound_mu),
            black_box,
            anytime_lower_bound_mu: anytime,
            releases,
            n_runs: self.n_runs,
            checks: self.checks,
            inconclusive,
            verdict,
        })
    }

    fn add_facts(
        &mut self,
        claimed: f64,
        white_box: f64,
        error: f64,
        canary: f64,
        anytime: f64,
        level: f64,
    ) {
        let facts = [
            (
                "white-box mu above the claim",
                white_box <= claimed * (1.0 + error) + 1e-9,
            ),
            (
                "canaries worth more than the claim",
                canary <= claimed * (1.0 + 1e-9),
            ),
            ("anytime lower bound above the claim", anytime <= claimed),
            ("noise watch", !self.watch.alarm(level)),
        ];
        for (what, fine) in facts {
            let p_value = if fine { 1.0 } else { 0.0 };
            self.checks
                .push(Check::new(what, p_value, f64::MIN_POSITIVE));
        }
    }

    /// Root mean square of the canaries' mu, with the noise of each release scaled by `ratio`.
    fn mean_mu(&self, ratio: impl Fn(usize) -> f64) -> f64 {
        let total: f64 = self
            .squares
            .iter()
            .flat_map(|squares| squares.iter().enumerate())
            .map(|(at, square)| square / ratio(at).powi(2))
            .sum();
        (total / self.squares.len().max(1) as f64).sqrt()
    }
}

/// Fair coins from a seed: they determine who takes part in an audit and protect nobody.
struct Coins(u64);

impl Coins {
    const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One coin each, by the mixing function of Steele, Lea and Flood (2014).
    fn flip(&mut self, n: usize) -> Vec<bool> {
        (0..n)
            .map(|_| {
                self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = self.0;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (z ^ (z >> 31)) >> 63 == 1
            })
            .collect()
    }
}

/// `sum_t <Z, Y - S' + 1/2>` in units of the promised noise, and the squared norm of `Z` by
/// release. A residual is relative to the sum including the canary if it was present, so its
/// contribution is added back.
fn score(
    canary: usize,
    here: bool,
    views: &[View],
    residuals: &[(String, Vec<f64>)],
    is_shared: &[bool],
) -> (f64, Vec<f64>) {
    let mut total = 0.0;
    let mut squares = Vec::with_capacity(views.len());
    for ((view, (_, residuals)), &is_shared) in views.iter().zip(residuals).zip(is_shared) {
        let mut square = 0.0;
        for &(at, z) in view.canaries.get(canary).into_iter().flatten() {
            let z = z as f64 / view.scale(at);
            square += z * z;
            let own = if here { z } else { 0.0 };
            if !is_shared {
                total += z * (residuals.get(at).copied().unwrap_or(0.0) + own);
            }
        }
        squares.push(square);
    }
    (total, squares)
}

/// If the relative error of a release's measured noise exceeds this, the noise counts as claimed.
const MEASURABLE: f64 = 0.5;

/// Largest share of mu^2 that an audit with sufficient power may take on trust.
const MOST_TRUSTED: f64 = 0.05;

/// Smallest share of the claimed mu that canaries must reach in an audit with sufficient power:
/// adding or removing is half of a replacement.
const LEAST_WORTH: f64 = 0.25;

/// Share of mu^2 in releases whose noise cannot be measured.
fn trusted_share(releases: &[ReleaseAudit]) -> f64 {
    let square = |release: &&ReleaseAudit| release.claimed_noise_multiplier.powi(-2);
    let trusted = releases
        .iter()
        .filter(|r| !(r.relative_error <= MEASURABLE));
    trusted.map(|r| square(&r)).sum::<f64>() / releases.iter().map(|r| square(&r)).sum::<f64>()
}

/// Reasons why the audit could not have detected much.
fn powerless(trusted_share: f64, worth: f64) -> Vec<String> {
    let [trusted, worth_of] = [trusted_share, worth].map(|x| format!("{:.2} %", 100.0 * x));
    let reasons = [
        (
            !(trusted_share <= MOST_TRUSTED),
            format!(
                "{trusted} of mu^2 is in releases of too few numbers to measure their noise: more runs are needed"
            ),
        ),
        (
            !(worth >= LEAST_WORTH),
            format!(
                "planted users are worth {worth_of} of the claim only: what users may add is hardly tried"
            ),
        ),
    ];
    let weak = reasons.into_iter().filter(|(is_weak, _)| *is_weak);
    weak.map(|(_, reason)| reason).collect()
}

/// Measured noise divided by claimed noise.
fn measured_noise(release: &ReleaseAudit) -> f64 {
    if release.relative_error <= MEASURABLE {
        release.measured_noise_multiplier / release.claimed_noise_multiplier
    } else {
        1.0
    }
}

/// How far the white-box estimate may be above the true mu by chance: with noise `s_t` known to
/// within a fraction `e_t`, and `mu_t = 1 / z_t` the largest privacy loss of release `t`,
///
/// ```text
/// sqrt(sum_t mu_t^2 / (1 - e_t)^2 / sum_t mu_t^2) - 1
/// ```
fn white_box_error(releases: &[ReleaseAudit]) -> f64 {
    let (mut most, mut claimed) = (0.0, 0.0);
    for release in releases {
        let square = release.claimed_noise_multiplier.powi(-2);
        let error = match release.relative_error {
            error if error <= MEASURABLE => error,
            _ => 0.0,
        };
        claimed += square;
        most += square / (1.0 - error).powi(2);
    }
    (most / claimed).sqrt() - 1.0
}

/// Epsilon of a Gaussian mechanism at `delta`; 0 if mu is 0.
fn epsilon_of(mu: f64, delta: f64) -> f64 {
    if mu > 0.0 {
        dp_accounting::gdp::epsilon(mu, delta)
    } else {
        0.0
    }
}

impl fmt::Display for RunAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let delta = self.claimed.delta;
        writeln!(f, "{} in {} training runs", self.verdict, self.n_runs)?;
        writeln!(
            f,
            "  claimed      epsilon {:.4} at delta {delta:e} (mu {:.4})",
            self.claimed.epsilon, self.claimed_mu
        )?;
        writeln!(
            f,
            "  measured     epsilon {:.4} (mu {:.4} within {:.2} %, {:.2} % of mu^2 on trust): canaries worth \
             {:.2} % of the claim, at the noise that came out",
            self.white_box_epsilon,
            self.white_box_mu,
            100.0 * self.white_box_error,
            100.0 * self.trusted_share,
            100.0 * self.canary_mu / self.claimed_mu
        )?;
        writeln!(
            f,
            "  lower bound  epsilon {:.4} (mu {:.4}) with confidence {} from outputs alone, {} + {} \
             of them; mu {:.2} at every stopping time",
            self.lower_bound_epsilon,
            self.black_box.lower_bound_mu,
            self.black_box.confidence,
            self.black_box.n_without,
            self.black_box.n_with,
            self.anytime_lower_bound_mu
        )?;
        for release in &self.releases {
            write!(f, "  {release}")?;
            writeln!(f)?;
        }
        for reason in &self.inconclusive {
            writeln!(f, "  inconclusive: {reason}")?;
        }
        write_failures(f, &self.checks)
    }
}
