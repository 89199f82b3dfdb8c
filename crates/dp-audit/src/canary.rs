//! Canary users: users whose contribution to every release is known and as large as allowed.

use dp_core::{Interactions, InteractionsBuilder, Private, UserRow, params};

use crate::Result;

/// Users put into a table for an audit, each on items that nobody else has.
///
/// Because no other user touches a canary's items, the coordinates of those items hold the canary
/// and noise: a Dirac contribution in coordinates that nobody else uses, with the catalogue
/// lengthened to make room.
#[allow(
    missing_debug_implementations,
    reason = "holds the table it was made from"
)]
pub struct Canaries {
    base: Private<Interactions>,
    n_canaries: usize,
    items_each: usize,
    value: f32,
    /// Feature vector of every canary.
    features: Vec<f32>,
    all: Interactions,
}

impl Canaries {
    /// Adds `n_canaries` users to a table, each with `items_each` new items of the given value.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when a count is 0, [`crate::Error::Data`] when ids run out.
    pub fn new(
        base: Private<Interactions>,
        n_canaries: usize,
        items_each: usize,
        value: f32,
    ) -> Result<Self> {
        params::at_least_one("n_canaries", n_canaries)?;
        params::at_least_one("items_each", items_each)?;
        let mut made = Self {
            base,
            n_canaries,
            items_each,
            value,
            features: Vec::new(),
            all: InteractionsBuilder::new(1).build().0,
        };
        made.features = vec![0.0; made.base.expose().feature_dim()];
        made.all = made.table(std::iter::empty(), &vec![true; n_canaries])?;
        Ok(made)
    }

    /// The same canaries, each with this feature vector instead of the zero vector.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the table's users have features of another length.
    pub fn with_features(mut self, features: &[f32]) -> Result<Self> {
        let expected = self.base.expose().feature_dim();
        params::same_size("canaries' features", features.len(), expected)?;
        self.features = features.to_vec();
        self.all = self.table(std::iter::empty(), &vec![true; self.n_canaries])?;
        Ok(self)
    }

    /// Number of canaries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.n_canaries
    }

    /// Whether there is none, which [`new`](Self::new) refuses.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.n_canaries == 0
    }

    /// Items of the lengthened catalogue.
    #[must_use]
    pub fn n_items(&self) -> usize {
        self.base.expose().n_items() + self.n_canaries * self.items_each
    }

    /// The canaries alone, as a table: user `c` is canary `c`.
    #[must_use]
    pub const fn users(&self) -> &Interactions {
        &self.all
    }

    /// The table with those canaries for which `present` says so.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when ids run out.
    pub fn with(&self, present: &[bool]) -> Result<Private<Interactions>> {
        Ok(Private::new(
            self.table(self.base.expose().users(), present)?,
        ))
    }

    /// A table of `users` and the canaries that are present.
    fn table<'a>(
        &self,
        users: impl Iterator<Item = UserRow<'a>>,
        present: &[bool],
    ) -> Result<Interactions> {
        let mut builder =
            InteractionsBuilder::new(self.n_items()).with_feature_dim(self.features.len());
        let mut next = 0;
        for row in users {
            push_user(&mut builder, next, row)?;
            next += 1;
        }
        for (canary, _) in present.iter().enumerate().filter(|&(_, &here)| here) {
            self.push(&mut builder, next, canary)?;
            next += 1;
        }
        Ok(builder.build().0)
    }

    fn push(&self, builder: &mut InteractionsBuilder, user: u32, canary: usize) -> Result<()> {
        let first = self.base.expose().n_items() + canary * self.items_each;
        for item in first..first + self.items_each {
            builder.push(user, u32::try_from(item).unwrap_or(u32::MAX), self.value)?;
        }
        Ok(builder.set_features(user, &self.features)?)
    }
}

/// A user of another table with records and features.
pub(crate) fn push_user(
    builder: &mut InteractionsBuilder,
    user: u32,
    row: UserRow<'_>,
) -> Result<()> {
    for (item, value) in row.iter() {
        builder.push(user, item, value)?;
    }
    Ok(builder.set_features(user, row.features())?) // users without records have a row too
}
