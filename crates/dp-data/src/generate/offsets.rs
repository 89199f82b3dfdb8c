//! Linear regressions, one per user, that differ in a few coordinates, with rows generated on
//! demand.

use dp_core::params::{at_least_one, finite_non_negative, in_range};
use dp_core::{Interactions, InteractionsBuilder, Private, UserRow};
use dp_linalg::with_vector_instructions;
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::normals::{NormalLanes, halves, mix};
use super::ratings::NewRows;
use crate::Result;

/// Number of cells after a user's coefficients that hold the seed of the user's rows: 16 bits each.
const SEED_CELLS: usize = 4;

/// The synthetic setup of Bietti et al. 2022, section 6: users share all coefficients except a few.
///
/// ```text
/// theta_0 normal with standard deviation shared_stddev in dim coordinates
/// theta_i = theta_0, plus normal(0, personal_stddev^2) in each of the last n_personal coordinates
/// x normal, coordinate k with variance k^-feature_decay (k from 1);   y = <x, theta_i> + normal(0, label_noise^2)
/// ```
///
/// | parameter | figure 1a | range |
/// |---|---|---|
/// | `n_users` (`N`) | 1000 | 1 or above |
/// | `dim` (`d`) | 100 | 1 to 2^16 |
/// | `n_personal` | 5 | 0 to `dim` |
/// | `shared_stddev` | 10 | 0 or above |
/// | `personal_stddev` | 0.1 (printed: 0.01, with which the global model is best without noise, against the text) | 0 or above |
/// | `label_noise` | 0.01 | 0 or above |
/// | `feature_decay` | 1 | 0 or above |
///
/// The rows for one pass over `m` rows in each of `T` rounds are too large to store (4 GB at the
/// paper's sizes). Users therefore have their coefficients and a seed, and [`OffsetData::rows`]
/// regenerates any of their minibatches identically.
///
/// # Examples
/// ```
/// use dp_data::PersonalOffsets;
/// use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
/// let set_up = PersonalOffsets { n_users: 3, ..PersonalOffsets::figure_1a() };
/// let data = set_up.generate(&mut ChaCha8Rng::seed_from_u64(1))?;
/// let mut cells = Vec::new();
/// data.rows(data.table.expose().user(2), 0, 10, &mut cells);
/// assert_eq!(cells.len(), 10 * (100 + 1)); // each row: features, then the label
/// # Ok::<(), dp_data::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct PersonalOffsets {
    /// Number of users `N`.
    pub n_users: usize,
    /// Length of the features `d`.
    pub dim: usize,
    /// Number of coordinates in which users differ (the last ones).
    pub n_personal: usize,
    /// Standard deviation of the shared coefficients.
    pub shared_stddev: f64,
    /// Standard deviation of a user's offsets.
    pub personal_stddev: f64,
    /// Standard deviation of the label noise.
    pub label_noise: f64,
    /// Exponent by which the variance of the features decreases from coordinate to coordinate.
    pub feature_decay: f64,
}

/// Users of [`PersonalOffsets`] and the true coefficients.
#[allow(
    missing_debug_implementations,
    reason = "holds records that stand for private ones; printing them is never wanted"
)]
pub struct OffsetData {
    /// A table with one item; a user's features are the user's coefficients and seed, for
    /// [`rows`](Self::rows).
    pub table: Private<Interactions>,
    /// True coefficients `theta_i`, shape `(n_users, dim)`, row-major.
    pub coefficients: Vec<f64>,
    /// Variance of each coordinate of the features, length `dim`.
    pub feature_variances: Vec<f64>,
    label_noise: f32,
    stddevs: Vec<f32>,
}

impl PersonalOffsets {
    /// The setup of figure 1a.
    #[must_use]
    pub const fn figure_1a() -> Self {
        Self {
            n_users: 1000,
            dim: 100,
            n_personal: 5,
            shared_stddev: 10.0,
            personal_stddev: 0.1,
            label_noise: 0.01,
            feature_decay: 1.0,
        }
    }

    /// Draws the users; the same seed gives the same users.
    ///
    /// # Errors
    /// [`Error::Param`](crate::Error::Param) if a parameter is outside its range.
    pub fn generate<R: Rng + ?Sized>(&self, rng: &mut R) -> Result<OffsetData> {
        self.check()?;
        let shared: Vec<f64> = (0..self.dim)
            .map(|_| self.shared_stddev * normal(rng))
            .collect();
        let first_personal = self.dim - self.n_personal;
        let mut table = InteractionsBuilder::new(1).with_feature_dim(self.dim + SEED_CELLS);
        let mut coefficients = Vec::with_capacity(self.n_users * self.dim);
        for user in (0..u32::MAX).take(self.n_users) {
            let own = shared.iter().enumerate().map(|(at, &shared)| {
                let offset = if at < first_personal {
                    0.0
                } else {
                    self.personal_stddev * normal(rng)
                };
                to_f32(shared + offset)
            });
            let mut cells: Vec<f32> = own.collect();
            coefficients.extend(cells.iter().map(|&c| f64::from(c)));
            cells.extend(seed_cells(rng.next_u64()));
            table.push(user, 0, 1.0)?;
            table.set_features(user, &cells)?;
        }
        let variance = |k: usize| (k as f64).powf(-self.feature_decay);
        let feature_variances: Vec<f64> = (1..=self.dim).map(variance).collect();
        Ok(OffsetData {
            table: Private::new(table.build().0),
            coefficients,
            stddevs: feature_variances.iter().map(|v| to_f32(v.sqrt())).collect(),
            feature_variances,
            label_noise: to_f32(self.label_noise),
        })
    }

