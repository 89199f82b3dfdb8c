//! Ratings that follow from public features of items.

use dp_core::params::{at_least_one, finite_non_negative, in_range};
use dp_core::{Interactions, InteractionsBuilder, Private};
use rand::seq::index;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use super::ratings::ItemSampler;
use crate::Result;

/// A setup for learning with public features (Krichene et al. 2024, section 3.4): a linear encoder
/// of sparse item features, and users with known vectors.
///
/// ```text
/// x_j          features_per_item ones among n_features columns, scaled to norm 1
/// v_j          theta^T x_j, theta normal with standard deviation 1/sqrt(d): norm about 1
/// u_k          uniform on the unit sphere of R^d
/// items of k   items_per_user different ones, in proportion to 1/rank
/// y_kj         <u_k, v_j> + normal(0, label_noise^2), or a label of 1 or -1 with odds exp(logit_scale <u_k, v_j>)
/// ```
///
/// | parameter | default | range |
/// |---|---|---|
/// | `n_users` | 5,000 | 1 or above |
/// | `n_items` | 500 | 1 or above |
/// | `items_per_user` | 40 | 1 to `n_items` |
/// | `n_features` | given | 1 or above |
/// | `features_per_item` | 10 | 1 to `n_features` |
/// | `dim` | 8 | 1 or above |
/// | `labels` | values with noise 0.1 | noise 0 or above, scale 0 or above |
///
/// # Examples
/// ```
/// use dp_data::PublicFeatureTask;
/// use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
/// let set_up = PublicFeatureTask { n_users: 50, ..PublicFeatureTask::new(2000) };
/// let made = set_up.generate(&mut ChaCha8Rng::seed_from_u64(1))?;
/// assert_eq!(made.examples.expose().n_records(), 50 * 40);
/// assert_eq!(made.excess_risk(&made.item_vectors), 0.0);
/// # Ok::<(), dp_data::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct PublicFeatureTask {
    /// Number of users `n`.
    pub n_users: usize,
    /// Number of items `m`.
    pub n_items: usize,
    /// Number of items per user.
    pub items_per_user: usize,
    /// Number of features `p`.
    pub n_features: usize,
    /// Number of active features per item.
    pub features_per_item: usize,
    /// Length `d` of vectors.
    pub dim: usize,
    /// The kind of labels that users give.
    pub labels: GeneratedLabels,
}

impl PublicFeatureTask {
    /// The sizes above, with `n_features` features.
    #[must_use]
    pub const fn new(n_features: usize) -> Self {
        Self {
            n_users: 5000,
            n_items: 500,
            items_per_user: 40,
            n_features,
            features_per_item: 10,
            dim: 8,
            labels: GeneratedLabels::Values { noise: 0.1 },
        }
    }

    /// Draws a data set; the same seed gives the same one.
    ///
    /// # Errors
    /// [`Error::Param`](crate::Error::Param) if a parameter is outside its range.
    pub fn generate<R: Rng + ?Sized>(&self, rng: &mut R) -> Result<PublicFeatureData> {
        self.check()?;
        let features = self.features(rng);
        let item_vectors = self.item_vectors(&features, rng);
        let weights = (1..=self.n_items).map(|rank| 1.0 / rank as f64).collect();
        let mut sampler = ItemSampler::new(weights);
        let mut builder = InteractionsBuilder::new(self.n_items).with_feature_dim(self.dim);
        for user in (0_u32..).take(self.n_users) {
            let vector = to_f32(&sphere_point(self.dim, rng));
            builder.set_features(user, &vector)?;
            for item in sampler.draw(self.items_per_user, rng) {
                let v = &item_vectors[item as usize * self.dim..][..self.dim];
                builder.push(user, item, self.label(score(&vector, v), rng))?;
            }
        }
        Ok(PublicFeatureData {
            examples: Private::new(builder.build().0),
            features,
            item_vectors,
            dim: self.dim,
            logistic: matches!(self.labels, GeneratedLabels::Signs { .. }),
        })
    }

