//! How well predictions agree with what users said.

use crate::{Error, Result};

/// Root mean square error.
///
/// ```text
/// RMSE = √( 1/n · Σⱼ (pⱼ − yⱼ)² )
/// ```
///
/// over `n` pairs of prediction `pⱼ` and truth `yⱼ`.
///
/// # Arguments
/// `pairs` - `(predicted, truth)`, in rating units.
///
/// # Privacy
/// Not private: computed on records, it is an internal figure and must not be released.
///
/// # Errors
/// [`Error::NoPredictions`] when there are no pairs.
///
/// # Numerics
/// Squares are added with a compensated sum, so the error does not grow with `n` (the result is
/// within a few units in the last place). A NaN prediction gives NaN, an infinite one infinity.
///
/// # Examples
/// ```
/// let rmse = dp_data::rmse([(4.0, 5.0), (3.0, 3.0)])?;
/// assert_eq!(rmse, 0.5_f64.sqrt());
/// # Ok::<(), dp_data::Error>(())
/// ```
pub fn rmse(pairs: impl IntoIterator<Item = (f64, f64)>) -> Result<f64> {
    let mut squares = CompensatedSum::default();
    let mut n = 0_u64;
    for (predicted, truth) in pairs {
        squares.add((predicted - truth) * (predicted - truth));
        n += 1;
    }
    if n == 0 {
        return Err(Error::NoPredictions { metric: "rmse" });
    }
    Ok((squares.total() / n as f64).sqrt())
}

/// Mean absolute error.
///
/// ```text
/// MAE = 1/n · Σⱼ |pⱼ − yⱼ|
/// ```
///
/// over `n` pairs of prediction `pⱼ` and truth `yⱼ`; never above [`rmse`] of the same pairs.
///
/// # Arguments
/// `pairs` - `(predicted, truth)`, in rating units.
///
/// # Privacy
/// Not private: computed on records, it is an internal figure and must not be released.
///
/// # Errors
/// [`Error::NoPredictions`] when there are no pairs.
///
/// # Examples
/// ```
/// let mae = dp_data::mae([(4.0, 5.0), (3.0, 3.0)])?;
/// assert_eq!(mae, 0.5);
/// # Ok::<(), dp_data::Error>(())
/// ```
pub fn mae(pairs: impl IntoIterator<Item = (f64, f64)>) -> Result<f64> {
    let mut distances = CompensatedSum::default();
    let mut n = 0_u64;
    for (predicted, truth) in pairs {
        distances.add((predicted - truth).abs());
        n += 1;
    }
    if n == 0 {
        return Err(Error::NoPredictions { metric: "mae" });
    }
    Ok(distances.total() / n as f64)
}

/// A running sum and the low bits it lost (Neumaier 1974).
#[derive(Default)]
struct CompensatedSum {
    sum: f64,
    lost: f64,
}

impl CompensatedSum {
    fn add(&mut self, term: f64) {
        let next = self.sum + term;
        self.lost += if self.sum.abs() >= term.abs() {
            (self.sum - next) + term
        } else {
            (term - next) + self.sum
        };
        self.sum = next;
    }

    /// An infinite sum has no meaningful low bits.
    fn total(&self) -> f64 {
        if self.sum.is_finite() {
            self.sum + self.lost
        } else {
            self.sum
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_a_hand_computed_value() {
        // errors 1, -2, 0, 2: mean square 9/4
        let pairs = [(2.0, 1.0), (1.0, 3.0), (5.0, 5.0), (4.0, 2.0)];
        assert_eq!(rmse(pairs).unwrap().to_bits(), 1.5_f64.to_bits());
        assert_eq!(mae(pairs).unwrap().to_bits(), 1.25_f64.to_bits());
    }

    #[test]
    fn is_undefined_without_predictions() {
        let error = rmse([]).unwrap_err();
        assert_eq!(error.to_string(), "rmse needs at least one prediction");
        let error = mae([]).unwrap_err();
        assert_eq!(error.to_string(), "mae needs at least one prediction");
    }

    #[test]
    fn many_small_squares_survive_a_large_one() {
        // a plain sum in this order stays at 2^54: each square is below half its last place
        let n = 1 << 20;
        let pairs =
            std::iter::once((2.0_f64.powi(27), 0.0)).chain(std::iter::repeat_n((1.0, 0.0), n));
        let expected = ((2.0_f64.powi(54) + n as f64) / (n + 1) as f64).sqrt();
        assert_eq!(rmse(pairs).unwrap().to_bits(), expected.to_bits());
    }

    #[test]
    fn bad_predictions_show() {
        assert!(rmse([(f64::NAN, 1.0), (1.0, 1.0)]).unwrap().is_nan());
        assert!(
            rmse([(f64::INFINITY, 1.0), (1.0, 1.0)])
                .unwrap()
                .is_infinite()
        );
    }
}
