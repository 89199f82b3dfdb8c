//! Ratings with the ids of their users and items.

use std::collections::HashSet;

use dp_core::params::{finite, same_size};
use dp_core::{DroppedRecords, Interactions, InteractionsBuilder, Private};

use crate::split::key_of;
use crate::{CatalogueSource, Error, ItemCatalogue, RatingSplit, Result, SplitFractions};

/// Counts of what happened to the records of a file. Private: for internal reports only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadSummary {
    /// Number of records in the file.
    pub n_read: usize,
    /// Number of records on items outside the declared catalogue, which were left out.
    pub n_outside_catalogue: usize,
    /// Records that the merge left out.
    pub dropped: DroppedRecords,
}

/// The key of a user in tables whose users are distributed over several processes:
///
/// ```text
/// key of user u = first 128 bits of SHA-256("dp-data user 1" ‖ 8 zero bytes ‖ id_u), least significant byte first, and 2¹²⁷ set
/// ```
///
/// It depends on the id alone, so it is the same in every file that contains the user.
#[must_use]
#[allow(clippy::missing_panics_doc, reason = "a hash has 32 bytes")]
pub fn user_key(id: &str) -> u128 {
    let hash = key_of(b"dp-data user 1", 0, id);
    u128::from_le_bytes(*hash.first_chunk().expect("a hash has 32 bytes")) | 1 << 127
}

/// A table of ratings, the ids of its rows and columns, and how it was created.
///
/// The catalogue is public. Ratings, user ids and all counts of them are private.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct Ratings {
    interactions: Private<Interactions>,
    user_ids: Private<Vec<String>>,
    left_out_users: Private<Vec<String>>,
    catalogue: ItemCatalogue,
    catalogue_source: CatalogueSource,
    summary: Private<ReadSummary>,
    user_column: Option<String>,
    unread_rating_column: Option<String>,
}

impl Ratings {
    /// Combines a table with its ids; row `u` belongs to `user_ids[u]`, column `i` to the
    /// catalogue's item `i`. The summary counts every record as read and none as dropped.
    ///
    /// # Errors
    /// * [`Error::Shape`] if the number of ids differs from the number of rows, or that of items
    ///   from the number of columns.
    /// * [`Error::RepeatedUser`] if an id occurs twice: that user would then have two rows, each
    ///   bounded separately.
    pub fn new(
        interactions: Interactions,
        user_ids: Vec<String>,
        catalogue: ItemCatalogue,
        catalogue_source: CatalogueSource,
    ) -> Result<Self> {
        same_size("user ids", user_ids.len(), interactions.n_users())?;
        same_size("catalogue", catalogue.len(), interactions.n_items())?;
        let distinct: HashSet<_> = user_ids.iter().collect();
        if distinct.len() < user_ids.len() {
            return Err(Error::RepeatedUser);
        }
        let summary = ReadSummary {
            n_read: interactions.n_records(),
            ..ReadSummary::default()
        };
        Ok(Self::assemble(
            interactions,
            user_ids,
            catalogue,
            catalogue_source,
            summary,
        ))
    }

    /// Like [`new`](Self::new), for callers whose ids are distinct by construction.
    pub(crate) fn assemble(
        interactions: Interactions,
        user_ids: Vec<String>,
        catalogue: ItemCatalogue,
        catalogue_source: CatalogueSource,
        summary: ReadSummary,
    ) -> Self {
        Self {
            interactions: Private::new(interactions),
            user_ids: Private::new(user_ids),
            left_out_users: Private::new(Vec::new()),
            catalogue,
            catalogue_source,
            summary: Private::new(summary),
            user_column: None,
            unread_rating_column: None,
        }
    }

    /// The same, read from a table in which these users have records of other items only.
    pub(crate) fn with_left_out_users(self, ids: Vec<String>) -> Self {
        Self {
            left_out_users: Private::new(ids),
            ..self
        }
    }

    /// The same, read from a table with this column of user ids, and with a column of ratings that
    /// was not read.
    pub(crate) fn with_columns(
        self,
        user_column: Option<String>,
        unread_rating_column: Option<String>,
    ) -> Self {
        Self {
            user_column,
            unread_rating_column,
            ..self
        }
    }

