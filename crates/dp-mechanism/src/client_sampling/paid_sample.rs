use dp_accounting::Spend;

use super::{ClientSample, ClientSampling};
use crate::{NoiseSource, Result};

/// A sample whose release has been charged. Messages of clients can be summed over this kind of
/// sample only.
///
/// It holds the spend of the release from the draw on. Dropping the sample drops the spend, so a
/// sample that was inspected and discarded is charged like one that was used.
///
/// # Privacy
/// Amplification is a statement about a sample that was drawn once. A server that redraws until it
/// likes the sample (this user in it, that one not, many of them online) releases on a sample with
/// another distribution, which no event accounts for. Therefore:
///
/// * Draw once for a release and use the result, even if the sample is empty. A round may be
///   abandoned for reasons that do not depend on the sample (the machine went down). Deciding by
///   who was drawn, how many they are or what they sent is a release that was not accounted for.
/// * The server must keep secret who was drawn, see [`ClientSample`]. Under Poisson sampling,
///   clients must not be told how many were drawn, and nothing may be divided by that number:
///   divide by `q n` for a public `n`, or by a noisy count from the budget.
#[must_use = "a sample that is dropped stays paid for; nothing is refunded"]
#[allow(
    missing_debug_implementations,
    reason = "who took part must stay secret; printing it is never wanted"
)]
pub struct PaidSample {
    sample: ClientSample,
    spend: Spend,
}

impl PaidSample {
    /// The sampling scheme.
    #[must_use]
    pub const fn sampling(&self) -> ClientSampling {
        self.sample.sampling()
    }

    /// The clients to ask, increasing, each below the number of clients. Secret.
    #[must_use]
    pub fn indices(&self) -> &[usize] {
        self.sample.indices()
    }

    /// Whether the sample was repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.sample.is_insecure()
    }

    pub(crate) fn into_parts(self) -> (ClientSample, Spend) {
        (self.sample, self.spend)
    }

    #[cfg(test)]
    pub(crate) const fn for_tests(sample: ClientSample, spend: Spend) -> Self {
        Self { sample, spend }
    }
}

impl ClientSampling {
    /// Draws which of `n_clients` take part, with a fresh key, for the one release that `spend` is
    /// for. [`VectorSum::from_messages`](crate::VectorSum::from_messages) shows a whole round.
    ///
    /// # Errors
    /// [`crate::Error::WrongSpend`] if the spend is not for one Gaussian release on a sample of
    /// exactly this kind; the errors of [`sample`](Self::sample). Nothing is then drawn and the
    /// spend is lost.
    pub fn pay_and_sample(
        self,
        n_clients: usize,
        spend: Spend,
        noise: &mut NoiseSource,
    ) -> Result<PaidSample> {
        self.noise_multiplier(&spend)?;
        let sample = self.sample(n_clients, noise)?;
        Ok(PaidSample { sample, spend })
    }
}
