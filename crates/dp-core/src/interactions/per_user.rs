//! Values that belong to the users of a table, found by an opaque key.

use super::{Interactions, UserRow};

/// Which user of a table a row belongs to, without telling anything about the user.
///
/// The table hands a key out with every row ([`UserRow::key`]). Copies, shards and parts of a table
/// ([`Interactions::shards`], [`Interactions::partition`]) give a user the same key; tables that
/// were built apart never share one. All that can be done with a key is to compare it and to look
/// up what a [`PerUser`] holds, so a contribution cannot depend on a user's number or position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UserKey {
    pub(super) table: u64,
    pub(super) row: usize,
}

/// One value for each user of a table.
///
/// # Examples
/// ```
/// use dp_core::{InteractionsBuilder, PerUser};
/// let mut builder = InteractionsBuilder::new(2);
/// builder.push(7, 0, 1.0)?;
/// builder.push(9, 1, 5.0)?;
/// let table = builder.build().0;
/// let largest = PerUser::of(&table, |row| row.values()[0]);
/// assert_eq!(largest.get(table.user(1).key()), Some(&5.0));
/// let second_shard = &table.shards(2)[1];
/// assert_eq!(largest.get(second_shard.user(0).key()), Some(&5.0));
/// # Ok::<(), dp_core::Error>(())
/// ```
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "holds what belongs to users; printing it is never wanted"
)]
pub struct PerUser<T> {
    table: u64,
    first: usize,
    values: Vec<T>,
}

impl<T> PerUser<T> {
    /// Makes the value of every user of `table` from the user's own row.
    pub fn of(table: &Interactions, make: impl FnMut(UserRow<'_>) -> T) -> Self {
        Self::from_values(table, table.users().map(make).collect())
    }

    /// Takes over values made elsewhere, in the order of the users of `table`; what is beyond the
    /// last user belongs to nobody.
    #[must_use]
    pub const fn from_values(table: &Interactions, values: Vec<T>) -> Self {
        Self {
            table: table.keys.table,
            first: table.keys.row,
            values,
        }
    }

    /// The value of a user, or nothing for a row of another table.
    #[must_use]
    pub fn get(&self, key: UserKey) -> Option<&T> {
        self.values.get(self.place(key)?)
    }

    /// Where the value of a user lies in [`values`](Self::values), or nothing for a row of another table.
    #[must_use]
    pub fn place(&self, key: UserKey) -> Option<usize> {
        let place = key.row.checked_sub(self.first)?;
        (key.table == self.table && place < self.values.len()).then_some(place)
    }

    /// All values, in the order of the users of the table.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// All values, to be changed in place.
    #[must_use]
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// All values, in the order of the users of the table.
    #[must_use]
    pub fn into_values(self) -> Vec<T> {
        self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InteractionsBuilder;

    fn table(users: &[u32]) -> Interactions {
        let mut builder = InteractionsBuilder::new(3);
        for &user in users {
            builder.push(user, user % 3, 1.0).unwrap();
        }
        builder.build().0
    }

    #[test]
    fn shards_parts_and_copies_find_what_belongs_to_their_users_and_other_tables_find_nothing() {
        let t = table(&[5, 1, 9, 300]);
        let numbers = PerUser::from_values(&t, vec![10, 11, 12, 13]);
        for tables in [t.shards(3), t.partition(2, |_, item, _| item as usize % 2)] {
            let whole = tables[0].n_users() == t.n_users();
            let mut user = 0;
            for part in &tables {
                for row in part.users() {
                    let expected = if whole { user % 4 } else { user };
                    assert_eq!(numbers.get(row.key()), Some(&(10 + expected)));
                    user += 1;
                }
            }
        }
        assert_eq!(numbers.get(t.clone().user(2).key()), Some(&12));
        let stranger = table(&[5, 1, 9, 300]);
        assert!(stranger.users().all(|row| numbers.get(row.key()).is_none()));
        for part in t.deal(2, |id| usize::from(id > 5)) {
            assert!(part.users().all(|row| numbers.get(row.key()).is_none()));
        }
    }
}
