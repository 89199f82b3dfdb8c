//! Every user's rows, divided into training rows, rows on which alphas are compared, and test rows.

use dp_core::Private;
use dp_data::{SampleShares, SampleUser};

use crate::error::Result;
use crate::personal::{Inputs, Users};

/// Shares that are excluded from training.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldOut {
    /// Share of each user's rows.
    pub test: f64,
    /// Share of the rows that are not test rows.
    pub validation: f64,
    /// Share of the users: they join after all releases.
    pub held_out_users: f64,
}

/// One user's rows: private.
pub struct PartedUser {
    /// Training rows.
    pub history: SampleUser,
    /// Rows on which alphas are compared.
    pub validation: SampleUser,
    /// Test rows.
    pub test: SampleUser,
}

/// Users with their parts, and the training rows as model inputs.
pub struct Group {
    users: Private<Vec<PartedUser>>,
    rows: Users,
}

/// The training users, and the held-out users.
pub struct Parts {
    /// The training users.
    pub trained: Group,
    /// The users who join after all releases.
    pub held_out: Group,
}

/// Makes the second split of rows independent of the first.
const VALIDATION: u64 = 0x9e37_79b9_7f4a_7c15;

impl Parts {
    /// The part of a row or user depends only on that user's rows and id and on the seed, so that a
    /// guarantee for the training and comparison rows is one for the whole input. The rows of
    /// held-out users are divided in the same way, so that metrics of both kinds of users are for
    /// the same number of rows.
    ///
    /// # Errors
    /// When rows do not fit the inputs.
    pub fn new(
        inputs: &Inputs,
        users: Private<Vec<SampleUser>>,
        shares: HoldOut,
        max_rows: usize,
        seed: u64,
    ) -> Result<Self> {
        let n_features = inputs.features.len();
        let tested = SampleShares {
            test_rows: shares.test,
            held_out_users: shares.held_out_users,
        };
        let tested = tested.split(users, n_features, seed)?.into_exposed();
        let (kept, tests): (Vec<_>, Vec<_>) = (tested.into_iter())
            .map(|user| (user.history, (user.test, user.held_out)))
            .unzip();
        let compared = SampleShares {
            test_rows: shares.validation,
            held_out_users: 0.0,
        };
        let compared = compared.split(Private::new(kept), n_features, seed ^ VALIDATION)?;
        let (mut first, mut later) = (Vec::new(), Vec::new());
        for (user, (test, held_out)) in compared.into_exposed().into_iter().zip(tests) {
            let group = if held_out { &mut later } else { &mut first };
            group.push(PartedUser {
                history: user.history,
                validation: user.test,
                test,
            });
        }
        Ok(Self {
            trained: Group::new(inputs, first, max_rows)?,
            held_out: Group::new(inputs, later, max_rows)?,
        })
    }
}

impl Group {
    fn new(inputs: &Inputs, users: Vec<PartedUser>, max_rows: usize) -> Result<Self> {
        let histories = users.iter().map(|user| &user.history);
        let rows = Users::keyed(inputs, histories, max_rows)?;
        Ok(Self {
            users: Private::new(users),
            rows,
        })
    }

    /// The users with their parts: private.
    pub fn users(&self) -> &[PartedUser] {
        self.users.expose()
    }

    /// All rows that a user may learn from after all releases, including those on which alphas were
    /// compared.
    ///
    /// # Errors
    /// When rows do not fit the inputs.
    pub(super) fn all_rows(&self, inputs: &Inputs) -> Result<Users> {
        let users = self.users().iter();
        let all: Vec<SampleUser> = users.map(|of| of.history.and(&of.validation)).collect();
        Users::new(inputs, all.iter(), self.rows.samples().max_rows())
    }

    /// The training rows as model inputs.
    pub const fn rows(&self) -> &Users {
        &self.rows
    }
}
