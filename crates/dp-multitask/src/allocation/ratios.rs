//! What adaptive weights gain over equal ones, by the bounds.

/// `R_0`, the improvement of the bound for convex losses:
/// `sqrt(m sum_i n_i) / sum_i sqrt(n_i)`, at least 1, and 1 exactly when all counts agree.
///
/// Source: Krichene et al. 2023, after Theorem 4.3. Counts at or below 0 are left out, as tasks
/// without data; without any task left the ratio is 1.
///
/// # Examples
/// ```
/// use dp_multitask::improvement_ratio_convex;
/// assert_eq!(improvement_ratio_convex(&[9.0, 9.0]), 1.0);
/// assert!((improvement_ratio_convex(&[16.0, 1.0]) - 34.0_f64.sqrt() / 5.0).abs() < 1e-12);
/// ```
#[must_use]
pub fn improvement_ratio_convex(counts: &[f64]) -> f64 {
    let (n, sum, roots) = sums(counts, f64::sqrt);
    if n > 0.0 {
        (n * sum).sqrt() / roots
    } else {
        1.0
    }
}

/// `R_1`, the improvement of the bound for strongly convex losses and for SSP:
/// `(sum_i 1/n_i)(sum_i n_i) / m^2`, at least 1.
///
/// Source and conventions as for [`improvement_ratio_convex`].
///
/// # Examples
/// ```
/// use dp_multitask::improvement_ratio_strongly_convex;
/// assert!((improvement_ratio_strongly_convex(&[16.0, 1.0]) - 17.0 / 16.0 * 17.0 / 4.0).abs() < 1e-12);
/// ```
#[must_use]
pub fn improvement_ratio_strongly_convex(counts: &[f64]) -> f64 {
    let (n, sum, inverses) = sums(counts, f64::recip);
    if n > 0.0 {
        inverses * sum / (n * n)
    } else {
        1.0
    }
}

/// Number of tasks with data, sum of their counts, sum of a function of them.
fn sums(counts: &[f64], of: impl Fn(f64) -> f64) -> (f64, f64, f64) {
    let kept = counts.iter().filter(|&&count| count > 0.0);
    kept.fold((0.0, 0.0, 0.0), |(n, sum, total), &count| {
        (n + 1.0, sum + count, total + of(count))
    })
}
