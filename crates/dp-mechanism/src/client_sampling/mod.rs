//! Who takes part in a step: exact random subsets of clients, and the events that account for it.

mod fixed_size;
mod poisson;

pub use fixed_size::FixedSizeSampling;
pub use poisson::PoissonSampling;

/// The clients drawn for one step, indices increasing.
///
/// # Privacy
/// **The sample is a secret.** Amplification by sampling holds only while nobody who sees the
/// release learns who took part, or (under Poisson sampling) how many did. It therefore has no
/// `Debug`, no `Clone` and no serialisation.
#[allow(
    missing_debug_implementations,
    reason = "who took part must stay secret; printing it is never wanted"
)]
pub struct ClientSample {
    indices: Vec<usize>,
    insecure: bool,
}

impl ClientSample {
    /// The indices, increasing, each below the number of clients.
    #[must_use]
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// Whether the sample was repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.insecure
    }
}

#[cfg(test)]
mod tests;
