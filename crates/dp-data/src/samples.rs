//! Labelled feature vectors of many users, with their ids and the names of their columns.

use dp_core::params::same_size;
use dp_core::{Private, UserRow};

use crate::{Ratings, Result, user_key};

/// Rows `(x, y)` of a file, grouped by user, and the names of the columns of `x`.
///
/// Names of columns are public: they are part of how the data is stored, or are generated for a
/// declared width. Everything else is private.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct SampleTable {
    features: Vec<String>,
    target: Option<String>,
    user_column: Option<String>,
    users: Private<Vec<SampleUser>>,
    order: Private<Vec<u32>>,
    n_not_finite: Private<usize>,
}

/// One user's rows; empty by default.
#[derive(Clone, Default, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct SampleUser {
    pub(crate) id: String,
    /// The rows one after the other, each `x` followed by `y`.
    pub(crate) cells: Vec<f32>,
}

impl SampleTable {
    pub(crate) const fn new(
        features: Vec<String>,
        target: Option<String>,
        users: Vec<SampleUser>,
        order: Vec<u32>,
        n_not_finite: usize,
    ) -> Self {
        Self {
            features,
            target,
            user_column: None,
            users: Private::new(users),
            order: Private::new(order),
            n_not_finite: Private::new(n_not_finite),
        }
    }

    /// The same, read from a table with this column of user ids.
    pub(crate) fn with_users_from(self, user_column: Option<String>) -> Self {
        Self {
            user_column,
            ..self
        }
    }

    /// The name of the column that user ids were read from, public like the header. `None` if they
    /// were not read from a column.
    #[must_use]
    pub fn user_column(&self) -> Option<&str> {
        self.user_column.as_deref()
    }

    /// Ratings as labelled feature vectors: `x` are the features of the item, `y` is the rating.
    ///
    /// `items` contains the features of all items, one after the other in the order of the
    /// catalogue, each as long as `names`. They must be public or released: the guarantee of what
    /// is trained does not cover them.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] if `items` has another length.
    pub fn of_ratings(ratings: &Ratings, names: Vec<String>, items: &[f32]) -> Result<Self> {
        let (table, width) = (ratings.interactions().expose(), names.len());
        same_size("item features", items.len(), table.n_items() * width)?;
        let cells = |row: UserRow<'_>| {
            let records = row.iter().flat_map(|(item, rating)| {
                let x = &items[item as usize * width..][..width];
                x.iter().copied().chain([rating])
            });
            records.collect()
        };
        let ids = ratings.user_ids().expose().iter().cloned();
        let users: Vec<SampleUser> = ids
            .zip(table.users())
            .map(|(id, row)| SampleUser {
                id,
                cells: cells(row),
            })
            .collect();
        let order = (0..).zip(table.users());
        let order = order.flat_map(|(user, row)| std::iter::repeat_n(user, row.len()));
        let (order, not_finite) = (
            order.collect(),
            ratings.summary().expose().dropped.not_finite,
        );
        let target = Some("rating".to_owned());
        let table = Self::new(names, target, users, order, not_finite);
        Ok(table.with_users_from(ratings.user_column().map(str::to_owned)))
    }

    /// The users selected by `keep` according to their [keys](user_key), with all of their rows.
    ///
    /// # Privacy
    /// *Neighbour-stable*: whether a user is selected depends on no other user.
    #[must_use]
    pub fn of_users(&self, keep: impl Fn(u128) -> bool) -> Self {
        let users = self.users.expose().iter();
        let kept: Vec<bool> = users.map(|user| keep(user_key(&user.id))).collect();
        let numbers = kept.iter().scan(0, |n_kept, &is_kept| {
            let number = *n_kept;
            *n_kept += u32::from(is_kept);
            Some(number)
        });
        let numbers: Vec<u32> = numbers.collect();
        let users = self.users.expose().iter().zip(&kept);
        let order = self.order.expose().iter().map(|&user| user as usize);
        let order = order.filter(|&user| kept[user]).map(|user| numbers[user]);
        Self::new(
            self.features.clone(),
            self.target.clone(),
            users
                .filter(|(_, is_kept)| **is_kept)
                .map(|(user, _)| user.clone())
                .collect(),
            order.collect(),
            *self.n_not_finite.expose(),
        )
        .with_users_from(self.user_column.clone())
    }

    /// Names of the feature columns, in the order of the numbers of `x`. Public.
    #[must_use]
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// Name of the column of `y`, if one was read. Public.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// The users, in order of first appearance.
    #[must_use]
    pub const fn users(&self) -> &Private<Vec<SampleUser>> {
        &self.users
    }

    /// For every kept row of the file, in order, the index of its user in [`users`](Self::users).
    #[must_use]
    pub const fn order(&self) -> &Private<Vec<u32>> {
        &self.order
    }

    /// Number of rows left out because a number in them is NaN or infinite; for LEAF also because a
    /// number or label is missing or superfluous.
    #[must_use]
    pub const fn n_not_finite(&self) -> &Private<usize> {
        &self.n_not_finite
    }

    /// Only the users.
    #[must_use]
    pub fn into_users(self) -> Private<Vec<SampleUser>> {
        self.users
    }
}

