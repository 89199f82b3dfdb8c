//! Ratings with the ids of their users and items.

use std::collections::HashSet;

use dp_core::params::{finite, same_size};
use dp_core::{DroppedRecords, Interactions, InteractionsBuilder, Private};

use crate::{CatalogueSource, Error, ItemCatalogue, RatingSplit, Result, SplitFractions};

/// What became of the records of a file. Private figures: for internal reports only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadSummary {
    /// Records in the file.
    pub n_read: usize,
    /// Records on items outside the declared catalogue; left out.
    pub n_outside_catalogue: usize,
    /// Records the merge left out.
    pub dropped: DroppedRecords,
}

/// A table of ratings, the ids behind its rows and columns, and how it came about.
///
/// The catalogue is public; ratings, user ids and all counts of them are private.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct Ratings {
    interactions: Private<Interactions>,
    user_ids: Private<Vec<String>>,
    catalogue: ItemCatalogue,
    catalogue_source: CatalogueSource,
    summary: Private<ReadSummary>,
}

impl Ratings {
    /// Puts a table together with its ids; row `u` belongs to `user_ids[u]`, column `i` to the
    /// catalogue's item `i`. The summary counts every record as read and none as dropped.
    ///
    /// # Errors
    /// * [`Error::Shape`] - there are not as many ids as rows, or items as columns.
    /// * [`Error::RepeatedUser`] - an id occurs twice: its holder would have two rows, each
    ///   bounded on its own.
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

    /// As [`new`](Self::new), for callers whose ids are distinct by construction.
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
            catalogue,
            catalogue_source,
            summary: Private::new(summary),
        }
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

    /// What was read and what was left out.
    #[must_use]
    pub const fn summary(&self) -> &Private<ReadSummary> {
        &self.summary
    }

    /// Splits the ratings into training, validation and test parts; see [`RatingSplit::new`].
    #[must_use]
    pub fn split(&self, fractions: SplitFractions, seed: u64) -> RatingSplit {
        RatingSplit::new(self, fractions, seed)
    }
}

impl Ratings {
    /// The records with a value of at least `min_rating`, each with value 1; all users and items stay.
    ///
    /// # Privacy
    /// Acts on every record by itself, so one user more or less stays one user more or less. `min_rating`
    /// is public.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `min_rating` is not finite.
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
        for (user, row) in (0..).zip(table.users()) {
            for (item, value) in row.iter() {
                if f64::from(value) >= min_rating {
                    builder.push(user, item, 1.0)?;
                }
            }
            let id = table.user_id(user as usize);
            if id != u128::from(user) {
                builder.set_id(user, id); // who users are does not depend on what they like
            }
        }
        builder.ensure_users(table.n_users());
        Ok(Self::assemble(
            builder.build().0,
            self.user_ids().expose().clone(),
            self.catalogue().clone(),
            self.catalogue_source(),
            *self.summary().expose(),
        ))
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
}
