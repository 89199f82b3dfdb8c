//! Many linear regressions with a skewed number of users per task.

use dp_core::params::{at_least_one, finite_non_negative, finite_positive, in_range, open_unit};
use dp_core::{Interactions, InteractionsBuilder, ParamError, Private};
use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use crate::Result;

/// The synthetic setup of Krichene et al. 2023, appendix C: linear regression tasks whose numbers
/// of users follow a power law.
///
/// ```text
/// x_j, theta_i   normal in d dimensions, projected on the unit ball
/// y_ij = <x_j, theta_i> + normal(0, label_noise^2)
/// q_i  ~ density a q^(a-1) on [0, 1], then scaled to sum to tasks_per_user, at most 1
/// user j has task i with probability q_i;  each pair is training data with probability .8
/// ```
///
/// The smaller `a` is, the heavier is the tail of small tasks. Tasks are the items of the tables,
/// and the `x_j` are the features of their users.
///
/// | parameter | default | range |
/// |---|---|---|
/// | `n_users` | 10,000 | 1 to 2^32 - 1 |
/// | `n_tasks` | 100 | 1 or above |
/// | `dim` | 5 | 1 or above |
/// | `tasks_per_user` | 20 | above 0, at most `n_tasks` |
/// | `skew` (`a`) | given | above 0 |
/// | `label_noise` | 0.001 | 0 or above |
/// | `train_fraction` | 0.8 | strictly between 0 and 1 |
///
/// # Examples
/// ```
/// use dp_data::SkewedTasks;
/// use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
/// let set_up = SkewedTasks { n_users: 200, ..SkewedTasks::appendix_c(1.0) };
/// let data = set_up.generate(&mut ChaCha8Rng::seed_from_u64(1))?;
/// assert_eq!(data.train.expose().feature_dim(), 5);
/// assert_eq!(data.coefficients.len(), 100 * 5);
/// # Ok::<(), dp_data::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct SkewedTasks {
    /// Number of users `n`.
    pub n_users: usize,
    /// Number of tasks `m`.
    pub n_tasks: usize,
    /// Length of features and coefficients `d`.
    pub dim: usize,
    /// Average number of tasks per user.
    pub tasks_per_user: f64,
    /// Parameter `a` of the power law.
    pub skew: f64,
    /// Standard deviation of the label noise.
    pub label_noise: f64,
    /// Probability that a pair is training data; otherwise it is test data.
    pub train_fraction: f64,
}

/// Generated regression data and the true parameters.
#[allow(
    missing_debug_implementations,
    reason = "holds records that stand for private ones; printing them is never wanted"
)]
pub struct TaskData {
    /// Training pairs, with the users' features.
    pub train: Private<Interactions>,
    /// Test pairs of the same users.
    pub test: Private<Interactions>,
    /// True coefficients `theta_i`, shape `(n_tasks, dim)`, row-major.
    pub coefficients: Vec<f64>,
}

impl SkewedTasks {
    /// The paper's sizes, with `a = skew`; the paper has 1 and 2.
    #[must_use]
    pub const fn appendix_c(skew: f64) -> Self {
        Self {
            n_users: 10_000,
            n_tasks: 100,
            dim: 5,
            tasks_per_user: 20.0,
            skew,
            label_noise: 1e-3,
            train_fraction: 0.8,
        }
    }

    /// Draws a data set; the same seed gives the same one.
    ///
    /// # Errors
    /// [`Error::Param`](crate::Error::Param) if a parameter is outside its range.
    pub fn generate<R: Rng + ?Sized>(&self, rng: &mut R) -> Result<TaskData> {
        self.check()?;
        let coefficients = ball_points(self.n_tasks, self.dim, rng);
        let probabilities = self.probabilities(rng);
        let builder = || InteractionsBuilder::new(self.n_tasks).with_feature_dim(self.dim);
        let mut parts = [builder(), builder()];
        for user in (0..u32::MAX).take(self.n_users) {
            let x = ball_points(1, self.dim, rng);
            let features = to_f32(&x);
            for part in &mut parts {
                part.set_features(user, &features)?;
            }
            for (task, theta) in (0..).zip(coefficients.chunks_exact(self.dim)) {
                if rng.random::<f64>() >= probabilities[task as usize] {
                    continue;
                }
                let noise: f64 = StandardNormal.sample(rng);
                let label = inner(&x, theta) + self.label_noise * noise;
                let part = usize::from(rng.random::<f64>() >= self.train_fraction);
                parts[part].push(user, task, to_f32(&[label])[0])?;
            }
        }
        let [train, test] = parts.map(|part| Private::new(part.build().0));
        Ok(TaskData {
            train,
            test,
            coefficients,
        })
    }

