//! Linear regressions, one per user, whose coefficients share a subspace.

use dp_core::params::{at_least_one, finite_non_negative, in_range};
use dp_core::{UserSamples, UserSamplesBuilder};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::Result;

/// The synthetic setup of Jain et al. 2021, section 6: every user has a separate linear regression,
/// and all coefficients lie in one subspace of low dimension.
///
/// ```text
/// U* orthonormal, dim x rank, uniform;   v_j normal in rank dimensions;   theta_j = U* v_j
/// x_ij normal, coordinate c with variance c^-feature_decay (c from 1);   y_ij = <x_ij, theta_j> + normal(0, label_noise^2)
/// ```
///
/// | parameter | default | range |
/// |---|---|---|
/// | `n_users` | 50,000 | 1 or above |
/// | `rows_per_user` (`m`) | 10 | 1 or above |
/// | `dim` (`d`) | 50 | 1 or above |
/// | `rank` (`k`) | 2 | 1 to `dim` |
/// | `label_noise` | 0.01 | 0 or above |
/// | `feature_decay` | 0 | 0 or above; 0 is the isotropic setup of the paper |
///
/// # Examples
/// ```
/// use dp_data::SharedSubspace;
/// use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
/// let set_up = SharedSubspace { n_users: 20, ..SharedSubspace::section_6() };
/// let data = set_up.generate(&mut ChaCha8Rng::seed_from_u64(1))?;
/// assert_eq!((data.samples.n_features(), data.samples.max_rows()), (50, 10));
/// assert_eq!(data.coefficients.len(), 20 * 50);
/// # Ok::<(), dp_data::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct SharedSubspace {
    /// Number of users `n`.
    pub n_users: usize,
    /// Number of rows per user `m`.
    pub rows_per_user: usize,
    /// Length of the features `d`.
    pub dim: usize,
    /// Dimension of the shared subspace `k`.
    pub rank: usize,
    /// Standard deviation of the label noise.
    pub label_noise: f64,
    /// Exponent by which the variance of the features decreases from coordinate to coordinate.
    pub feature_decay: f64,
}

/// Generated samples and the true parameters.
#[allow(
    missing_debug_implementations,
    reason = "holds records that stand for private ones; printing them is never wanted"
)]
pub struct SubspaceData {
    /// Every user's rows.
    pub samples: UserSamples,
    /// True orthonormal basis `U*`, shape `(dim, rank)`, row-major.
    pub basis: Vec<f64>,
    /// True coefficients `theta_j`, shape `(n_users, dim)`, row-major.
    pub coefficients: Vec<f64>,
    /// Variance of each coordinate of the features, length `dim`.
    pub feature_variances: Vec<f64>,
}

impl SharedSubspace {
    /// The paper's sizes.
    #[must_use]
    pub const fn section_6() -> Self {
        Self {
            n_users: 50_000,
            rows_per_user: 10,
            dim: 50,
            rank: 2,
            label_noise: 0.01,
            feature_decay: 0.0,
        }
    }

    /// Draws a data set; the same seed gives the same one.
    ///
    /// # Errors
    /// [`Error::Param`](crate::Error::Param) if a parameter is outside its range.
    pub fn generate<R: Rng + ?Sized>(&self, rng: &mut R) -> Result<SubspaceData> {
        self.check()?;
        let variances: Vec<f64> = (1..=self.dim)
            .map(|c| (c as f64).powf(-self.feature_decay))
            .collect();
        let basis = orthonormal(self.dim, self.rank, rng);
        let mut coefficients = Vec::with_capacity(self.n_users * self.dim);
        let mut builder = UserSamplesBuilder::new(self.dim, self.rows_per_user)?;
        let mut x = vec![0.0_f32; self.dim];
        for user in (0..u32::MAX).take(self.n_users) {
            let own = normals(self.rank, rng);
            let theta: Vec<f64> = basis
                .chunks_exact(self.rank)
                .map(|u| inner(u, &own))
                .collect();
            for _ in 0..self.rows_per_user {
                let mut y: f64 = self.label_noise * normal(rng);
                for ((x, &variance), &t) in x.iter_mut().zip(&variances).zip(&theta) {
                    *x = to_f32(variance.sqrt() * normal(rng));
                    y += f64::from(*x) * t;
                }
                builder.push(user, &x, to_f32(y))?;
            }
            coefficients.extend(theta);
        }
        Ok(SubspaceData {
            samples: builder.build().0,
            basis,
            coefficients,
            feature_variances: variances,
        })
    }

