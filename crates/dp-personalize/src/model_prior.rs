//! The prior of users' own fits around shared models, learned from all users by one small release.

use dp_core::{ParamError, SampleRows, UserRow, UserSamples};
use dp_mechanism::{Run, SparseBuffer, VectorContribution};
use serde::{Deserialize, Serialize};

use crate::user_prior::{INSIDE, check_weights, explained, raised, weights};
use crate::weighed::{N_LEVELS, N_PLAIN, N_STRENGTHS, N_WEIGHTS, SIGNALS, slow_decay};
use crate::{PriorVotes, Result, SharedParts, WeighedFit};

/// Lengths of the parts of a vote.
const PARTS: [usize; 4] = [N_WEIGHTS, N_PLAIN, N_STRENGTHS, N_LEVELS];
/// Standard deviations of the noise that a vote must exceed: noise that becomes a vote for fits which interpolate few rows costs most.
const LOST: f64 = 3.0;
/// Length of the users' votes.
pub(crate) const N_MODEL_VOTES: usize = N_WEIGHTS + N_PLAIN + N_STRENGTHS + N_LEVELS;

/// The prior of users' own fits around shared models: released, and the same for everybody.
///
/// A user's [`WeighedFit`] with [shared models](SharedParts::models) weights its candidates by
///
/// ```text
/// prior = p(weight on a shared model) / models  p(kind of own part) p(strength) p(level)
/// ```
///
/// with a weight of none, half or all of a model; no own part, one alike in coefficients or one alike in features; nine strengths
/// (seven for the logistic loss); and five variances of the level or the level of the shared model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct ModelPrior {
    /// Of no shared model, of half of one and of a whole one.
    pub(crate) weights: Vec<f64>,
    /// Of no own part, of one alike in coefficients and of one alike in features.
    pub(crate) kinds: Vec<f64>,
    pub(crate) strengths: Vec<f64>,
    /// Of the variances of the level, and last of the shared model's level.
    pub(crate) levels: Vec<f64>,
}

/// As stored in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    weights: Vec<f64>,
    kinds: Vec<f64>,
    strengths: Vec<f64>,
    levels: Vec<f64>,
}

impl TryFrom<Unchecked> for ModelPrior {
    type Error = ParamError;

    fn try_from(read: Unchecked) -> Result<Self, ParamError> {
        let names = ["weights", "kinds", "strengths", "levels"];
        let parts = [&read.weights, &read.kinds, &read.strengths, &read.levels];
        for ((name, part), n) in names.into_iter().zip(parts).zip(PARTS) {
            check_weights(name, part, n)?;
        }
        Ok(Self {
            weights: read.weights,
            kinds: read.kinds,
            strengths: read.strengths,
            levels: read.levels,
        })
    }
}

impl ModelPrior {
    /// In proportion to votes as far as these exceed their noise, and otherwise like the weights of users who know nothing of others.
    fn voted(votes: &[f64], noise: f64) -> Self {
        let n = N_STRENGTHS as f64;
        let even: [&[f64]; 4] = [
            &[2.0, 1.0, 1.0],
            &[1.0, n, n],
            &SIGNALS.map(slow_decay),
            &[1.0; N_LEVELS],
        ];
        let mut rest = votes;
        let [weights, kinds, strengths, levels] = even.map(|even| {
            let (own, others) = rest.split_at(even.len());
            rest = others;
            let even = weights(even);
            let clear = raised(own, LOST * noise, &even);
            // one step of the expectation-maximisation algorithm, which is short where the rows of one user say little: taken twice
            let twice = clear.iter().zip(&even).map(|(w, even)| w * w / even);
            weights(&twice.collect::<Vec<_>>())
        });
        Self {
            weights,
            kinds,
            strengths,
            levels,
        }
    }

    /// Weights of no shared model, of half of one and of a whole one.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Shares of the variance of a user's labels that an own part may explain, `s / (1 + s)`, with their weights.
    pub fn explained(&self) -> impl Iterator<Item = (f64, f64)> {
        explained(&self.strengths)
    }
}

