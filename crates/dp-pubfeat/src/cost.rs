//! Costs and accuracy bounds of the methods, up to constants, for planning.
//!
//! Source: Krichene et al. 2024, Theorem 3, Proposition 2 and eq. (9), corrected (`docs/errata.md`). Item frequencies are private: plan with public or released ones.

use dp_core::params;

use crate::Result;
use crate::features::in_public_range;

/// Expected number of batches per epoch that contain each item,
/// `beta_j = (D / B) (1 - (1 - p_j)^B)`, for batches of `B` examples drawn with replacement from
/// `D`, where item `j` has probability `p_j`.
///
/// Between `p_j D / B` and `p_j D`. Source: appendix C.
///
/// # Errors
/// [`crate::Error::Param`] for a probability outside [0, 1] or a size that is not at least 1 and finite.
///
/// # Examples
/// ```
/// let beta = dp_pubfeat::cost::batches_with_item(&[0.5, 0.001], 1e6, 1e3)?;
/// assert!((beta[0] - 1000.0).abs() < 1e-9); // in every batch
/// assert!((beta[1] - 632.304_575).abs() < 1e-6);
/// # Ok::<(), dp_pubfeat::Error>(())
/// ```
pub fn batches_with_item(
    probabilities: &[f64],
    n_examples: f64,
    batch_size: f64,
) -> Result<Vec<f64>> {
    size("n_examples", n_examples)?;
    size("batch_size", batch_size)?;
    let each = probabilities.iter().map(|&p| {
        params::closed_unit("probability", p)?;
        let never = batch_size * (-p).ln_1p(); // log of the probability that no draw is the item
        Ok(n_examples / batch_size * -never.exp_m1())
    });
    each.collect()
}

/// Size of a training run, in examples, items, epochs and multiplications.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingSize {
    /// Examples `D`.
    pub n_examples: f64,
    /// Items `m`.
    pub n_items: f64,
    /// Epochs `e`.
    pub n_epochs: f64,
    /// Length `d` of vectors.
    pub dim: f64,
    /// Cost `c` of one forward and backward pass of an item.
    pub pass: f64,
}

impl TrainingSize {
    fn check(&self) -> Result<()> {
        size("n_examples", self.n_examples)?;
        size("n_items", self.n_items)?;
        size("n_epochs", self.n_epochs)?;
        size("dim", self.dim)?;
        size("pass", self.pass)
    }

    /// `D d^2 + (c + d^2) e m`: an upper bound on the cost of SSP-c in batches of items
    /// (Proposition 2).
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a size that is not finite and at least 1.
    pub fn of_statistics(&self) -> Result<f64> {
        self.check()?;
        let square = self.dim * self.dim;
        let sums = self.n_examples * square;
        Ok(sums + (self.pass + square) * self.n_epochs * self.n_items)
    }

    /// `c e beta`: a lower bound on the cost of DP-SGD with one pass per item and batch
    /// (Proposition 2); `beta` is the sum of [`batches_with_item`].
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a size that is not finite and at least 1, or a `beta` that is not finite and positive.
    pub fn of_gradients(&self, beta: f64) -> Result<f64> {
        self.check()?;
        params::finite_positive("beta", beta)?;
        Ok(self.pass * self.n_epochs * beta)
    }

    /// `(m / beta) (1 + d^2 / c + D d^2 / (c e m))`: the ratio of the first cost to the second, eq.
    /// (9).
    ///
    /// # Errors
    /// As [`of_gradients`](Self::of_gradients).
    ///
    /// # Examples
    /// ```
    /// use dp_pubfeat::cost::{TrainingSize, batches_with_item};
    /// // figure 6a at equal frequencies: a hidden layer, batches of 100, 100 epochs
    /// let size = TrainingSize { n_examples: 1e6, n_items: 1e3, n_epochs: 100.0, dim: 64.0, pass: 4096.0 };
    /// let beta: f64 = batches_with_item(&[1e-3; 1000], 1e6, 100.0)?.iter().sum();
    /// assert!(size.ratio(beta)? < 0.015); // statistics are cheaper by nearly two orders of magnitude
    /// # Ok::<(), dp_pubfeat::Error>(())
    /// ```
    pub fn ratio(&self, beta: f64) -> Result<f64> {
        Ok(self.of_statistics()? / self.of_gradients(beta)?)
    }
}

