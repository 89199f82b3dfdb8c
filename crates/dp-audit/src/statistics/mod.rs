//! The distributions needed by audits, with stated error bounds.
//!
//! Reference values: `scripts/reference_values.py` (mpmath, 40 digits).

mod binomial;
mod chi_square;
mod normal;

pub use binomial::{Bounds, binomial_lower_tail, binomial_upper_tail, clopper_pearson};
pub use chi_square::{chi_square_lower_tail, chi_square_upper_tail};
pub(crate) use normal::normal_mass;
pub use normal::{normal_cdf, normal_quantile, normal_upper_tail};

/// Bisection for an increasing condition: the largest `x` in `[low, high]`, to the last bit, for
/// which `below(x)` still holds, and the smallest for which it does not.
pub(crate) fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> (f64, f64) {
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if !(low < middle && middle < high) {
            break;
        }
        if below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low, high)
}