    /// The column that user ids were read from: its name, or its number from 1 in a file without
    /// names. Public like the header. `None` if the ratings were not read from a table.
    #[must_use]
    pub fn user_column(&self) -> Option<&str> {
        self.user_column.as_deref()
    }

    /// A column that looks like ratings, in a table that was read
    /// [without ratings](crate::RatingsFormat::without_ratings). Its name, or what it would be in a file without a header: public like the header.
    #[must_use]
    pub fn unread_rating_column(&self) -> Option<&str> {
        self.unread_rating_column.as_deref()
    }

    /// The ratings, shape `(n_users, n_items)`.
    #[must_use]
    pub const fn interactions(&self) -> &Private<Interactions> {
        &self.interactions
    }

    /// Ids of the users by row, in order of first appearance.
    #[must_use]
    pub const fn user_ids(&self) -> &Private<Vec<String>> {
        &self.user_ids
    }

    /// Ids of users who have no row because all of their records are on items outside the declared
    /// catalogue.
    #[must_use]
    pub const fn left_out_users(&self) -> &Private<Vec<String>> {
        &self.left_out_users
    }

    /// The items by column.
    #[must_use]
    pub const fn catalogue(&self) -> &ItemCatalogue {
        &self.catalogue
    }

    /// Whether the catalogue was declared or collected from these ratings.
    #[must_use]
    pub const fn catalogue_source(&self) -> CatalogueSource {
        self.catalogue_source
    }

    /// Counts of what was read and what was left out.
    #[must_use]
    pub const fn summary(&self) -> &Private<ReadSummary> {
        &self.summary
    }

    /// Splits the ratings into training, validation and test parts; see [`RatingSplit::new`].
    ///
    /// # Errors
    /// The errors of [`RatingSplit::new`].
    pub fn split(&self, fractions: SplitFractions, seed: u64) -> Result<RatingSplit> {
        RatingSplit::new(self, fractions, seed)
    }
}

