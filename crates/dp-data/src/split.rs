//! Splits in which no user affects the parts of another user's records.

use dp_core::params::{closed_unit, open_unit};
use dp_core::{Interactions, ParamError, Private};
use sha2::{Digest, Sha256};

use crate::{ItemCatalogue, Ratings, Result, SampleUser};

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

/// The form in which they are stored in a file.
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
    /// Validates the three shares.
    ///
    /// # Errors
    /// [`Error::Param`](crate::Error::Param) if `train` is not above 0 and at most 1, if `valid` or
    /// `test` is not from 0 to 1, or if the three do not add up to 1 (to 1e-9).
    pub fn new(train: f64, valid: f64, test: f64) -> Result<Self> {
        if train.to_bits() != 1.0_f64.to_bits() {
            open_unit("train", train)?;
        }
        closed_unit("valid", valid)?;
        closed_unit("test", test)?;
        let sum = train + valid + test;
        if (sum - 1.0).abs() > 1e-9 {
            return Err(ParamError::new("train + valid + test", sum, "1").into());
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

    fn is_all_for_training(self) -> bool {
        self.valid <= 0.0 && self.test <= 0.0
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

/// Ratings split into three tables with the same users and items.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct RatingSplit {
    /// For fitting.
    pub train: Private<Interactions>,
    /// For selecting hyperparameters.
    pub valid: Private<Interactions>,
    /// For the final evaluation.
    pub test: Private<Interactions>,
}

impl RatingSplit {
    /// Assigns every record to a part by a hash of the seed, its user's id and its item's id.
    ///
    /// ```text
    /// K_u = SHA-256("dp-data split user 1" ‖ seed ‖ id_u)
    /// L_i = first 128 bits of SHA-256("dp-data split item 1" ‖ id_i)
    /// t   = 2⁻⁶⁴ · first 64 bits of SHA-256(K_u ‖ L_i)
    /// part = test if t < f_test, validation if t < f_test + f_valid, else training
    /// ```
    ///
    /// `seed` is encoded in 8 bytes, least significant first; the 64 bits are read most significant
    /// byte first, and the highest 53 are used.
    ///
    /// # Privacy
    /// *Neighbour-stable*: the part of a record depends only on that record's ids and the public
    /// seed. If a user is removed, or the file is shuffled, the records of all other users stay in
    /// the same parts, so a guarantee of training on `train` for adding or removing a user is a
    /// guarantee for the whole input. A split by position in the file does not have this property:
    /// removing one user shifts all later ones.
    ///
    /// # Numerics
    /// Parts have the expected shares only on average: records are assigned independently. Cost:
    /// one SHA-256 block per record (about 0.1 s per million with hardware support).
    ///
    /// # Errors
    /// [`dp_core::ScratchError`] for ratings on disk; none for ratings in memory.
    ///
    /// # Examples
    /// ```
    /// use dp_data::{LongTailRatings, SplitFractions};
    /// use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
    /// let mut rng = ChaCha8Rng::seed_from_u64(1);
    /// let ratings = LongTailRatings::new(100, 200, 4_000).generate(&mut rng)?;
    /// let split = ratings.split(SplitFractions::new(0.8, 0.1, 0.1)?, 7)?;
    /// let n = |part: &dp_core::Private<dp_core::Interactions>| part.expose().n_records();
    /// assert_eq!(n(&split.train) + n(&split.valid) + n(&split.test), 4_000);
    /// # Ok::<(), dp_data::Error>(())
    /// ```
    #[allow(
        clippy::missing_panics_doc,
        reason = "three parts are asked for and three come back"
    )]
    pub fn new(ratings: &Ratings, fractions: SplitFractions, seed: u64) -> Result<Self> {
        let table = ratings.interactions().expose();
        if fractions.is_all_for_training() {
            let none = || Private::new(table.without_records());
            return Ok(Self {
                train: Private::new(table.clone()),
                valid: none(),
                test: none(),
            });
        }
        let item_keys = item_keys(ratings.catalogue());
        let user_ids = ratings.user_ids().expose();
        let item_keys = &item_keys;
        let parts = table.partition_users(3, |user| {
            let key = key_of(b"dp-data split user 1", seed, &user_ids[user]);
            move |item, _| fractions.part(unit_hash(&key, &item_keys[item as usize]))
        })?;
        let mut parts = parts.into_iter().map(Private::new);
        let mut next = || parts.next().expect("partition gives three parts");
        let (train, valid, test) = (next(), next(), next());
        Ok(Self { train, valid, test })
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
    // key, item, and the padding of SHA-256: a bit, zeros, and the number of bits before them
    let mut block = [0; 64];
    block[..32].copy_from_slice(user_key);
    block[32..48].copy_from_slice(item_key);
    block[48] = 0x80;
    block[56..].copy_from_slice(&(8 * 48_u64).to_be_bytes());
    let mut state = SHA_256_START;
    sha2::block_api::compress256(&mut state, &[block]);
    word_as_unit(u64::from(state[0]) << 32 | u64::from(state[1]))
}

/// The state of SHA-256 before the first block.
const SHA_256_START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The first 64 bits of a hash as a number in `[0, 1)` with 53 bits.
fn word_as_unit(word: u64) -> f64 {
    (word >> 11) as f64 * 2.0_f64.powi(-53)
}

const USER_DOMAIN: &[u8] = b"dp-data sample users 1";
const ROW_DOMAIN: &[u8] = b"dp-data sample rows 1";

/// Expected shares that are held out; zero by default.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct SampleShares {
    /// Share of each user's rows, 0 to below 1.
    pub test_rows: f64,
    /// Share of the users, 0 to below 1. Held-out users are not used in training.
    pub held_out_users: f64,
}

