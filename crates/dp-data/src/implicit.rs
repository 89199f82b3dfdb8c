//! Ratings as a yes: what a user liked, and nothing about the rest.

use dp_core::InteractionsBuilder;
use dp_core::params::finite;

use crate::{Ratings, Result};

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
