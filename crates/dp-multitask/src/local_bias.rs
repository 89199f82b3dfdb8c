//! Each user's own offset, computed and stored by the user.

/// The shrunken mean of one user's centred ratings.
///
/// ```text
/// bias_j = sum_i (y_ij - c) / (n_j + lambda)
/// ```
///
/// # Privacy
/// Local: a function of one user's records and public constants, never released, and free. Only
/// labels minus the bias reach the server, bounded like any label.
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
    /// The public centre `c` that is subtracted from every label, in data units.
    pub center: f64,
    /// Shrinkage `lambda >= 0`, in ratings; infinity would disable the bias.
    pub shrinkage: f64,
}

impl LocalBias {
    /// The bias of a user with these values, in data units; 0 for a user without values.
    #[must_use]
    pub fn of(&self, values: &[f32]) -> f64 {
        let total: f64 = values.iter().map(|&y| f64::from(y) - self.center).sum();
        let weight = values.len() as f64 + self.shrinkage;
        if weight > 0.0 { total / weight } else { 0.0 }
    }
}
