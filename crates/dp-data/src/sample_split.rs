//! Held-out rows and held-out users of labelled feature vectors.

use dp_core::params::closed_unit;
use dp_core::{ParamError, Private};

use crate::split::{key_of, unit_hash};
use crate::{Result, SampleUser};

const USER_DOMAIN: &[u8] = b"dp-data sample users 1";
const ROW_DOMAIN: &[u8] = b"dp-data sample rows 1";

/// Expected shares that are held out; by default none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct SampleShares {
    /// Of each user's rows, 0 to below 1.
    pub test_rows: f64,
    /// Of the users, 0 to below 1: nothing is trained on them.
    pub held_out_users: f64,
}

/// One user's rows, dealt to two parts.
#[derive(Clone, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct SplitUser {
    /// What the user's own model is fitted to, and what is trained on unless the user is held out.
    pub history: SampleUser,
    /// What is predicted.
    pub test: SampleUser,
    /// Whether nothing is trained on this user.
    pub held_out: bool,
}

impl SampleShares {
    /// Deals every row by a hash of the seed, its user's id and its number among the user's rows, and every user by a hash of
    /// seed and id.
    ///
    /// ```text
    /// held out  if 2^-64 SHA-256("dp-data sample users 1" || seed || id || 0^16) < held_out_users
    /// test      if 2^-64 SHA-256(SHA-256("dp-data sample rows 1" || seed || id) || i) < test_rows,   i = 0, 1, ...
    /// ```
    ///
    /// # Privacy
    /// *Neighbour-stable*: where a row goes depends on its own user's rows and the public seed alone, so a guarantee of
    /// training on the parts that are trained on is one for the whole input.
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
                return Err(ParamError {
                    name,
                    value,
                    expected,
                }
                .into());
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
    fn parts_have_their_shares_and_the_seed_moves_them() {
        let shares = SampleShares {
            test_rows: 0.25,
            held_out_users: 0.2,
        };
        let found = split(shares, 999, 3);
        let n_test: usize = found.iter().map(|user| user.test.rows(1).len()).sum();
        // 6000 rows: 7 standard deviations, a false alarm below 1e-11
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
