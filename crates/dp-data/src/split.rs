//! A split that no user can change for another.

use dp_core::params::{closed_unit, open_unit};
use dp_core::{Interactions, ParamError, Private};
use sha2::{Digest, Sha256};

use crate::{ItemCatalogue, Ratings, Result};

const TRAIN: usize = 0;
const VALID: usize = 1;
const TEST: usize = 2;

/// Expected shares of the three parts; they add up to 1. The default is 0.8, 0.1, 0.1.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Shares", into = "Shares"))]
pub struct SplitFractions {
    train: f64,
    valid: f64,
    test: f64,
}

/// How they stand in a file.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Shares {
    train: f64,
    valid: f64,
    test: f64,
}

#[cfg(feature = "serde")]
impl TryFrom<Shares> for SplitFractions {
    type Error = crate::Error;

    fn try_from(shares: Shares) -> Result<Self> {
        Self::new(shares.train, shares.valid, shares.test)
    }
}

#[cfg(feature = "serde")]
impl From<SplitFractions> for Shares {
    fn from(shares: SplitFractions) -> Self {
        Self {
            train: shares.train,
            valid: shares.valid,
            test: shares.test,
        }
    }
}

impl SplitFractions {
    /// Checks and keeps the three shares.
    ///
    /// # Errors
    /// [`Error::Param`](crate::Error::Param) when `train` is not above 0 and at most 1, when
    /// `valid` or `test` is not from 0 to 1, or when the three do not add up to 1 (to 1e-9).
    pub fn new(train: f64, valid: f64, test: f64) -> Result<Self> {
        if train.to_bits() != 1.0_f64.to_bits() {
            open_unit("train", train)?;
        }
        closed_unit("valid", valid)?;
        closed_unit("test", test)?;
        let sum = train + valid + test;
        if (sum - 1.0).abs() > 1e-9 {
            return Err(ParamError {
                name: "train + valid + test",
                value: sum,
                expected: "1",
            }
            .into());
        }
        Ok(Self { train, valid, test })
    }

    /// Share of the training part.
    #[must_use]
    pub const fn train(self) -> f64 {
        self.train
    }

    /// Share of the validation part.
    #[must_use]
    pub const fn valid(self) -> f64 {
        self.valid
    }

    /// Share of the test part.
    #[must_use]
    pub const fn test(self) -> f64 {
        self.test
    }

    /// The part of a record whose hash, read as a number, is `unit` in `[0, 1)`.
    pub(crate) fn part(self, unit: f64) -> usize {
        if unit < self.test {
            TEST
        } else if unit < self.test + self.valid {
            VALID
        } else {
            TRAIN
        }
    }
}

impl Default for SplitFractions {
    fn default() -> Self {
        Self {
            train: 0.8,
            valid: 0.1,
            test: 0.1,
        }
    }
}

/// Ratings dealt to three tables with the same users and items.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct RatingSplit {
    /// For fitting.
    pub train: Private<Interactions>,
    /// For choosing settings.
    pub valid: Private<Interactions>,
    /// For the final figure.
    pub test: Private<Interactions>,
}

impl RatingSplit {
    /// Deals every record by a hash of the seed, its user's id and its item's id.
    ///
    /// ```text
    /// K_u = SHA-256("dp-data split user 1" ‖ seed ‖ id_u)
    /// L_i = first 128 bits of SHA-256("dp-data split item 1" ‖ id_i)
    /// t   = 2⁻⁶⁴ · first 64 bits of SHA-256(K_u ‖ L_i)
    /// part = test if t < f_test, validation if t < f_test + f_valid, else training
    /// ```
    ///
    /// `seed` in 8 bytes, least significant first; the 64 bits most significant byte first, of
    /// which the highest 53 count.
    ///
    /// # Privacy
    /// *Neighbour-stable*: the part of a record depends on nothing but that record's ids and
    /// the public seed. Take a user away, or shuffle the file, and everybody else's records
    /// stay where they were, so a guarantee of training on `train` with respect to adding or
    /// removing a user is a guarantee with respect to the whole input. A split by position in
    /// the file does not have this property: one user moves everybody who comes after.
    ///
    /// # Numerics
    /// Parts have the expected shares only on average: records are dealt independently.
    /// Cost: one SHA-256 block a record (about 0.1 s per million with hardware support).
    ///
    /// # Examples
    /// ```
    /// use dp_data::{LongTailRatings, SplitFractions};
    /// use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
    /// let mut rng = ChaCha8Rng::seed_from_u64(1);
    /// let ratings = LongTailRatings::new(100, 200, 4_000).generate(&mut rng)?;
    /// let split = ratings.split(SplitFractions::new(0.8, 0.1, 0.1)?, 7);
    /// let n = |part: &dp_core::Private<dp_core::Interactions>| part.expose().n_records();
    /// assert_eq!(n(&split.train) + n(&split.valid) + n(&split.test), 4_000);
    /// # Ok::<(), dp_data::Error>(())
    /// ```
    #[must_use]
    #[allow(
        clippy::missing_panics_doc,
        reason = "three parts are asked for and three come back"
    )]
    pub fn new(ratings: &Ratings, fractions: SplitFractions, seed: u64) -> Self {
        let item_keys = item_keys(ratings.catalogue());
        let user_ids = ratings.user_ids().expose();
        let mut keyed_user = usize::MAX;
        let mut key = [0; 32];
        let mut parts = ratings
            .interactions()
            .expose()
            .partition(3, |user, item, _| {
                if user != keyed_user {
                    key = key_of(b"dp-data split user 1", seed, &user_ids[user]);
                    keyed_user = user;
                }
                fractions.part(unit_hash(&key, &item_keys[item as usize]))
            })
            .into_iter()
            .map(Private::new);
        let mut next = || parts.next().expect("partition gives three parts");
        let (train, valid, test) = (next(), next(), next());
        Self { train, valid, test }
    }
}

/// The key of one user for one purpose.
pub(crate) fn key_of(domain: &[u8], seed: u64, id: &str) -> [u8; 32] {
    Sha256::new()
        .chain_update(domain)
        .chain_update(seed.to_le_bytes())
        .chain_update(id)
        .finalize()
        .into()
}

/// The first half of each item's hash, so that key and item fill one block of SHA-256.
pub(crate) fn item_keys(catalogue: &ItemCatalogue) -> Vec<[u8; 16]> {
    catalogue.ids().iter().map(|id| item_key(id)).collect()
}

fn item_key(id: &str) -> [u8; 16] {
    let hash: [u8; 32] = Sha256::new()
        .chain_update(b"dp-data split item 1")
        .chain_update(id)
        .finalize()
        .into();
    let mut half = [0; 16];
    half.copy_from_slice(&hash[..16]);
    half
}

/// A number in `[0, 1)` with 53 bits.
pub(crate) fn unit_hash(user_key: &[u8; 32], item_key: &[u8; 16]) -> f64 {
    let hash = Sha256::new()
        .chain_update(user_key)
        .chain_update(item_key)
        .finalize();
    word_as_unit(&hash)
}

/// The first eight bytes of a hash as a number in `[0, 1)` with 53 bits.
pub(crate) fn word_as_unit(hash: &[u8]) -> f64 {
    let word = hash
        .iter()
        .take(8)
        .fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
    (word >> 11) as f64 * 2.0_f64.powi(-53)
}