/// One user's rows, split into two parts.
#[derive(Clone, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct SplitUser {
    /// The rows to which the user's own model is fitted, and which are used in training unless the
    /// user is held out.
    pub history: SampleUser,
    /// The rows to be predicted.
    pub test: SampleUser,
    /// Whether this user is not used in training.
    pub held_out: bool,
}

impl SampleShares {
    /// Assigns every row to a part by a hash of the seed, its user's id and its number among the
    /// user's rows, and every user by a hash of seed and id.
    ///
    /// ```text
    /// held out  if 2^-64 SHA-256("dp-data sample users 1" || seed || id || 0^16) < held_out_users
    /// test      if 2^-64 SHA-256(SHA-256("dp-data sample rows 1" || seed || id) || i) < test_rows,   i = 0, 1, ...
    /// ```
    ///
    /// # Privacy
    /// *Neighbour-stable*: the part of a row depends only on its own user's rows and the public
    /// seed, so a guarantee of training on the training parts is one for the whole input.
    ///
    /// # Errors
    /// [`Error::Param`](crate::Error::Param) unless both shares are from 0 to below 1.
    ///
    /// # Examples
    /// ```
    /// use dp_data::{SampleColumns, SampleShares, read_samples_from};
    /// let text = "user,x,y\nann,1,1\nann,2,1\nann,3,1\n";
    /// let table = read_samples_from(text.as_bytes(), "demo.csv", &SampleColumns::default())?;
    /// let shares = SampleShares { test_rows: 0.5, held_out_users: 0.0 };
    /// let split = shares.split(table.into_users(), 1, 7)?;
    /// let ann = &split.expose()[0];
    /// assert_eq!(ann.history.rows(1).len() + ann.test.rows(1).len(), 3);
    /// # Ok::<(), dp_data::Error>(())
    /// ```
    pub fn split(
        self,
        users: Private<Vec<SampleUser>>,
        n_features: usize,
        seed: u64,
    ) -> Result<Private<Vec<SplitUser>>> {
        self.check()?;
        let users = users.into_exposed().into_iter();
        let split = users.map(|user| self.deal(user, n_features, seed));
        Ok(Private::new(split.collect()))
    }

    /// Checks both shares.
    ///
    /// # Errors
    /// As [`split`](Self::split).
    pub fn check(self) -> Result<()> {
        for (name, value) in [
            ("test_rows", self.test_rows),
            ("held_out_users", self.held_out_users),
        ] {
            closed_unit(name, value)?;
            if value >= 1.0 {
                let expected = "from 0 to below 1";
                return Err(ParamError::new(name, value, expected).into());
            }
        }
        Ok(())
    }

