//! Client sampling: exact random subsets of clients, and the events that account for them.

mod fixed_size;
mod paid_sample;
mod poisson;
mod round_key;
mod scheme;

pub use fixed_size::FixedSizeSampling;
pub use paid_sample::PaidSample;
pub use poisson::PoissonSampling;
pub use round_key::RoundKey;
pub use scheme::ClientSampling;

/// The clients drawn for one step, indices increasing.
///
/// # Privacy
/// **The sample is a secret.** Amplification by sampling holds only while nobody who sees the
/// release learns who took part, or (under Poisson sampling) how many did. It has therefore no
/// `Debug`, no `Clone` and no serialisation.
///
/// **One sample serves one release.** Two releases on the same sample are not two independent
/// sampled mechanisms: a client is in both or in neither, so the second release also reveals
/// information about the sample of the first, and their cost is that of *one* sample around the
/// composition of both. A sample drawn by `sample` therefore serves no release: it is for examining
/// the distribution, as audits do. Messages of clients are summed over a [`PaidSample`], and
/// [`VectorSum::accumulate_sampled`](crate::VectorSum::accumulate_sampled) draws its own sample.
#[allow(
    missing_debug_implementations,
    reason = "who took part must stay secret; printing it is never wanted"
)]
pub struct ClientSample {
    sampling: ClientSampling,
    indices: Vec<usize>,
    insecure: bool,
}

impl ClientSample {
    /// The sampling scheme.
    #[must_use]
    pub const fn sampling(&self) -> ClientSampling {
        self.sampling
    }

    /// The indices, increasing, each below the number of clients.
    #[must_use]
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    #[cfg(test)]
    pub(crate) const fn for_tests(sampling: ClientSampling, indices: Vec<usize>) -> Self {
        Self {
            sampling,
            indices,
            insecure: true,
        }
    }

    /// Whether the sample was repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.insecure
    }
}

#[cfg(test)]
mod tests;
