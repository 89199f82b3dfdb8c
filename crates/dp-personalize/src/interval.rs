//! Means over seeds, with their uncertainty.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

use dp_core::params;

use crate::Result;

/// Mean of several independent runs.
///
/// # Examples
/// ```
/// use dp_personalize::SeedMean;
/// let mean = SeedMean::of(&[1.0, 2.0, 3.0])?;
/// let (low, high) = mean.interval(0.95)?;
/// // 2 -+ 4.303 / sqrt(3)
/// assert!((low + 0.4841).abs() < 1e-4 && (high - 4.4841).abs() < 1e-4);
/// # Ok::<(), dp_personalize::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeedMean {
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the runs divided by `sqrt n`.
    pub standard_error: f64,
    /// Number of runs.
    pub n_runs: usize,
}

impl SeedMean {
    /// Summarises the runs.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for fewer than two runs.
    pub fn of(values: &[f64]) -> Result<Self> {
        let n_runs = values.len();
        params::in_range("n_runs", n_runs, 2, usize::MAX, "at least 2")?;
        let n = n_runs as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        Ok(Self {
            mean,
            standard_error: (squares / (n - 1.0) / n).sqrt(),
            n_runs,
        })
    }

    /// Student's interval for the mean: exact for normal values.
    ///
    /// # Errors
    /// [`crate::Error::Param`] unless `confidence` is strictly between 0 and 1.
    pub fn interval(&self, confidence: f64) -> Result<(f64, f64)> {
        params::open_unit("confidence", confidence)?;
        let half = student_quantile(self.n_runs - 1, confidence) * self.standard_error;
        Ok((self.mean - half, self.mean + half))
    }
}

/// The t with `P(|T| <= t) = confidence`, by bisection over `atan(t / sqrt nu)`.
fn student_quantile(freedom: usize, confidence: f64) -> f64 {
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if central_probability(freedom, middle) < confidence {
            low = middle;
        } else {
            high = middle;
        }
    }
    (freedom as f64).sqrt() * low.tan()
}

/// `P(|T| <= t)` for `nu` degrees of freedom and `theta = atan(t / sqrt nu)`: the finite series of Abramowitz and Stegun 26.7.3 and 26.7.4.
fn central_probability(freedom: usize, theta: f64) -> f64 {
    let (sine, cosine) = theta.sin_cos();
    let odd = freedom % 2;
    let mut term = if odd == 1 { cosine } else { 1.0 };
    let mut sum = 0.0;
    for i in (odd + 2..=freedom).step_by(2) {
        sum += term;
        // i - 1 and i: the next factors of numerator and denominator
        term *= (i - 1) as f64 / i as f64 * cosine * cosine;
    }
    if odd == 1 {
        FRAC_2_PI * (theta + sine * sum)
    } else {
        sine * sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with scipy.stats.t.ppf.
    #[test]
    fn quantiles_are_students() {
        for (freedom, at_95, at_99) in [
            (1, 12.706_204_736_174_694, 63.656_741_162_871_526),
            (2, 4.302_652_729_749_462, 9.924_843_200_918_287),
            (3, 3.182_446_305_283_708, 5.840_909_309_733_355),
            (4, 2.776_445_105_197_793, 4.604_094_871_349_992),
            (9, 2.262_157_162_798_205, 3.249_835_541_592_126),
            (30, 2.042_272_456_301_238, 2.749_995_653_567_225),
        ] {
            for (confidence, expected) in [(0.95, at_95), (0.99, at_99)] {
                let found: f64 = student_quantile(freedom, confidence);
                assert!((found / expected - 1.0).abs() < 1e-10, "{freedom}: {found}");
            }
        }
    }

    #[test]
    fn fewer_than_two_runs_have_no_error() {
        assert!(SeedMean::of(&[1.0]).is_err());
        let mean = SeedMean::of(&[1.0, 3.0]).unwrap();
        assert!((mean.mean - 2.0).abs() < 1e-15 && (mean.standard_error - 1.0).abs() < 1e-15);
        assert!(mean.interval(1.0).is_err());
    }
}