    fn deal(self, user: SampleUser, n_features: usize, seed: u64) -> SplitUser {
        let user_key = key_of(USER_DOMAIN, seed, &user.id);
        let row_key = key_of(ROW_DOMAIN, seed, &user.id);
        let mut parts = [Vec::new(), Vec::new()];
        for (i, row) in (0_u128..).zip(user.cells.chunks_exact(n_features + 1)) {
            let test = unit_hash(&row_key, &i.to_le_bytes()) < self.test_rows;
            parts[usize::from(test)].extend_from_slice(row);
        }
        let [history, test] = parts.map(|cells| SampleUser {
            id: user.id.clone(),
            cells,
        });
        SplitUser {
            history,
            test,
            held_out: unit_hash(&user_key, &[0; 16]) < self.held_out_users,
        }
    }
}

const PARTS: usize = 5;
const DOMAIN: &[u8] = b"dp-data held-out user 1";
const HISTORY_DOMAIN: &[u8] = b"dp-data held-out history 1";

/// Users who were not used in training: the records shown to the model, and those it should
/// predict.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct HeldOutUsers {
    /// The part of each user's records from which the user is folded in.
    pub history: Private<Interactions>,
    /// The other records of the same users.
    pub targets: Private<Interactions>,
}

/// Users assigned to training, validation and test. All tables have the same rows and columns as
/// the whole table; a row is empty if its user is in another part.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct UserSplit {
    /// All records of the users for fitting.
    pub train: Private<Interactions>,
    /// Users for selecting hyperparameters.
    pub valid: HeldOutUsers,
    /// Users for the final evaluation.
    pub test: HeldOutUsers,
}

impl UserSplit {
    /// Assigns every user to a part by a hash of the seed and the user's id, and a held-out user's
    /// records by a hash of seed, user and item.
    ///
    /// ```text
    /// s    = 2⁻⁶⁴ · first 64 bits of SHA-256("dp-data held-out user 1" ‖ seed ‖ id_u)
    /// part = test if s < f_test, validation if s < f_test + f_valid, else training
    /// t    = 2⁻⁶⁴ · first 64 bits of SHA-256(SHA-256("dp-data held-out history 1" ‖ seed ‖ id_u) ‖ L_i)
    /// history if t < history_share, else target
    /// ```
    ///
    /// `L_i` and the numbers are computed as for [`RatingSplit::new`](crate::RatingSplit::new).
    /// This is strong generalisation as in Liang et al. (2018), the protocol of the recall values
    /// in Krichene et al. (2023).
    ///
    /// # Arguments
    /// * `fractions` - expected shares of the users
    /// * `history_share` - expected share of a held-out user's records to fold in from, strictly
    ///   between 0 and 1; 0.8 in the papers
    ///
    /// # Privacy
    /// *Neighbour-stable*, like the split of ratings: the part of a user depends only on that
    /// user's id and the public seed, so adding or removing one user changes the training table by
    /// that user's row or not at all.
    ///
    /// # Errors
    /// [`crate::Error::Param`] if `history_share` is out of range; [`dp_core::ScratchError`] for
    /// ratings on disk.
    ///
    /// # Examples
    /// ```
    /// use dp_data::{LongTailRatings, SplitFractions, UserSplit};
    /// use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
    /// let mut rng = ChaCha8Rng::seed_from_u64(1);
    /// let ratings = LongTailRatings::new(100, 200, 4_000).generate(&mut rng)?;
    /// let split = UserSplit::new(&ratings, SplitFractions::default(), 0.8, 7)?;
    /// let row = |table: &dp_core::Private<dp_core::Interactions>, u| table.expose().user(u).len();
    /// for user in 0..100 {
    ///     let held_out = row(&split.test.history, user) + row(&split.test.targets, user);
    ///     assert!(held_out == 0 || row(&split.train, user) == 0);
    /// }
    /// # Ok::<(), dp_data::Error>(())
    /// ```
    #[allow(
        clippy::missing_panics_doc,
        reason = "five parts are asked for and five come back"
    )]
    pub fn new(
        ratings: &Ratings,
        fractions: SplitFractions,
        history_share: f64,
        seed: u64,
    ) -> Result<Self> {
        open_unit("history_share", history_share)?;
        let table = ratings.interactions().expose();
        if fractions.is_all_for_training() {
            let none = || Private::new(table.without_records());
            let nobody = || HeldOutUsers {
                history: none(),
                targets: none(),
            };
            return Ok(Self {
                train: Private::new(table.clone()),
                valid: nobody(),
                test: nobody(),
            });
        }
        let item_keys = item_keys(ratings.catalogue());
        let ids = ratings.user_ids().expose();
        let item_keys = &item_keys;
        let parts = table.partition_users(PARTS, |user| {
            let part = fractions.part(unit_of_user(seed, &ids[user]));
            let key = key_of(HISTORY_DOMAIN, seed, &ids[user]);
            move |item, _| {
                if part == 0 {
                    return 0; // all records of a training user
                }
                let target = unit_hash(&key, &item_keys[item as usize]) >= history_share;
                2 * part - 1 + usize::from(target)
            }
        })?;
        let mut parts = parts.into_iter().map(Private::new);
        let mut next = || parts.next().expect("partition gives five parts");
        let train = next();
        let mut held_out = || HeldOutUsers {
            history: next(),
            targets: next(),
        };
        Ok(Self {
            train,
            valid: held_out(),
            test: held_out(),
        })
    }
}