    fn check(&self) -> Result<()> {
        in_range(
            "n_users",
            self.n_users,
            1,
            u32::MAX as usize,
            "1 to 2^32 - 1",
        )?;
        at_least_one("n_tasks", self.n_tasks)?;
        at_least_one("dim", self.dim)?;
        finite_positive("tasks_per_user", self.tasks_per_user)?;
        finite_positive("skew", self.skew)?;
        finite_non_negative("label_noise", self.label_noise)?;
        open_unit("train_fraction", self.train_fraction)?;
        if self.tasks_per_user > self.n_tasks as f64 {
            return Err(
                ParamError::new("tasks_per_user", self.tasks_per_user, "at most n_tasks").into(),
            );
        }
        Ok(())
    }

    /// `q_i`, by inverting the distribution function `q^a`.
    fn probabilities<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<f64> {
        let raw: Vec<f64> = (0..self.n_tasks)
            .map(|_| rng.random::<f64>().powf(1.0 / self.skew))
            .collect();
        let scale = self.tasks_per_user / raw.iter().sum::<f64>();
        raw.iter().map(|q| (q * scale).min(1.0)).collect()
    }
}

/// Normal vectors of shape `(n, dim)`; those longer than 1 are shortened to length 1.
fn ball_points<R: Rng + ?Sized>(n: usize, dim: usize, rng: &mut R) -> Vec<f64> {
    let mut points: Vec<f64> = (0..n * dim).map(|_| StandardNormal.sample(rng)).collect();
    for point in points.chunks_exact_mut(dim) {
        let norm = inner(point, point).sqrt().max(1.0);
        point.iter_mut().for_each(|x| *x /= norm);
    }
    points
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "records are stored in single precision"
)]
fn to_f32(x: &[f64]) -> Vec<f32> {
    x.iter().map(|&x| x as f32).collect()
}

#[cfg(test)]
mod tests {
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    use super::*;

    #[test]
    fn sizes_split_and_labels_are_as_stated() {
        let set_up = SkewedTasks {
            n_users: 4_000,
            ..SkewedTasks::appendix_c(2.0)
        };
        let data = set_up.generate(&mut ChaCha8Rng::seed_from_u64(3)).unwrap();
        let (train, test) = (data.train.expose(), data.test.expose());
        let n = (train.n_records() + test.n_records()) as f64;
        // about 80,000 pairs, standard deviation below 283; 80 % of them, standard deviation 114
        assert!((n - 80_000.0).abs() < 7.0 * 283.0, "{n}");
        assert!((train.n_records() as f64 - 0.8 * n).abs() < 7.0 * 114.0);
        let mut squares = 0.0;
        for row in train.users() {
            let x: Vec<f64> = row.features().iter().map(|&x| x.into()).collect();
            assert!(inner(&x, &x) <= 1.0 + 1e-6);
            for (task, y) in row.iter() {
                let theta = &data.coefficients[task as usize * 5..][..5];
                squares += (f64::from(y) - inner(&x, theta)).powi(2);
            }
        }
        // chi-square of 64,000 terms: relative standard deviation 0.0056
        let variance = squares / train.n_records() as f64;
        assert!((variance / 1e-6 - 1.0).abs() < 7.0 * 0.0056, "{variance}");
    }

    #[test]
    fn the_smaller_the_parameter_the_smaller_the_smallest_tasks() {
        let lowest_tenth = |skew| {
            let set_up = SkewedTasks {
                n_tasks: 2_000,
                ..SkewedTasks::appendix_c(skew)
            };
            let mut q = set_up.probabilities(&mut ChaCha8Rng::seed_from_u64(4));
            assert!((q.iter().sum::<f64>() - 20.0).abs() < 1e-9);
            q.sort_by(f64::total_cmp);
            q[..200].iter().sum::<f64>() / 20.0
        };
        // share of the lowest tenth is 0.1^(1 + 1/a)
        assert!((lowest_tenth(1.0) - 0.01).abs() < 0.002);
        assert!((lowest_tenth(2.0) - 0.0316).abs() < 0.004);
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let good = SkewedTasks {
            n_users: 3,
            ..SkewedTasks::appendix_c(1.0)
        };
        let bad = [
            SkewedTasks { n_users: 0, ..good },
            SkewedTasks {
                n_users: 1 << 32,
                ..good
            },
            SkewedTasks { dim: 0, ..good },
            SkewedTasks { skew: 0.0, ..good },
            SkewedTasks {
                tasks_per_user: 101.0,
                ..good
            },
            SkewedTasks {
                label_noise: f64::NAN,
                ..good
            },
            SkewedTasks {
                train_fraction: 1.0,
                ..good
            },
        ];
        assert!(good.generate(&mut rng).is_ok());
        for set_up in bad {
            assert!(set_up.generate(&mut rng).is_err(), "{set_up:?}");
        }
    }
}
