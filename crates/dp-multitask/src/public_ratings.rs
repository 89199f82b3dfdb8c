//! Item biases and taste factors from public ratings, for an [`ItemPrior`](crate::ItemPrior).
//! Nothing here is private.

use dp_core::{Interactions, Private, params};
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use crate::{NonPrivateAls, Result};

/// Item information from public ratings: item biases and taste factors by least squares, and a
/// linear prediction from features where ratings are few.
///
/// ```text
/// x_i = (h_i, q_i)                      by NonPrivateAls with ridge lambda on the n_i ratings of item i
/// rho_i = n_i / (n_i + lambda)          approximate share of an item's own parameters that the ridge retains
/// B = argmin sum_i n_i |x_i - rho_i B f_i|^2 + lambda |B|^2,     x_i <- x_i + (1 - rho_i) B f_i
/// se_i^2 = s^2 / (n_i + lambda)         s^2 the mean squared residual of ratings around their user's and item's model
/// ```
///
/// `f_i` are the item's features and a constant. Items without ratings get `B f_i`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PublicRatings {
    /// Number of taste factors of an item, 0 to 255.
    pub n_tastes: usize,
    /// `lambda`, in ratings, above 0.
    pub l2_penalty: f64,
}

impl Default for PublicRatings {
    fn default() -> Self {
        Self {
            n_tastes: 9,
            l2_penalty: 10.0,
        }
    }
}

/// Item parameters of public ratings.
#[derive(Debug, Clone, PartialEq)]
pub struct PublicItems {
    /// Rows `[h_i, q_i]`, shape `(n_items, 1 + n_tastes)`.
    pub rows: Vec<f64>,
    /// Approximate standard error of each number in an item's row, in data units times users' taste
    /// factors.
    pub standard_errors: Vec<f64>,
}

impl PublicRatings {
    /// Fits all items; `features` has a row for each item, or is empty. For public ratings only:
    /// the result reveals them.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when a setting is out of range, [`crate::Error::Shape`] when items
    /// have different numbers of features.
    pub fn fit(self, ratings: Interactions, features: &[f64]) -> Result<PublicItems> {
        let expected = "a whole number from 0 to 255";
        let dim = 1 + params::in_range("n_tastes", self.n_tastes, 0, 255, expected)?;
        params::finite_positive("l2_penalty", self.l2_penalty)?;
        let (n_items, n_records) = (ratings.n_items(), ratings.n_records());
        params::at_least_one("n_records", n_records)?;
        let n_features = features.len() / n_items.max(1);
        params::same_size("features", features.len(), n_features * n_items)?;
        let values = || ratings.users().flat_map(|user| user.values().to_vec());
        let mean = values().map(f64::from).sum::<f64>() / n_records as f64;
        let mut counts = vec![0.0; n_items];
        for user in ratings.users() {
            for &item in user.items() {
                counts[item as usize] += 1.0;
            }
        }
        let ratings = Private::new(ratings);
        let als = NonPrivateAls {
            dim,
            l2_penalty: self.l2_penalty,
            label_center: mean,
            ..NonPrivateAls::default()
        };
        let model = als.fit(&ratings)?;
        let fitted = model.predict_held_out(&ratings, &ratings)?.into_exposed();
        let squares: f64 = fitted.iter().map(|(p, y)| (p - y).powi(2)).sum();
        let noise = squares / fitted.len() as f64;
        let mut rows = model.item_factors().to_vec();
        self.fill(&mut rows, (features, n_features), &counts)?;
        let error = |n: &f64| (noise / (n + self.l2_penalty)).sqrt();
        Ok(PublicItems {
            rows,
            standard_errors: counts.iter().map(error).collect(),
        })
    }

    /// Adds the prediction from features in proportion to the ridge's shrinkage.
    fn fill(
        self,
        rows: &mut [f64],
        (features, n_features): (&[f64], usize),
        counts: &[f64],
    ) -> Result<()> {
        let (dim, p) = (1 + self.n_tastes, 1 + n_features);
        let left = |n: f64| n / (n + self.l2_penalty);
        let described = |item: usize| {
            let own = &features[item * n_features..][..n_features];
            std::iter::once(1.0).chain(own.iter().copied())
        };
        let mut g = vec![0.0; p * p];
        let mut b = vec![0.0; dim * p];
        for (item, &n) in counts.iter().enumerate() {
            let f: Vec<f64> = described(item).collect();
            let weight = n * left(n);
            for (a, fa) in f.iter().enumerate().filter(|(_, fa)| **fa != 0.0) {
                for (g, fb) in g[a * p..][..p].iter_mut().zip(&f) {
                    *g += weight * left(n) * fa * fb;
                }
                for k in 0..dim {
                    b[k * p + a] += weight * fa * rows[item * dim + k];
                }
            }
        }
        (0..p).for_each(|a| g[a * (p + 1)] += self.l2_penalty);
        cholesky_in_place(&mut g, p)?;
        for b in b.chunks_exact_mut(p) {
            cholesky_solve_in_place(&g, p, b)?;
        }
        for (item, (row, &n)) in rows.chunks_exact_mut(dim).zip(counts).enumerate() {
            for (x, b) in row.iter_mut().zip(b.chunks_exact(p)) {
                let by_features: f64 = described(item).zip(b).map(|(f, b)| f * b).sum();
                *x += (1.0 - left(n)) * by_features;
            }
        }
        Ok(())
    }
}
