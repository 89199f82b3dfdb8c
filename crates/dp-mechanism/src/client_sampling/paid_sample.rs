use dp_accounting::Spend;

use super::{ClientSample, ClientSampling};
use crate::{NoiseSource, Result};

/// A sample that is paid for: the only kind that messages of clients are summed over.
///
/// It holds the spend of the release from the draw on. Dropping the sample drops the spend, so a
/// sample that was looked at and thrown away is charged like one that was used.
///
/// # Privacy
/// Amplification is a statement about a sample that was drawn once. A server that draws until it
/// likes what it sees (this user in it, that one not, many of them online) releases on a sample of
/// another law, at which no event speaks. So:
///
/// * Draw once for a release and use whatever came: an empty sample, too. A round may be abandoned for
///   reasons that do not look at the sample (the machine went down); deciding by who was drawn, how
///   many they are or what they sent is a release that nobody paid for.
/// * Who was drawn stays with the server, see [`ClientSample`]. Under Poisson sampling clients must
///   not be told how many were drawn, and nobody may divide by it: divide by `q n` for a public `n`, or
///   by a noisy count that was paid for.
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
    /// How it was drawn.
    #[must_use]
    pub const fn sampling(&self) -> ClientSampling {
        self.sample.sampling()
    }

    /// The clients to ask, increasing, each below the number of clients. A secret.
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
    /// Draws who of `n_clients` takes part, from a fresh key, for the one release that `spend` pays
    /// for. [`VectorSum::from_messages`](crate::VectorSum::from_messages) shows a whole round.
    ///
    /// # Errors
    /// [`crate::Error::WrongSpend`] when the spend is not for one Gaussian release on a sample of
    /// exactly this kind; those of [`sample`](Self::sample). Nothing is then drawn and the spend is
    /// gone.
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