impl SampleUser {
    /// The id as it is in the file; empty if the file has no user column.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The rows in the order of the file. If the file was read without target, every `y` is 0.
    ///
    /// # Panics
    /// If `n_features` is not the number of features of the table.
    pub fn rows(&self, n_features: usize) -> impl ExactSizeIterator<Item = (&[f32], f32)> {
        let width = n_features + 1;
        assert!(
            self.cells.len().is_multiple_of(width),
            "rows of another width"
        );
        self.cells
            .chunks_exact(width)
            .map(move |row| (&row[..n_features], row[n_features]))
    }

    /// This user with the rows of `other`, from the same table, appended.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            id: self.id.clone(),
            cells: [&self.cells[..], &other.cells].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RatingsFormat, SampleColumns, read_ratings_from, read_samples_from};

    #[test]
    fn users_are_picked_with_all_of_their_rows() {
        let text = "user,x,y\nann,1,1\nbob,2,2\ncem,3,3\nbob,4,4\ncem,5,5\n";
        let all = read_samples_from(text.as_bytes(), "r.csv", &SampleColumns::default()).unwrap();
        let ann = user_key("ann");
        let others = all.of_users(|key| key != ann);
        let ids: Vec<&str> = others.users().expose().iter().map(SampleUser::id).collect();
        assert_eq!(ids, ["bob", "cem"]);
        assert_eq!(others.order().expose(), &[0, 1, 0, 1]);
        for (user, rows) in others.users().expose().iter().zip([[2.0, 4.0], [3.0, 5.0]]) {
            assert!(user.rows(1).map(|(_, y)| y).eq(rows));
        }
        assert_eq!(all.of_users(|key| key == ann).order().expose(), &[0]);
    }

    #[test]
    fn ratings_carry_the_features_of_their_items() {
        let text = "user,item,rating\nann,1,4\nbob,2,5\nann,2,1\nbob,1,nan\n";
        let ratings = read_ratings_from(text.as_bytes(), "r.csv", &RatingsFormat::default(), None);
        let (ratings, names) = (ratings.unwrap(), vec!["a".to_owned(), "b".to_owned()]);
        let table = SampleTable::of_ratings(&ratings, names.clone(), &[1.0, 2.0, 3.0, 4.0]);
        let table = table.unwrap();
        let users = table.users().expose();
        let rows: Vec<_> = users[0].rows(2).collect();
        assert_eq!(rows, [(&[1.0, 2.0][..], 4.0), (&[3.0, 4.0], 1.0)]);
        assert_eq!((users[1].id(), users[1].rows(2).len()), ("bob", 1));
        assert_eq!(
            (table.order().expose().len(), *table.n_not_finite().expose()),
            (3, 1)
        );
        assert!(SampleTable::of_ratings(&ratings, names, &[1.0, 2.0, 3.0]).is_err());
    }
}