/// The sum of users' votes on the prior of their own fits around shared models: how likely a user's own rows make each weight on a
/// shared model, each kind of own part, each strength and each level, from the same candidates as in [`WeighedFit`].
///
/// ```text
/// c_u = (p_u(weight), p_u(kind), p_u(strength), p_u(level))
/// ```
///
/// each of the four with numbers that are not negative and a sum of at most 1. A user without usable rows adds nothing.
///
/// # Privacy
/// Each of the four has an L2 norm of at most its sum, so `||c_u|| <= 2`, whatever the rows are: the L2 sensitivity under adding or removing one
/// user with all rows; twice that under replacement. A vote depends on the user's own rows and on earlier releases.
#[allow(
    missing_debug_implementations,
    reason = "released values; print those instead"
)]
pub struct ModelVotes<'a> {
    /// How users fit.
    pub fit: WeighedFit,
    /// The released models.
    pub models: &'a [&'a [f64]],
}

impl ModelVotes<'_> {
    /// Label of the release.
    pub const LABEL: &'static str = PriorVotes::LABEL;
    /// The bound on a user's norm.
    pub const CLIP_NORM: f64 = 2.0;
    /// Length of the released vector.
    pub const N_DRAWS: u64 = N_MODEL_VOTES as u64;

    fn of_user(&self, rows: SampleRows<'_>) -> Option<Vec<f64>> {
        let shared = SharedParts {
            models: self.models,
            ..SharedParts::default()
        };
        self.fit.model_votes(&shared, rows)
    }

    /// The prior that all users voted for.
    ///
    /// # Errors
    /// When the run is over, or does not pay for it.
    pub fn release(&self, samples: &UserSamples, run: &mut Run<'_>) -> Result<ModelPrior> {
        let shape = (N_MODEL_VOTES, Self::CLIP_NORM);
        let released = run.vector(samples.table(), shape, self)?;
        let noise = released.noise_stddev();
        Ok(ModelPrior::voted(&released.values(), noise))
    }

    /// The same of exact sums: not private.
    #[must_use]
    pub fn non_private(&self, samples: &UserSamples) -> ModelPrior {
        let mut sums = vec![0.0; N_MODEL_VOTES];
        for votes in samples.users().filter_map(|rows| self.of_user(rows)) {
            let both = sums.iter_mut().zip(votes);
            both.for_each(|(sum, vote)| *sum += vote);
        }
        // so little noise that it decides only where there are no votes
        ModelPrior::voted(&sums, 1e-12)
    }
}

