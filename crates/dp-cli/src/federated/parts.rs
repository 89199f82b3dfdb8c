//! Every user's rows, dealt to what is trained on, what alphas are compared on and what is tested on.

use dp_core::Private;
use dp_data::{SampleShares, SampleUser};

use crate::error::Result;
use crate::personal::{Inputs, Users};

/// Shares of each user's rows that are not trained on.
#[derive(Clone, Copy)]
pub(crate) struct Shares {
    pub(crate) test: f64,
    /// Of the rows that are not tested on.
    pub(crate) validation: f64,
}

/// One user's rows: private.
pub(crate) struct PartedUser {
    pub(crate) history: SampleUser,
    pub(crate) validation: SampleUser,
    pub(crate) test: SampleUser,
}

/// All users' parts, and the histories as models see them.
pub(crate) struct Parts {
    users: Private<Vec<PartedUser>>,
    train: Users,
}

/// Sets the second deal of rows apart from the first.
const VALIDATION: u64 = 0x9e37_79b9_7f4a_7c15;

impl Parts {
    /// Where a row goes depends on its own user's rows and the seed alone, so that a guarantee for what is trained and compared on is one
    /// for the whole input.
    pub(crate) fn new(
        inputs: &Inputs,
        users: Private<Vec<SampleUser>>,
        shares: Shares,
        max_rows: usize,
        seed: u64,
    ) -> Result<Self> {
        let n_features = inputs.features.len();
        let tested = share(shares.test).split(users, n_features, seed)?;
        let (kept, tests): (Vec<_>, Vec<_>) = (tested.into_exposed().into_iter())
            .map(|user| (user.history, user.test))
            .unzip();
        let compared = share(shares.validation);
        let compared = compared.split(Private::new(kept), n_features, seed ^ VALIDATION)?;
        let users = compared.into_exposed().into_iter().zip(tests);
        let users: Vec<PartedUser> = users
            .map(|(user, test)| PartedUser {
                history: user.history,
                validation: user.test,
                test,
            })
            .collect();
        let train = Users::new(inputs, users.iter().map(|user| &user.history), max_rows)?;
        Ok(Self {
            users: Private::new(users),
            train,
        })
    }

    pub(crate) fn users(&self) -> &[PartedUser] {
        self.users.expose()
    }

    pub(crate) const fn train(&self) -> &Users {
        &self.train
    }
}

const fn share(test_rows: f64) -> SampleShares {
    SampleShares {
        test_rows,
        held_out_users: 0.0,
    }
}
