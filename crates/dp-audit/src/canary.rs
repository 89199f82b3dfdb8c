//! Canary users: users whose contribution to every release is known and as large as allowed.

use dp_core::{Interactions, InteractionsBuilder, Private, UserRow, params};

use crate::Result;

/// Users added to a table for an audit, each with items that nobody else has.
///
/// Because no other user has a canary's items, the coordinates of these items contain only the
/// canary and noise: a Dirac contribution in coordinates that nobody else uses. The catalogue is
/// extended for this purpose.
#[allow(
    missing_debug_implementations,
    reason = "holds the table it was made from"
)]
pub struct Canaries {
    base: Private<Interactions>,
    /// User `c` is canary `c`.
    all: Interactions,
}

impl Canaries {
    /// Adds `n_canaries` users to a table, each with `items_each` new items of the given value.
    ///
    /// # Errors
    /// [`crate::Error::Param`] if a count is 0, [`crate::Error::Data`] if ids run out.
    pub fn new(
        base: Private<Interactions>,
        n_canaries: usize,
        items_each: usize,
        value: f32,
    ) -> Result<Self> {
        params::at_least_one("n_canaries", n_canaries)?;
        params::at_least_one("items_each", items_each)?;
        let dim = base.expose().feature_dim();
        let first = base.expose().n_items();
        let n_items = first + n_canaries * items_each;
        let mut builder = InteractionsBuilder::new(n_items).with_feature_dim(dim);
        for (canary, items) in (0..).zip((first..n_items).step_by(items_each)) {
            for item in items..items + items_each {
                builder.push(canary, u32::try_from(item).unwrap_or(u32::MAX), value)?;
            }
            builder.set_features(canary, &vec![0.0; dim])?;
        }
        let all = builder.build().0;
        Ok(Self { base, all })
    }

    /// Canaries supplied by the caller, for trainers whose coordinates are not items: users of a
    /// separate table with at least the items of `base` and features of the same length.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] or [`crate::Error::Param`] if the tables do not match, or there are
    /// no canaries.
    pub fn of_users(base: Private<Interactions>, canaries: Interactions) -> Result<Self> {
        params::at_least_one("n_canaries", canaries.n_users())?;
        let expected = base.expose().feature_dim();
        params::same_size("canaries' features", canaries.feature_dim(), expected)?;
        let least = base.expose().n_items();
        let expected = "at least the items of the table";
        params::in_range(
            "canaries' items",
            canaries.n_items(),
            least,
            usize::MAX,
            expected,
        )?;
        Ok(Self {
            base,
            all: canaries,
        })
    }

    /// The same canaries, each with this feature vector instead of the zero vector.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] if the table's users have features of another length.
    pub fn with_features(mut self, features: &[f32]) -> Result<Self> {
        let expected = self.base.expose().feature_dim();
        params::same_size("canaries' features", features.len(), expected)?;
        let mut builder =
            InteractionsBuilder::new(self.all.n_items()).with_feature_dim(features.len());
        for (canary, row) in (0..).zip(self.all.users()) {
            push_user(&mut builder, canary, row)?;
            builder.set_features(canary, features)?;
        }
        self.all = builder.build().0;
        Ok(self)
    }

    /// Number of canaries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.n_users()
    }

    /// Whether there are none, which [`new`](Self::new) rejects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of items in the extended catalogue.
    #[must_use]
    pub fn n_items(&self) -> usize {
        self.all.n_items()
    }

    /// Only the canaries, as a table: user `c` is canary `c`.
    #[must_use]
    pub const fn users(&self) -> &Interactions {
        &self.all
    }

    /// The table with the canaries for which `present` is true.
    ///
    /// # Errors
    /// [`crate::Error::Data`] if ids run out.
    pub fn with(&self, present: &[bool]) -> Result<Private<Interactions>> {
        let dim = self.all.feature_dim();
        let mut builder = InteractionsBuilder::new(self.n_items()).with_feature_dim(dim);
        let here = self.all.users().zip(present).filter(|(_, here)| **here);
        let everybody = self.base.expose().users().chain(here.map(|(row, _)| row));
        for (user, row) in (0..).zip(everybody) {
            push_user(&mut builder, user, row)?;
        }
        Ok(Private::new(builder.build().0))
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