/// A linear problem under Assumption 1: `||x_j|| <= Gamma_x`, `||u|| <= Gamma_u`, `|y| <= Gamma_y`, parameters in a set of diameter `|Theta|` on which `||v_j|| <= Gamma_y / Gamma_u`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearProblem {
    /// `Gamma_x`.
    pub feature_norm: f64,
    /// `Gamma_u`.
    pub user_norm: f64,
    /// `Gamma_y`.
    pub label_bound: f64,
    /// `|Theta|`.
    pub diameter: f64,
    /// Length `d` of vectors.
    pub dim: f64,
}

impl LinearProblem {
    /// `|Theta| 2 Gamma rho sqrt(m d)` with `Gamma = Gamma_x Gamma_u Gamma_y`: excess empirical
    /// risk, summed over examples, of projected SSP-i with noise `rho sqrt(T)` after
    /// `T = D^2 / (m d rho^2)` steps, without logarithms. This is Theorem 3, which the paper states
    /// for Algorithm 3 and proves for Algorithm 2.
    ///
    /// `rho = mu^-1` for statistics released twice at a total of mu-GDP per matrix and vector; the paper's `sqrt(8 log(1/delta)) / epsilon` is larger.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a bound outside 1e-6 to 1e6, sizes below 1, or a `rho` that is not finite and positive.
    pub fn statistics_bound(&self, n_items: f64, rho: f64) -> Result<f64> {
        self.bound("n_items", n_items, rho)
    }

    /// The same bound with `p d` in place of `m d`: projected noisy gradient descent on the
    /// parameters, where `||g|| <= 2 Gamma` under Assumption 1.
    ///
    /// # Errors
    /// As [`statistics_bound`](Self::statistics_bound).
    ///
    /// # Examples
    /// ```
    /// use dp_pubfeat::cost::LinearProblem;
    /// let problem = LinearProblem { feature_norm: 1.0, user_norm: 1.0, label_bound: 1.0, diameter: 2.0, dim: 8.0 };
    /// let gain = problem.gradient_bound(8000.0, 3.0)? / problem.statistics_bound(500.0, 3.0)?;
    /// assert_eq!(gain, 4.0); // sqrt(p / m)
    /// # Ok::<(), dp_pubfeat::Error>(())
    /// ```
    pub fn gradient_bound(&self, n_features: f64, rho: f64) -> Result<f64> {
        self.bound("n_features", n_features, rho)
    }

    fn bound(&self, name: &'static str, n: f64, rho: f64) -> Result<f64> {
        let mut product = 2.0;
        for (name, value) in [
            ("feature_norm", self.feature_norm),
            ("user_norm", self.user_norm),
            ("label_bound", self.label_bound),
            ("diameter", self.diameter),
        ] {
            product *= in_public_range(name, value)?;
        }
        size("dim", self.dim)?;
        size(name, n)?;
        params::finite_positive("rho", rho)?;
        Ok(product * rho * (n * self.dim).sqrt())
    }
}

fn size(name: &'static str, value: f64) -> Result<()> {
    params::finite_positive(name, value)?;
    params::finite_non_negative(name, value - 1.0)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: TrainingSize = TrainingSize {
        n_examples: 2e5,
        n_items: 500.0,
        n_epochs: 3.0,
        dim: 8.0,
        pass: 80.0,
    };

    #[test]
    fn ratio_is_that_of_equation_9() {
        let beta = 12_345.0;
        let expected = 500.0 / beta * (1.0 + 64.0 / 80.0 + 2e5 * 64.0 / (80.0 * 3.0 * 500.0));
        assert!((SIZE.ratio(beta).unwrap() - expected).abs() < 1e-12 * expected);
    }

    #[test]
    fn batches_of_one_meet_each_example_and_of_all_each_item_at_most_once() {
        let p = [0.5, 0.3, 1e-9, 0.0, 1.0];
        for (beta, p) in batches_with_item(&p, 1e6, 1.0).unwrap().iter().zip(p) {
            assert!((beta - 1e6 * p).abs() <= 1e-9 * p.max(1e-3) * 1e6);
        }
        for (beta, p) in batches_with_item(&p, 1e6, 1e6).unwrap().iter().zip(p) {
            assert!(*beta <= 1.0 && *beta >= 1.0 - (-1e6 * p).exp() - 1e-12);
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        for bad in [0.0, 0.5, -1.0, f64::NAN, f64::INFINITY] {
            assert!(batches_with_item(&[0.5], bad, 1.0).is_err());
            assert!(batches_with_item(&[0.5], 2.0, bad).is_err());
            assert!(TrainingSize { pass: bad, ..SIZE }.of_statistics().is_err());
        }
        assert!(batches_with_item(&[1.1], 2.0, 1.0).is_err());
        assert!(SIZE.ratio(0.0).is_err());
    }
}
