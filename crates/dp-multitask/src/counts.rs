//! Private item counts: how many users hold each item.

use dp_accounting::Spend;
use dp_core::{Interactions, Private, UserRow};
use dp_mechanism::{Grid, NoiseSource, SparseBuffer, VectorContribution, VectorSum};

use crate::Result;

/// One user's vote for each of the user's items, shrunk to a public norm.
///
/// ```text
/// c_j = min(1, C / sqrt(n_j)) * (indicator of the items of user j),   ||c_j||_2 <= C
/// ```
///
/// `n_j` is the user's own number of items; a user with up to `C^2` items counts in full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountContribution {
    clip_norm: f64,
}

impl CountContribution {
    /// Votes of norm at most `clip_norm`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `clip_norm` is not finite and positive.
    pub fn new(clip_norm: f64) -> Result<Self> {
        Ok(Self {
            clip_norm: dp_core::params::finite_positive("count_clip_norm", clip_norm)?,
        })
    }
}

impl VectorContribution for CountContribution {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let vote = (self.clip_norm / (user.len() as f64).sqrt()).min(1.0);
        for &item in user.items() {
            out.push(item, vote);
        }
    }
}

/// Released noisy counts of users per item.
#[derive(Debug, Clone, PartialEq)]
pub struct NoisyCounts {
    values: Vec<f64>,
    noise_stddev: f64,
    insecure: bool,
}

impl NoisyCounts {
    /// Releases the counts of all items at once.
    ///
    /// # Privacy
    /// One Gaussian release of L2 sensitivity `clip_norm` (add/remove one user), paid by `spend`;
    /// the output is public and may be used any number of times.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a bad `clip_norm`, [`crate::Error::Mechanism`] when the spend
    /// does not fit or entropy fails.
    pub fn release(
        data: &Private<Interactions>,
        n_items: usize,
        clip_norm: f64,
        spend: Spend,
        noise: &mut NoiseSource,
    ) -> Result<Self> {
        let contribution = CountContribution::new(clip_norm)?;
        let grid = Grid::new(spend.noise_multiplier(), clip_norm)?;
        let released =
            VectorSum::accumulate(data, n_items, grid, &contribution)?.release(spend, noise)?;
        Ok(Self {
            values: released.values(),
            noise_stddev: released.noise_stddev(),
            insecure: released.is_insecure(),
        })
    }

    /// Noisy count of each item; may be negative.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Mean noisy count of an item.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// Standard deviation of the noise on each count.
    #[must_use]
    pub const fn noise_stddev(&self) -> f64 {
        self.noise_stddev
    }

    /// Whether the noise was repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.insecure
    }
}