fn unit_of_user(seed: u64, id: &str) -> f64 {
    let hash = Sha256::new()
        .chain_update(DOMAIN)
        .chain_update(seed.to_le_bytes())
        .chain_update(id)
        .finalize();
    word_as_unit(u64::from_be_bytes(
        *hash.first_chunk().expect("a hash has 32 bytes"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(skip: usize) -> Private<Vec<SampleUser>> {
        let ids = (0..300).filter(|&id| id != skip);
        let user = |id: usize| SampleUser {
            id: format!("u{id}"),
            cells: (0..40).map(|cell| cell as f32).collect(),
        };
        Private::new(ids.map(user).collect())
    }

    fn split(shares: SampleShares, skip: usize, seed: u64) -> Vec<SplitUser> {
        let split = shares.split(users(skip), 1, seed);
        split.unwrap().into_exposed()
    }

    #[test]
    fn the_hash_of_a_record_is_sha_256() {
        let (user, item) = ([7; 32], [201; 16]);
        let hash = Sha256::new()
            .chain_update(user)
            .chain_update(item)
            .finalize();
        let word = u64::from_be_bytes(*hash.first_chunk().unwrap());
        assert_eq!(
            unit_hash(&user, &item).to_bits(),
            word_as_unit(word).to_bits()
        );
    }

    #[test]
    fn parts_have_their_shares_and_the_seed_moves_them() {
        let shares = SampleShares {
            test_rows: 0.25,
            held_out_users: 0.2,
        };
        let found = split(shares, 999, 3);
        let n_test: usize = found.iter().map(|user| user.test.rows(1).len()).sum();
        // 6000 rows: 7 standard deviations, a false-alarm rate below 1e-11
        assert!((n_test as f64 - 1500.0).abs() < 7.0 * 33.6, "{n_test}");
        let n_out = found.iter().filter(|user| user.held_out).count();
        assert!((n_out as f64 - 60.0).abs() < 7.0 * 7.0, "{n_out}");
        let dealt = |user: &SplitUser| user.history.rows(1).len() + user.test.rows(1).len();
        assert!(found.iter().all(|user| dealt(user) == 20));
        assert!(found != split(shares, 999, 4));
        let (test_rows, held_out_users) = (0.0, 0.0);
        let all = SampleShares {
            test_rows,
            held_out_users,
        };
        assert!(
            split(all, 999, 3)
                .iter()
                .all(|user| !user.held_out && user.test.cells.is_empty())
        );
    }

    #[test]
    fn nobody_moves_when_somebody_leaves() {
        let shares = SampleShares {
            test_rows: 0.25,
            held_out_users: 0.2,
        };
        let mut all = split(shares, 999, 3);
        all.remove(17);
        assert!(all == split(shares, 17, 3));
    }

    #[test]
    fn shares_out_of_range_are_refused() {
        for (test_rows, held_out_users) in [(1.0, 0.0), (0.2, 1.0), (-0.1, 0.0), (f64::NAN, 0.0)] {
            let shares = SampleShares {
                test_rows,
                held_out_users,
            };
            assert!(shares.split(users(0), 1, 0).is_err());
        }
    }
}