    fn check(&self) -> Result<()> {
        at_least_one("n_users", self.n_users)?;
        at_least_one("rows_per_user", self.rows_per_user)?;
        at_least_one("dim", self.dim)?;
        in_range(
            "rank",
            self.rank,
            1,
            self.dim,
            "a whole number from 1 to dim",
        )?;
        finite_non_negative("label_noise", self.label_noise)?;
        finite_non_negative("feature_decay", self.feature_decay)?;
        Ok(())
    }
}

/// Orthonormal columns, shape `(dim, rank)` row-major, by Gram-Schmidt on normal vectors.
fn orthonormal<R: Rng + ?Sized>(dim: usize, rank: usize, rng: &mut R) -> Vec<f64> {
    let mut columns: Vec<Vec<f64>> = Vec::new();
    for _ in 0..rank {
        let mut column = normals(dim, rng);
        for _ in 0..2 {
            for earlier in &columns {
                let along = inner(&column, earlier);
                column
                    .iter_mut()
                    .zip(earlier)
                    .for_each(|(c, e)| *c -= along * e);
            }
        }
        let norm = inner(&column, &column).sqrt();
        column.iter_mut().for_each(|c| *c /= norm);
        columns.push(column);
    }
    (0..dim * rank)
        .map(|at| columns[at % rank][at / rank])
        .collect()
}

fn normal<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    StandardNormal.sample(rng)
}

fn normals<R: Rng + ?Sized>(n: usize, rng: &mut R) -> Vec<f64> {
    (0..n).map(|_| normal(rng)).collect()
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "records are stored in single precision"
)]
fn to_f32(x: f64) -> f32 {
    x as f32
}

#[cfg(test)]
mod tests {
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    use super::*;

    #[test]
    fn labels_and_variances_are_as_stated_and_coefficients_share_the_subspace() {
        let set_up = SharedSubspace {
            n_users: 2_000,
            dim: 8,
            feature_decay: 0.5,
            ..SharedSubspace::section_6()
        };
        let data = set_up.generate(&mut ChaCha8Rng::seed_from_u64(3)).unwrap();
        let (mut squares, mut last) = (0.0, 0.0);
        for (rows, theta) in data.samples.users().zip(data.coefficients.chunks_exact(8)) {
            for (x, y) in rows.iter() {
                let x: Vec<f64> = x.iter().map(|&x| x.into()).collect();
                squares += (f64::from(y) - inner(&x, theta)).powi(2);
                last += x[7] * x[7];
            }
            let own: Vec<f64> = (0..2)
                .map(|c| {
                    data.basis
                        .iter()
                        .skip(c)
                        .step_by(2)
                        .zip(theta)
                        .map(|(u, t)| u * t)
                        .sum()
                })
                .collect();
            assert!((inner(&own, &own) - inner(theta, theta)).abs() < 1e-10);
        }
        // chi-squares of 20,000 terms: relative standard deviation 0.01
        assert!((squares / 20_000.0 / 1e-4 - 1.0).abs() < 0.07);
        assert!((last / 20_000.0 * 8.0_f64.sqrt() - 1.0).abs() < 0.07);
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        let good = SharedSubspace {
            n_users: 2,
            dim: 3,
            ..SharedSubspace::section_6()
        };
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        assert!(good.generate(&mut rng).is_ok());
        for bad in [
            SharedSubspace { n_users: 0, ..good },
            SharedSubspace {
                rows_per_user: 0,
                ..good
            },
            SharedSubspace { rank: 4, ..good },
            SharedSubspace { rank: 0, ..good },
            SharedSubspace {
                label_noise: f64::NAN,
                ..good
            },
            SharedSubspace {
                feature_decay: -1.0,
                ..good
            },
        ] {
            assert!(bad.generate(&mut rng).is_err(), "{bad:?}");
        }
    }
}
