//! Canary users: users whose contribution to every release is known and as large as allowed.

use dp_core::{Interactions, InteractionsBuilder, Private, params};

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
            all: InteractionsBuilder::new(1).build().0,
        };
        made.all = made.only(&vec![true; n_canaries])?;
        Ok(made)
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
        let base = self.base.expose();
        let mut builder = InteractionsBuilder::new(self.n_items());
        let mut next = 0;
        for row in base.users() {
            for (item, value) in row.iter() {
                builder.push(next, item, value)?;
            }
            next += 1;
        }
        for (canary, _) in present.iter().enumerate().filter(|&(_, &here)| here) {
            self.push(&mut builder, next, canary)?;
            next += 1;
        }
        builder.ensure_users(next as usize);
        Ok(Private::new(builder.build().0))
    }

    fn only(&self, present: &[bool]) -> Result<Interactions> {
        let mut builder = InteractionsBuilder::new(self.n_items());
        for (user, canary) in (0..).zip(present.iter().enumerate().filter(|c| *c.1)) {
            self.push(&mut builder, user, canary.0)?;
        }
        Ok(builder.build().0)
    }

    fn push(&self, builder: &mut InteractionsBuilder, user: u32, canary: usize) -> Result<()> {
        let first = self.base.expose().n_items() + canary * self.items_each;
        for item in first..first + self.items_each {
            builder.push(user, u32::try_from(item).unwrap_or(u32::MAX), self.value)?;
        }
        Ok(())
    }
}