    fn check(&self) -> Result<()> {
        let most = u32::MAX as usize;
        in_range("n_users", self.n_users, 1, most, "1 to 2^32 - 1")?;
        in_range("n_items", self.n_items, 1, most, "1 to 2^32 - 1")?;
        in_range("n_features", self.n_features, 1, most, "1 to 2^32 - 1")?;
        at_least_one("dim", self.dim)?;
        let (items, features) = (self.n_items, self.n_features);
        in_range(
            "items_per_user",
            self.items_per_user,
            1,
            items,
            "1 to n_items",
        )?;
        let per_item = self.features_per_item;
        in_range(
            "features_per_item",
            per_item,
            1,
            features,
            "1 to n_features",
        )?;
        match self.labels {
            GeneratedLabels::Values { noise } => finite_non_negative("noise", noise)?,
            GeneratedLabels::Signs { scale } => finite_non_negative("scale", scale)?,
        };
        Ok(())
    }

    fn features<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<(u32, u32)> {
        let mut pairs = Vec::with_capacity(self.n_items * self.features_per_item);
        for item in (0_u32..).take(self.n_items) {
            let drawn = index::sample(rng, self.n_features, self.features_per_item);
            let mut own: Vec<_> = drawn
                .into_iter()
                .filter_map(|f| u32::try_from(f).ok())
                .collect();
            own.sort_unstable();
            pairs.extend(own.into_iter().map(|feature| (item, feature)));
        }
        pairs
    }

    fn item_vectors<R: Rng + ?Sized>(&self, features: &[(u32, u32)], rng: &mut R) -> Vec<f64> {
        let normal = |_| -> f64 { StandardNormal.sample(rng) };
        let theta: Vec<f64> = (0..self.n_features * self.dim).map(normal).collect();
        let scale = match self.labels {
            GeneratedLabels::Values { .. } => 1.0,
            GeneratedLabels::Signs { scale } => scale,
        };
        let scale = scale / ((self.features_per_item * self.dim) as f64).sqrt();
        let mut vectors = vec![0.0; self.n_items * self.dim];
        for &(item, feature) in features {
            let row = &theta[feature as usize * self.dim..][..self.dim];
            let vector = &mut vectors[item as usize * self.dim..][..self.dim];
            vector
                .iter_mut()
                .zip(row)
                .for_each(|(v, t)| *v += scale * t);
        }
        vectors
    }

    fn label<R: Rng + ?Sized>(&self, score: f64, rng: &mut R) -> f32 {
        match self.labels {
            GeneratedLabels::Values { noise } => {
                let normal: f64 = StandardNormal.sample(rng);
                to_f32(&[score + noise * normal])[0]
            }
            GeneratedLabels::Signs { .. } if rng.random::<f64>() < sigmoid(score) => 1.0,
            GeneratedLabels::Signs { .. } => -1.0,
        }
    }
}

/// A normal vector divided by its length.
fn sphere_point<R: Rng + ?Sized>(dim: usize, rng: &mut R) -> Vec<f64> {
    let mut point: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(rng)).collect();
    let norm = point.iter().map(|x| x * x).sum::<f64>().sqrt();
    point.iter_mut().for_each(|x| *x /= norm);
    point
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "records are stored in single precision"
)]
fn to_f32(x: &[f64]) -> Vec<f32> {
    x.iter().map(|&x| x as f32).collect()
}

/// The labels that users of a [`PublicFeatureTask`](PublicFeatureTask) give to items.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)
)]
pub enum GeneratedLabels {
    /// `<u, v>` plus normal noise.
    Values {
        /// Standard deviation of the noise.
        noise: f64,
    },
    /// 1 with probability `1 / (1 + exp(-scale <u, v>))`, otherwise -1.
    Signs {
        /// Scale of the logits.
        scale: f64,
    },
}

/// Generated examples with the true parameters.
#[allow(
    missing_debug_implementations,
    reason = "holds records that stand for private ones; printing them is never wanted"
)]
pub struct PublicFeatureData {
    /// Users' labels of items, with the users' vectors as features.
    pub examples: Private<Interactions>,
    /// Pairs of item and active feature, items increasing.
    pub features: Vec<(u32, u32)>,
    /// True item vectors, shape `(n_items, dim)`, row-major. For signs they carry the scale of the logits.
    pub item_vectors: Vec<f64>,
    dim: usize,
    logistic: bool,
}