    fn check(&self) -> Result<()> {
        at_least_one("n_users", self.n_users)?;
        in_range(
            "dim",
            self.dim,
            1,
            1 << 16,
            "a whole number from 1 to 65536",
        )?;
        in_range("n_personal", self.n_personal, 0, self.dim, "0 to dim")?;
        finite_non_negative("shared_stddev", self.shared_stddev)?;
        finite_non_negative("personal_stddev", self.personal_stddev)?;
        finite_non_negative("label_noise", self.label_noise)?;
        finite_non_negative("feature_decay", self.feature_decay)?;
        Ok(())
    }
}

impl OffsetData {
    /// Writes minibatch number `step` of a user of [`table`](Self::table): `n_rows` rows, each with
    /// the `dim` features followed by the label, from that user's own cells only. Rows of different
    /// steps are independent. A user of another table has no rows.
    pub fn rows(&self, user: UserRow<'_>, step: u64, n_rows: usize, cells: &mut Vec<f32>) {
        let dim = self.stddevs.len();
        cells.clear();
        let Some((own, seed)) = user.features().split_at_checked(dim) else {
            return;
        };
        if seed.len() != SEED_CELLS {
            return;
        }
        cells.resize(n_rows * (dim + 1), 0.0);
        let seed = seed.iter().fold(0, |all, &c| (all << 16) | cell_bits(c));
        with_vector_instructions(NewRows {
            normals: NormalLanes::new(mix(seed ^ mix(step.wrapping_add(1)))),
            stddevs: &self.stddevs,
            label_noise: self.label_noise,
            own,
            cells,
        });
    }

    /// The mean over users of the excess risk of squared loss, `1/N sum_i ||model_i - theta_i||_Sigma^2`. `model` writes the
    /// coefficients of one user, by number.
    pub fn excess_risk(&self, mut model: impl FnMut(usize, &mut [f64])) -> f64 {
        let dim = self.feature_variances.len();
        let mut own = vec![0.0; dim];
        let users = self.coefficients.chunks_exact(dim);
        let n = users.len() as f64;
        let risks = users.enumerate().map(|(user, truth)| {
            model(user, &mut own);
            let terms = own.iter().zip(truth).zip(&self.feature_variances);
            terms.map(|((a, b), v)| v * (a - b) * (a - b)).sum::<f64>()
        });
        risks.sum::<f64>() / n
    }
}

fn seed_cells(seed: u64) -> [f32; SEED_CELLS] {
    let [high, low] = halves(seed);
    [high >> 16, high & 0xffff, low >> 16, low & 0xffff].map(|bits| bits as f32)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number of 16 bits"
)]
const fn cell_bits(cell: f32) -> u64 {
    cell as u64 & 0xffff
}

fn normal<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    StandardNormal.sample(rng)
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "records are stored in single precision"
)]
const fn to_f32(x: f64) -> f32 {
    x as f32
}

#[cfg(test)]
mod tests {
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    use super::*;

    fn made(set_up: PersonalOffsets) -> OffsetData {
        set_up.generate(&mut ChaCha8Rng::seed_from_u64(5)).unwrap()
    }

    #[test]
    fn labels_and_features_are_as_stated_and_users_differ_at_the_end_only() {
        let set_up = PersonalOffsets {
            n_users: 40,
            dim: 11,
            ..PersonalOffsets::figure_1a()
        };
        let data = made(set_up);
        let (mut noise, mut last, mut cells) = (0.0, 0.0, Vec::new());
        for (user, theta) in data.coefficients.chunks_exact(11).enumerate() {
            assert_eq!(theta[..6], data.coefficients[..6]);
            data.rows(data.table.expose().user(user), 3, 500, &mut cells);
            for row in cells.chunks_exact(12) {
                let x = row[..11].iter().map(|&x| f64::from(x));
                let residual = f64::from(row[11]) - x.zip(theta).map(|(x, t)| x * t).sum::<f64>();
                noise += residual * residual;
                last += f64::from(row[10] * row[10]);
            }
        }
        // chi-squares of 20,000 terms: seven relative standard deviations of 0.01
        assert!((noise / 20_000.0 / 1e-4 - 1.0).abs() < 0.07, "{noise}");
        assert!((last / 20_000.0 * 11.0 - 1.0).abs() < 0.07);
        let zero = data.excess_risk(|_, own| own.fill(0.0));
        let truth = data
            .excess_risk(|user, own| own.copy_from_slice(&data.coefficients[11 * user..][..11]));
        assert!(zero > 1.0 && truth == 0.0);
    }

    #[test]
    fn a_minibatch_is_the_same_each_time_and_steps_differ() {
        let data = made(PersonalOffsets {
            n_users: 2,
            dim: 6,
            ..PersonalOffsets::figure_1a()
        });
        let rows = |user, step| {
            let mut cells = Vec::new();
            data.rows(data.table.expose().user(user), step, 4, &mut cells);
            cells
        };
        assert_eq!(rows(0, 1), rows(0, 1));
        assert_ne!(rows(0, 1), rows(0, 2));
        assert_ne!(rows(0, 1)[0].to_bits(), rows(1, 1)[0].to_bits());
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        let good = PersonalOffsets::figure_1a();
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for bad in [
            PersonalOffsets { n_users: 0, ..good },
            PersonalOffsets { dim: 0, ..good },
            PersonalOffsets {
                n_personal: 101,
                ..good
            },
            PersonalOffsets {
                label_noise: f64::NAN,
                ..good
            },
            PersonalOffsets {
                personal_stddev: -1.0,
                ..good
            },
        ] {
            assert!(bad.generate(&mut rng).is_err(), "{bad:?}");
        }
    }
}
