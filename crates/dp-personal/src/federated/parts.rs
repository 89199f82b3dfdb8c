//! Every user's rows, dealt to what is trained on, what alphas are compared on and what is tested on.

use dp_core::Private;
use dp_data::{SampleShares, SampleUser};

use crate::error::Result;
use crate::personal::{Inputs, Users};

/// What is not trained on.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldOut {
    /// Of each user's rows.
    pub test: f64,
    /// Of the rows that are not tested on.
    pub validation: f64,
    /// Of the users: they join when everything is released.
    pub held_out_users: f64,
}

/// One user's rows: private.
pub struct PartedUser {
    /// What is trained on.
    pub history: SampleUser,
    /// What alphas are compared on.
    pub validation: SampleUser,
    /// What is tested on.
    pub test: SampleUser,
}

/// Users with their parts, and the histories as models see them.
pub struct Group {
    users: Private<Vec<PartedUser>>,
    rows: Users,
}

/// The users who are trained on, and those who are not.
pub struct Parts {
    /// Those who are trained on.
    pub trained: Group,
    /// Those who join when everything is released.
    pub held_out: Group,
}

/// Sets the second deal of rows apart from the first.
const VALIDATION: u64 = 0x9e37_79b9_7f4a_7c15;

impl Parts {
    /// Where a row or user goes depends on the own user's rows and id and the seed alone, so that a guarantee for what is trained and compared on is one
    /// for the whole input. The rows of users who are not
    /// trained on are dealt alike, so that figures of both kinds of users are for as many rows.
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

    /// All rows that a user may learn from when everything is released: those that alphas were compared on too.
    ///
    /// # Errors
    /// When rows do not fit the inputs.
    pub(super) fn all_rows(&self, inputs: &Inputs) -> Result<Users> {
        let users = self.users().iter();
        let all: Vec<SampleUser> = users.map(|of| of.history.and(&of.validation)).collect();
        Users::new(inputs, all.iter(), self.rows.samples().max_rows())
    }

    /// The histories as models see them.
    pub const fn rows(&self) -> &Users {
        &self.rows
    }
}