impl PublicFeatureData {
    /// Mean over all examples of the excess loss of item vectors compared with the true ones, given
    /// users and items, averaged over labels.
    ///
    /// ```text
    /// values:  <u, v^ - v>^2 / 2      the paper's loss (y - <u, v>)^2 / 2 above its least
    /// signs:   KL divergence of the label's law under v^ from that under v: the logistic loss above its least
    /// ```
    ///
    /// # Panics
    /// If `item_vectors` has another shape.
    #[must_use]
    pub fn excess_risk(&self, item_vectors: &[f64]) -> f64 {
        assert_eq!(item_vectors.len(), self.item_vectors.len());
        let examples = self.examples.expose();
        let mut sum = 0.0;
        for user in examples.users() {
            for &item in user.items() {
                let of = |all: &[f64]| score(user.features(), &all[item as usize * self.dim..]);
                let (true_score, score) = (of(&self.item_vectors), of(item_vectors));
                sum += if self.logistic {
                    logistic_excess(true_score, score)
                } else {
                    0.5 * (score - true_score).powi(2)
                };
            }
        }
        sum / examples.n_records().max(1) as f64
    }
}

fn logistic_excess(true_score: f64, score: f64) -> f64 {
    let p = sigmoid(true_score);
    let loss = |s: f64| p * softplus(-s) + (1.0 - p) * softplus(s);
    loss(score) - loss(true_score)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn score(u: &[f32], v: &[f64]) -> f64 {
    u.iter().zip(v).map(|(&u, v)| f64::from(u) * v).sum()
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    fn rng() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(3)
    }

    #[test]
    fn sizes_popularity_and_noise_are_as_stated() {
        let made = PublicFeatureTask::new(2000).generate(&mut rng()).unwrap();
        let table = made.examples.expose();
        assert_eq!((table.n_users(), table.n_records()), (5000, 200_000));
        assert_eq!(made.features.len(), 5000);
        let mut counts = vec![0_u32; 500];
        let mut squares = 0.0;
        for user in table.users() {
            let norm: f32 = user.features().iter().map(|x| x * x).sum();
            assert!((norm - 1.0).abs() < 1e-5);
            for (item, y) in user.iter() {
                counts[item as usize] += 1;
                let v = &made.item_vectors[item as usize * 8..][..8];
                squares += (f64::from(y) - score(user.features(), v)).powi(2);
            }
        }
        // 200,000 squares of N(0, .01): standard deviation of the mean .0000316
        assert!((squares / 2e5 - 0.01).abs() < 7.0 * 3.2e-5);
        assert!(counts[0] > 4 * counts[20] / 3 && counts[20] > 5 * counts[400]);
        // zero vectors: E <u, v>^2 = ||v||^2 / d, and ||v|| is about 1
        let nothing = made.excess_risk(&vec![0.0; 4000]);
        assert!((nothing - 0.0625).abs() < 0.03, "{nothing}");
    }

    #[test]
    fn signs_follow_their_odds_and_the_truth_has_no_excess() {
        let labels = GeneratedLabels::Signs { scale: 4.0 };
        let set_up = PublicFeatureTask {
            n_users: 500,
            labels,
            ..PublicFeatureTask::new(50)
        };
        let made = set_up.generate(&mut rng()).unwrap();
        let (mut seen, mut expected) = (0.0, 0.0);
        for user in made.examples.expose().users() {
            for (item, y) in user.iter() {
                assert!((y.abs() - 1.0).abs() < f32::EPSILON);
                let v = &made.item_vectors[item as usize * 8..][..8];
                let s = score(user.features(), v);
                seen += f64::from(y) * s;
                expected += (2.0 * sigmoid(s) - 1.0) * s;
            }
        }
        // 20,000 terms of size 1.4 or so: standard deviation below 250
        assert!((seen - expected).abs() < 7.0 * 250.0 && expected > 3000.0);
        assert!(made.excess_risk(&made.item_vectors).abs() < 1e-15);
        assert!(made.excess_risk(&vec![0.0; 4000]) > 0.05);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let good = PublicFeatureTask {
            n_users: 3,
            ..PublicFeatureTask::new(20)
        };
        let bad = [
            PublicFeatureTask { n_users: 0, ..good },
            PublicFeatureTask {
                items_per_user: 501,
                ..good
            },
            PublicFeatureTask {
                features_per_item: 21,
                ..good
            },
            PublicFeatureTask {
                n_features: 0,
                ..good
            },
            PublicFeatureTask { dim: 0, ..good },
            PublicFeatureTask {
                labels: GeneratedLabels::Values { noise: f64::NAN },
                ..good
            },
            PublicFeatureTask {
                labels: GeneratedLabels::Signs { scale: -1.0 },
                ..good
            },
        ];
        assert!(good.generate(&mut rng()).is_ok());
        for set_up in bad {
            assert!(set_up.generate(&mut rng()).is_err(), "{set_up:?}");
        }
    }
}
