//! A split by users: some train, others only test what was learnt.

use dp_core::params::open_unit;
use dp_core::{Interactions, Private};
use sha2::{Digest, Sha256};

use crate::split::{item_keys, key_of, unit_hash, word_as_unit};
use crate::{Ratings, Result, SplitFractions};

const PARTS: usize = 5;
const DOMAIN: &[u8] = b"dp-data held-out user 1";
const HISTORY_DOMAIN: &[u8] = b"dp-data held-out history 1";

/// Users who had no part in training: what is shown to the model, and what it is to find.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct HeldOutUsers {
    /// The part of each user's records that the user is folded in from.
    pub history: Private<Interactions>,
    /// The other records of the same users.
    pub targets: Private<Interactions>,
}

/// Users dealt to training, validation and test. All tables have the rows and columns of the whole;
/// a row is empty where its user is elsewhere.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct UserSplit {
    /// All records of the users for fitting.
    pub train: Private<Interactions>,
    /// Users for choosing settings.
    pub valid: HeldOutUsers,
    /// Users for the final figure.
    pub test: HeldOutUsers,
}

impl UserSplit {
    /// Deals every user by a hash of the seed and the user's id, and a held-out user's records
    /// by a hash of seed, user and item.
    ///
    /// ```text
    /// s    = 2⁻⁶⁴ · first 64 bits of SHA-256("dp-data held-out user 1" ‖ seed ‖ id_u)
    /// part = test if s < f_test, validation if s < f_test + f_valid, else training
    /// t    = 2⁻⁶⁴ · first 64 bits of SHA-256(SHA-256("dp-data held-out history 1" ‖ seed ‖ id_u) ‖ L_i)
    /// history if t < history_share, else target
    /// ```
    ///
    /// `L_i` and the numbers are formed as for [`RatingSplit::new`](crate::RatingSplit::new). Strong generalisation as in
    /// Liang et al. (2018), the protocol of the recall figures in Krichene et al. (2023).
    ///
    /// # Arguments
    /// * `fractions` - expected shares of the users
    /// * `history_share` - expected share of a held-out user's records to fold in from, strictly
    ///   between 0 and 1; 0.8 in the papers
    ///
    /// # Privacy
    /// *Neighbour-stable*, as the split of ratings: where a user goes depends on nothing but
    /// that user's id and the public seed, so adding or removing one user changes the training
    /// table by that user's row or not at all.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `history_share` is out of range.
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
        let item_keys = item_keys(ratings.catalogue());
        let ids = ratings.user_ids().expose();
        let mut dealt: Option<(usize, usize, [u8; 32])> = None;
        let table = ratings.interactions().expose();
        let parts = table.partition(PARTS, |user, item, _| {
            let (_, part, key) = match dealt {
                Some(of) if matches!(of, (u, ..) if u == user) => of,
                _ => {
                    let part = fractions.part(unit_of_user(seed, &ids[user]));
                    let key = key_of(HISTORY_DOMAIN, seed, &ids[user]);
                    *dealt.insert((user, part, key))
                }
            };
            if part == 0 {
                return 0; // all records of a training user
            }
            let target = unit_hash(&key, &item_keys[item as usize]) >= history_share;
            2 * part - 1 + usize::from(target)
        });
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
    word_as_unit(&hash)
}
