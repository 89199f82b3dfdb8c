//! Each user's own offset, computed and kept by the user.

/// The shrunken mean of one user's centred ratings.
///
/// ```text
/// bias_j = sum_i (y_ij - c) / (n_j + lambda)
/// ```
///
/// # Privacy
/// Local: it is a function of one user's records and public constants, is never released, and
/// costs nothing. What reaches the server are labels minus the bias, bounded like any label.
///
/// # Examples
/// ```
/// use dp_multitask::LocalBias;
/// let bias = LocalBias { center: 3.5, shrinkage: 0.0 };
/// assert_eq!(bias.of(&[4.0, 5.0]), 1.0);
/// assert_eq!(bias.of(&[]), 0.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalBias {
    /// The public centre `c` that every label is measured from, data units.
    pub center: f64,
    /// Shrinkage `lambda >= 0`, in ratings; infinity would switch the bias off.
    pub shrinkage: f64,
}

impl LocalBias {
    /// The bias of a user with these values, data units; 0 for a user without any.
    #[must_use]
    pub fn of(&self, values: &[f32]) -> f64 {
        let total: f64 = values.iter().map(|&y| f64::from(y) - self.center).sum();
        let weight = values.len() as f64 + self.shrinkage;
        if weight > 0.0 { total / weight } else { 0.0 }
    }
}
