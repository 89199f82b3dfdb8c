//! Which user of a table a row is of.

use dp_core::{Interactions, UserRow};

/// Where the users of one table lie in memory.
///
/// The kernel hands a contribution the user's row and no number, so that nobody's share can depend on where others
/// stand. What a user keeps between rounds is found by where the row lies: it is that user's own, whatever its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    /// Address of the first user's features, and bytes from one user's to the next's.
    first: usize,
    stride: usize,
    n_users: usize,
}

impl Places {
    /// # Errors
    /// [`crate::Error::Param`] for a table without features: its width is public.
    pub(crate) fn of(table: &Interactions) -> crate::Result<Self> {
        let dim = dp_core::params::at_least_one("feature_dim", table.feature_dim())?;
        let n_users = table.n_users();
        let first = if n_users > 0 {
            address(table.user(0))
        } else {
            0
        };
        Ok(Self {
            first,
            stride: dim * size_of::<f32>(),
            n_users,
        })
    }

    /// The user's place in the table; none for a row of another table.
    pub(crate) fn index(&self, user: UserRow<'_>) -> Option<usize> {
        let from_first = address(user).checked_sub(self.first)?;
        let index = from_first / self.stride;
        let whole = from_first % self.stride == 0 && index < self.n_users;
        whole.then_some(index)
    }
}

fn address(user: UserRow<'_>) -> usize {
    user.features().as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;

    use super::*;

    #[test]
    fn rows_are_found_in_their_own_table_and_in_no_other() {
        let made = || {
            let mut builder = UserSamplesBuilder::new(2, 3).unwrap();
            for user in 0..5 {
                builder.push(user, &[1.0, 2.0], 3.0).unwrap();
            }
            builder.build().0
        };
        let (one, other) = (made(), made());
        let places = Places::of(one.table().expose()).unwrap();
        for (at, user) in one.table().expose().users().enumerate() {
            assert_eq!(places.index(user), Some(at));
        }
        let strangers = other.table().expose().users();
        assert!(
            strangers
                .into_iter()
                .all(|user| places.index(user).is_none())
        );
    }
}
