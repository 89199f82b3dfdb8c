//! What a user thinks of an item before noise and rounding.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::LongTailRatings;

/// Normal quantiles of MovieLens-1M's cumulated star shares
/// (56,172, 107,556, 261,196, 348,970, 226,309 of 1,000,203).
const STAR_CUTS: [f64; 4] = [-1.587_845_9, -0.979_385_5, -0.189_532_5, 0.751_210_2];
const ITEM_POPULARITY_CORRELATION: f64 = 0.35;
const USER_ACTIVITY_CORRELATION: f64 = -0.2;

/// Stars of a latent value of mean 0 and variance 1 over the ratings.
pub(super) fn stars(latent: f64) -> f32 {
    STAR_CUTS.iter().fold(
        1.0,
        |stars, &cut| if latent > cut { stars + 1.0 } else { stars },
    )
}

/// Independent standard normal numbers.
pub(super) fn standard_normals<R: Rng + ?Sized>(n: usize, rng: &mut R) -> Vec<f64> {
    (0..n).map(|_| StandardNormal.sample(rng)).collect()
}

/// Biases and factors of users and items.
pub(super) struct TasteModel {
    rank: usize,
    user_bias: Vec<f64>,
    item_bias: Vec<f64>,
    user_factors: Vec<f64>,
    item_factors: Vec<f64>,
}

impl TasteModel {
    /// Draws a model whose parts have the parameters' shares of variance over `lists`.
    pub(super) fn draw<R: Rng + ?Sized>(
        params: &LongTailRatings,
        activity: &[f64],
        popularity: &[f64],
        lists: &[Vec<u32>],
        rng: &mut R,
    ) -> Self {
        let per_user: Vec<f64> = lists.iter().map(|list| list.len() as f64).collect();
        let mut per_item = vec![0.0; popularity.len()];
        for &item in lists.iter().flatten() {
            per_item[item as usize] += 1.0;
        }
        let mut user_bias = correlated(activity, USER_ACTIVITY_CORRELATION, rng);
        standardise(&mut user_bias, &per_user, params.user_share());
        let mut item_bias = correlated(popularity, ITEM_POPULARITY_CORRELATION, rng);
        standardise(&mut item_bias, &per_item, params.item_share());
        let rank = params.rank();
        let mut item_factors = standard_normals(popularity.len() * rank, rng);
        scale_coordinates(&mut item_factors, rank, params.taste_share());
        Self {
            rank,
            user_bias,
            item_bias,
            user_factors: standard_normals(activity.len() * rank, rng),
            item_factors,
        }
    }

    /// The latent value before noise.
    pub(super) fn mean(&self, user: usize, item: usize) -> f64 {
        let p = &self.user_factors[user * self.rank..][..self.rank];
        let q = &self.item_factors[item * self.rank..][..self.rank];
        let taste: f64 = p.iter().zip(q).map(|(p, q)| p * q).sum();
        self.user_bias[user] + self.item_bias[item] + taste
    }
}

/// Standard normal numbers with the given correlation to `scores`.
fn correlated<R: Rng + ?Sized>(scores: &[f64], correlation: f64, rng: &mut R) -> Vec<f64> {
    let own = correlation.mul_add(-correlation, 1.0).sqrt();
    scores
        .iter()
        .map(|score| {
            let z: f64 = StandardNormal.sample(rng);
            correlation * score + own * z
        })
        .collect()
}

/// Shifts and scales `values` to weighted mean 0 and weighted variance `variance`.
fn standardise(values: &mut [f64], weights: &[f64], variance: f64) {
    let total: f64 = weights.iter().sum();
    let weighted = |of: &dyn Fn(f64) -> f64, numbers: &[f64]| {
        let sum: f64 = numbers.iter().zip(weights).map(|(&v, w)| of(v) * w).sum();
        sum / total
    };
    let mean = weighted(&|v| v, values);
    values.iter_mut().for_each(|v| *v -= mean);
    let found = weighted(&|v| v * v, values);
    if found > 0.0 {
        let scale = (variance / found).sqrt();
        values.iter_mut().for_each(|v| *v *= scale);
    }
}

/// Scales coordinate k of every factor so that it carries variance in proportion to 1/k and all
/// together carry `variance` against factors of variance 1.
fn scale_coordinates(factors: &mut [f64], rank: usize, variance: f64) {
    let harmonic: f64 = (1..=rank).map(|k| 1.0 / k as f64).sum();
    let scales: Vec<f64> = (1..=rank)
        .map(|k| (variance / (k as f64 * harmonic)).sqrt())
        .collect();
    for factor in factors.chunks_exact_mut(rank) {
        factor.iter_mut().zip(&scales).for_each(|(f, s)| *f *= s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_step_at_the_cuts() {
        for (latent, expected) in [
            (-9.0, 1.0),
            (-1.0, 2.0),
            (-0.5, 3.0),
            (0.0, 4.0),
            (0.75, 4.0),
            (0.76, 5.0),
            (9.0, 5.0),
        ] {
            assert_eq!(stars(latent).to_bits(), f32::to_bits(expected), "{latent}");
        }
    }

    #[test]
    fn standardised_values_have_the_variance_asked_for_under_their_weights() {
        let mut values = vec![1.0, 2.0, 10.0, 7.0];
        let weights = [5.0, 1.0, 2.0, 0.0];
        standardise(&mut values, &weights, 0.25);
        let moment = |power: i32| {
            let sum: f64 = values
                .iter()
                .zip(&weights)
                .map(|(v, w)| w * v.powi(power))
                .sum();
            sum / 8.0
        };
        assert!(moment(1).abs() < 1e-15);
        assert!((moment(2) - 0.25).abs() < 1e-15);
    }

    #[test]
    fn coordinates_share_the_variance_harmonically() {
        let mut factors = vec![1.0; 6];
        scale_coordinates(&mut factors, 3, 0.22);
        let variances: Vec<f64> = factors[3..].iter().map(|f| f * f).collect();
        for (variance, expected) in variances.iter().zip([0.12, 0.06, 0.04]) {
            assert!((variance - expected).abs() < 1e-15);
        }
    }
}