impl VectorContribution for ModelVotes<'_> {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let dim = self.models.first().map_or(0, |model| model.len());
        let rows = SampleRows::of(user, dim);
        for (at, vote) in (0..).zip(self.of_user(rows).into_iter().flatten()) {
            out.push(at, INSIDE * vote);
        }
    }
}

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::{ConvexLoss, OwnLevel};

    const SHARED: [f64; 4] = [1.0, -0.5, 0.3, 0.8];

    /// 400 users with 5 rows, whose slopes are the shared ones and own ones of this size.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "features have single precision"
    )]
    fn users(own: f64, loss: ConvexLoss) -> (UserSamples, Vec<Vec<f64>>) {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut builder = UserSamplesBuilder::new(4, 5).unwrap();
        let mut even = || rng.random_range(-1.0..1.0);
        let mut slopes = Vec::new();
        for user in 0..400 {
            let of_user: Vec<f64> = SHARED.iter().map(|w| w + own * even()).collect();
            for _ in 0..5 {
                let x: Vec<f64> = (0..4).map(|_| even()).collect();
                let score: f64 = x.iter().zip(&of_user).map(|(x, w)| x * w).sum();
                let y = match loss {
                    ConvexLoss::Logistic if (3.0 * score).exp() * (1.0 - even()) < 1.0 => -1.0,
                    ConvexLoss::Logistic => 1.0,
                    _ => score + 0.5 * even(),
                };
                let x: Vec<f32> = x.iter().map(|x| *x as f32).collect();
                builder.push(user, &x, y as f32).unwrap();
            }
            slopes.push(of_user);
        }
        (builder.build().0, slopes)
    }

    /// Mean squared distance of users' slopes from the true ones; for classes in logits.
    fn error(
        votes: &ModelVotes<'_>,
        prior: Option<&ModelPrior>,
        (samples, slopes): &(UserSamples, Vec<Vec<f64>>),
        scale: f64,
    ) -> f64 {
        let shared = SharedParts {
            models: votes.models,
            model_prior: prior,
            ..SharedParts::default()
        };
        let of_user = |(rows, slopes): (SampleRows<'_>, &Vec<f64>)| {
            let model = votes.fit.fit(&shared, rows);
            let both = model.coefficients().iter().zip(slopes);
            both.map(|(a, b)| (a - scale * b).powi(2)).sum::<f64>()
        };
        samples.users().zip(slopes).map(of_user).sum::<f64>() / 400.0
    }

    /// Users with few rows learn from the votes of all whether they differ.
    #[test]
    fn votes_tell_how_far_users_are_from_the_shared_model() {
        for (loss, scale) in [(ConvexLoss::Squared, 1.0), (ConvexLoss::Logistic, 3.0)] {
            let model = SHARED.map(|w| scale * w);
            let fit = WeighedFit::new(loss, OwnLevel::Near).unwrap();
            let votes = ModelVotes {
                fit,
                models: &[&model],
            };
            let mut explained = [0.0; 2];
            for (own, explained) in [0.0, 2.0].into_iter().zip(&mut explained) {
                let data = users(own, loss);
                let prior = votes.non_private(&data.0);
                *explained = prior.explained().map(|(share, w)| share * w).sum();
                let errors = [None, Some(&prior)].map(|prior| error(&votes, prior, &data, scale));
                // with one model for all a seventh and a thirteenth; where users differ, .74 and .95
                let most = if own > 0.0 { 0.97 } else { 0.2 };
                assert!(errors[1] < most * errors[0], "{loss:?} {own} {errors:?}");
            }
            assert!(explained[0] < explained[1], "{loss:?} {explained:?}");
        }
    }

    /// Undivided votes reach the bound; clear ones decide; votes that are lost in noise leave the weights of a user who knows nothing of others.
    #[test]
    fn clear_votes_decide_and_lost_ones_do_not() {
        let (n, noise) = (300.0, 3.0);
        let mut votes = [0.0; N_MODEL_VOTES];
        let places = [2, 1, 4, 5];
        let mut start = 0;
        for (at, len) in places.into_iter().zip(PARTS) {
            votes[start + at] = n;
            start += len;
        }
        let norm = votes.iter().map(|v| v * v).sum::<f64>().sqrt() / n;
        assert!((norm - ModelVotes::CLIP_NORM).abs() < 1e-12);
        let parts =
            |of: &ModelPrior| [&of.weights, &of.kinds, &of.strengths, &of.levels].map(Vec::clone);
        let lost = parts(&ModelPrior::voted(&votes, n));
        let clear = parts(&ModelPrior::voted(&votes, noise));
        for ((clear, even), at) in clear.iter().zip(&lost).zip(places) {
            // 291 of 291 + 2 * 9, and twice as far from the even prior in logarithms
            let lost = LOST * noise;
            let even = even[at];
            let once = (n - lost + 2.0 * lost * even) / (n + lost);
            let others = (1.0 - even) * ((1.0 - once) / (1.0 - even)).powi(2);
            let twice = even * (once / even).powi(2);
            assert!((clear[at] - twice / (twice + others)).abs() < 1e-12);
            assert!((clear.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
        assert!((lost[0][0] - 0.5).abs() < 1e-12 && (lost[1][0] - 1.0 / 19.0).abs() < 1e-12);
        let text = serde_json::to_string(&ModelPrior::voted(&votes, noise)).unwrap();
        let read: ModelPrior = serde_json::from_str(&text).unwrap();
        assert_eq!(read, ModelPrior::voted(&votes, noise));
        let damaged = text.replacen("\"kinds\":[", "\"kinds\":[0.1,", 1);
        assert!(serde_json::from_str::<ModelPrior>(&damaged).is_err());
    }
}
