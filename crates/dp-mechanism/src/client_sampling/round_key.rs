use chacha20::{R20, hchacha};
use zeroize::Zeroizing;

use crate::random_bits::RandomBits;
use crate::{NoiseSource, Result};

/// The secret key of one sampled round, which determines the coin of every user.
///
/// ```text
/// coin of user u = first 64 bits of HChaCha20(key, id of u)
/// ```
///
/// `HChaCha20` is a pseudo-random function of its 128-bit input (Bernstein, *Extending the Salsa20
/// nonce*, 2011, for Salsa20), so coins of different users are independent, and the coin of a user
/// does not depend on which process computes it or on which other users there are. A worker that
/// receives the same round twice selects the same users.
///
/// # Privacy
/// Anyone who knows the key knows who took part, and then there is no amplification by sampling.
/// The key is sent from the coordinator to the workers that hold users and nowhere else: it has no
/// `Debug`, is not part of a list of releases, and is overwritten when dropped.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "tells who takes part; printing it is never wanted"
)]
pub struct RoundKey {
    key: Zeroizing<[u8; 32]>,
}

impl RoundKey {
    pub(crate) const fn new(key: Zeroizing<[u8; 32]>) -> Self {
        Self { key }
    }

    /// Draws a fresh key; repeatable if the noise source is.
    pub(crate) fn draw(noise: &mut NoiseSource) -> Result<Self> {
        Ok(noise.release_stream()?.into_round_key())
    }

    /// Reads the key received over a link that only the coordinator and the worker can read.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self::new(Zeroizing::new(bytes))
    }

    /// The bytes to send over a link that only the coordinator and the worker can read.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        self.key.clone()
    }

    /// Whether two keys select the same users.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        *self.key == *other.key
    }

    /// The coin of a user: uniform on 64 bits.
    pub(crate) fn coin(&self, id: u128) -> u64 {
        let word = hchacha::<R20>(&(*self.key).into(), &id.to_le_bytes().into());
        let mut first = [0; 8];
        for (byte, &from) in first.iter_mut().zip(&word) {
            *byte = from;
        }
        u64::from_le_bytes(first)
    }

    /// Uniform numbers for a sample that is drawn as a whole.
    pub(crate) fn bits(&self) -> RandomBits {
        RandomBits::of_key(&self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vector of draft-irtf-cfrg-xchacha, section 2.2.1.
    #[test]
    fn coins_are_hchacha20_of_the_id() {
        let mut key = [0; 32];
        key.iter_mut().zip(0_u8..).for_each(|(byte, at)| *byte = at);
        let nonce = [
            0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0, 0x31, 0x41, 0x59, 0x27,
        ];
        let id = u128::from_le_bytes(nonce);
        let expected = [0x82, 0x41, 0x3b, 0x42, 0x27, 0xb2, 0x7b, 0xfe];
        assert_eq!(
            RoundKey::from_bytes(key).coin(id),
            u64::from_le_bytes(expected)
        );
    }
}