impl Ratings {
    /// The users selected by `keep`, with all of their records. All items are kept. `keep` is
    /// called with each user's [key](user_key), which is also the user's key in the tables of the
    /// result.
    ///
    /// # Privacy
    /// *Neighbour-stable*: whether a user is selected depends on no other user.
    #[must_use]
    #[allow(
        clippy::missing_panics_doc,
        reason = "one part is asked for, and one comes back"
    )]
    pub fn of_users(&self, keep: impl Fn(u128) -> bool) -> Self {
        let ids = self.user_ids().expose();
        let keys: Vec<u128> = ids.iter().map(|id| user_key(id)).collect();
        let table = self.interactions().expose();
        let parts = table.deal_by(&keys, 1, |key| usize::from(!keep(key)));
        let table = parts.ok().and_then(|mut parts| parts.pop());
        let own = ids.iter().zip(&keys).filter(|(_, key)| keep(**key));
        Self::assemble(
            table.expect("one part is asked for"),
            own.map(|(id, _)| id.clone()).collect(),
            self.catalogue().clone(),
            self.catalogue_source(),
            *self.summary().expose(),
        )
        .with_columns(self.user_column.clone(), self.unread_rating_column.clone())
        .with_left_out_users(
            (self.left_out_users.expose().iter())
                .filter(|id| keep(user_key(id)))
                .cloned()
                .collect(),
        )
    }

    /// The records with a value of at least `min_rating`, each with value 1. All users and items
    /// are kept.
    ///
    /// # Privacy
    /// Acts on every record separately, so data sets that differ by one user still differ by one
    /// user. `min_rating` is public.
    ///
    /// # Errors
    /// [`crate::Error::Param`] if `min_rating` is not finite; [`dp_core::ScratchError`] for ratings
    /// on disk.
    ///
    /// # Examples
    /// ```
    /// let file = "user,item,rating\na,1,5\na,2,3\nb,2,4\n";
    /// let ratings = dp_data::read_ratings_from(file.as_bytes(), "ratings", &Default::default(), None)?;
    /// let liked = ratings.to_implicit(4.0)?;
    /// assert_eq!(liked.interactions().expose().n_records(), 2);
    /// assert_eq!(liked.interactions().expose().user(0).values(), [1.0]);
    /// # Ok::<(), dp_data::Error>(())
    /// ```
    pub fn to_implicit(&self, min_rating: f64) -> Result<Self> {
        finite("min_rating", min_rating)?;
        let table = self.interactions().expose();
        let mut builder = InteractionsBuilder::new(table.n_items());
        builder.ensure_users(table.n_users());
        for (user, row) in (0..).zip(0..table.n_users()) {
            let id = table.user_id(row);
            if id != u128::from(user) {
                builder.set_id(user, id); // the identity of users does not depend on what they like
            }
        }
        let mut builder = builder.on_disk(table.scratch().cloned());
        for (user, row) in (0..).zip(table.users()) {
            for (item, value) in row.iter() {
                if f64::from(value) >= min_rating {
                    builder.push(user, item, 1.0)?;
                }
            }
        }
        Ok(Self::assemble(
            builder.try_build()?.0,
            self.user_ids().expose().clone(),
            self.catalogue().clone(),
            self.catalogue_source(),
            *self.summary().expose(),
        )
        .with_columns(self.user_column.clone(), self.unread_rating_column.clone())
        .with_left_out_users(self.left_out_users.expose().clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_by_three() -> Interactions {
        let mut builder = InteractionsBuilder::new(3);
        builder.push(1, 2, 4.0).unwrap();
        builder.ensure_users(2);
        builder.build().0
    }

    fn put_together(users: &[&str], n_items: usize) -> Result<Ratings> {
        Ratings::new(
            two_by_three(),
            users.iter().map(ToString::to_string).collect(),
            ItemCatalogue::from_ids((0..n_items).map(|i| i.to_string())),
            CatalogueSource::Declared,
        )
    }

    #[test]
    fn ids_must_fit_the_table() {
        assert!(put_together(&["a", "b"], 3).is_ok());
        assert!(matches!(put_together(&["a"], 3), Err(Error::Shape(_))));
        assert!(matches!(put_together(&["a", "b"], 2), Err(Error::Shape(_))));
    }

    #[test]
    fn one_id_cannot_hold_two_rows() {
        assert!(matches!(
            put_together(&["a", "a"], 3),
            Err(Error::RepeatedUser)
        ));
    }

    #[test]
    fn users_are_picked_by_a_key_that_is_the_same_in_every_file() {
        let table = |users: &[&str]| {
            let mut builder = InteractionsBuilder::new(2);
            for (user, id) in (0..).zip(users) {
                let value = f32::from(id.as_bytes()[0]);
                builder.push(user, user % 2, value).unwrap();
            }
            let catalogue = ItemCatalogue::from_ids(["x", "y"].map(str::to_owned));
            let users = users.iter().map(|id| (*id).to_owned()).collect();
            let source = CatalogueSource::Declared;
            Ratings::new(builder.build().0, users, catalogue, source).unwrap()
        };
        let keys = |of: &Ratings| -> Vec<(String, u128, f32)> {
            let users = of.user_ids().expose().iter().enumerate();
            let table = of.interactions().expose();
            users
                .map(|(at, id)| (id.clone(), table.user_id(at), table.user(at).values()[0]))
                .collect()
        };
        let all = table(&["a", "b", "c", "d", "e"]).of_users(|_| true);
        let other = table(&["e", "z", "a"]).of_users(|_| true);
        let (all, other) = (keys(&all), keys(&other));
        assert_eq!([&other[0], &other[2]], [&all[4], &all[0]]);
        let [odd, even] = [1, 0].map(|rest| {
            let part = table(&["a", "b", "c", "d", "e"]).of_users(|key| key % 2 == rest);
            part.to_implicit(0.0).unwrap(); // a consistent table
            keys(&part)
        });
        assert!(!odd.is_empty() && !even.is_empty());
        let mut joined = [odd, even].concat();
        joined.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(joined, all);
    }
}
