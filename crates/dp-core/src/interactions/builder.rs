use std::collections::BTreeMap;

use super::{Interactions, Records, Rows, UserIds, UserNumbers};
use crate::{Result, ShapeError};

/// What the merge left out. A private figure: for internal reports only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DroppedRecords {
    /// Records whose value was NaN or infinite.
    pub not_finite: usize,
    /// Records replaced by a later one of the same user-item pair.
    pub repeated: usize,
}

/// Collects records and merges them into [`Interactions`].
///
/// Rules, each a function of one user's own records, so that no user's data can change what
/// is kept of another's:
///
/// | record | rule |
/// |---|---|
/// | value NaN or infinite | left out, as if never given |
/// | second record of a user-item pair | the last finite one given is kept |
/// | any finite value, however large | kept; training clips it |
/// | a coordinate of a feature vector NaN or infinite | 0 takes its place |
/// | second feature vector of a user | the last one given is kept |
/// | no feature vector of a user | the zero vector |
///
/// Without the merge one user could add the same item twice and double what the privacy bound
/// allows per item.
///
/// A row is a user: whoever was named by a record, a feature vector or
/// [`ensure_users`](Self::ensure_users) gets one, in the order of their numbers, and a number that
/// nobody has gets none. So one person more adds one row, whatever their number.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct InteractionsBuilder {
    n_items: usize,
    users: UserNumbers,
    records: Records,
    not_finite: usize,
    feature_dim: usize,
    /// Whose each vector of `features` is.
    feature_users: Vec<u32>,
    features: Vec<f32>,
    /// Ids that were given, by user number.
    ids: BTreeMap<u32, u128>,
}

impl InteractionsBuilder {
    /// An empty collection over a catalogue of `n_items`.
    #[must_use]
    pub fn new(n_items: usize) -> Self {
        Self {
            n_items,
            users: UserNumbers::default(),
            records: Records::default(),
            not_finite: 0,
            feature_dim: 0,
            feature_users: Vec::new(),
            features: Vec::new(),
            ids: BTreeMap::new(),
        }
    }

    /// The same collection whose users have feature vectors of length `feature_dim`, a public
    /// number. Vectors given before are forgotten.
    #[must_use]
    pub fn with_feature_dim(mut self, feature_dim: usize) -> Self {
        self.feature_dim = feature_dim;
        self.feature_users.clear();
        self.features.clear();
        self
    }

    /// Sets one user's feature vector.
    ///
    /// # Errors
    /// [`ShapeError`] when the length is not the one of
    /// [`with_feature_dim`](Self::with_feature_dim): a matter of the table's public shape. No
    /// *value* is refused.
    ///
    /// # Examples
    /// ```
    /// use dp_core::InteractionsBuilder;
    /// let mut builder = InteractionsBuilder::new(1).with_feature_dim(2);
    /// builder.push(0, 0, 4.0)?;
    /// builder.set_features(0, &[0.5, f32::NAN])?;
    /// assert_eq!(builder.build().0.user(0).features(), &[0.5, 0.0]);
    /// # Ok::<(), dp_core::Error>(())
    /// ```
    pub fn set_features(&mut self, user: u32, features: &[f32]) -> Result<()> {
        crate::params::same_size("feature vector", features.len(), self.feature_dim)?;
        let finite = |&x: &f32| if x.is_finite() { x } else { 0.0 };
        self.features.extend(features.iter().map(finite));
        self.feature_users.push(user);
        self.users.insert(user);
        Ok(())
    }

    /// Adds one record. A record that is left out still gives its user a row.
    ///
    /// # Errors
    /// [`ShapeError`] when `item` is not in the catalogue.
    pub fn push(&mut self, user: u32, item: u32, value: f32) -> Result<()> {
        if item as usize >= self.n_items {
            return Err(
                ShapeError::new("item index plus one", item as usize + 1, self.n_items).into(),
            );
        }
        self.users.insert(user);
        if value.is_finite() {
            self.records.push(user, item, value);
        } else {
            self.not_finite += 1;
        }
        Ok(())
    }

    /// Says who a user is beyond this table ([`Interactions::user_id`]), such as a hash of the id in
    /// the data, of which the lower 127 bits count. Two users must not have the same. A user of whom
    /// nothing is said has their number as id, which is told from ids that were given.
    pub fn set_id(&mut self, user: u32, id: u128) {
        self.users.insert(user);
        self.ids.insert(user, id);
    }

    /// Names users `0..n_users`, so that those without records have a row too.
    pub fn ensure_users(&mut self, n_users: usize) {
        self.users.insert_below(n_users);
    }

    /// Merges the records; cost O(records + users) and a sort within each user. A record takes 8 bytes
    /// before and 8 after, and 4 more before where the next one is of another user.
    #[must_use]
    pub fn build(mut self) -> (Interactions, DroppedRecords) {
        let rows = std::mem::take(&mut self.users).into_rows();
        let n_given = self.records.len();
        let features = self.features_by_row(&rows);
        let mut table = Interactions {
            n_items: self.n_items,
            offsets: vec![0],
            items: Vec::with_capacity(n_given),
            values: Vec::with_capacity(n_given),
            feature_dim: self.feature_dim,
            features,
            by_item: std::sync::OnceLock::new(),
            origin: super::Origin::of_a_new_table(),
            keys: Interactions::new_keys(),
            ids: self.ids_by_row(&rows),
        };
        self.records
            .for_each_row(&rows, |row| append_merged(&mut table, row));
        let dropped = DroppedRecords {
            not_finite: self.not_finite,
            repeated: n_given - table.items.len(),
        };
        (table, dropped)
    }

    /// Who the user of each row is.
    fn ids_by_row(&self, rows: &Rows) -> UserIds {
        if self.ids.is_empty() && rows.are_consecutive() {
            return UserIds::From(rows.numbers().next().unwrap_or(0).into());
        }
        // given ids have their highest bit set and numbers have not, so that neither can be taken for the other
        let given = |&id: &u128| id | (1 << 127);
        let id = |number| self.ids.get(&number).map_or(number.into(), given);
        UserIds::Each(rows.numbers().map(id).collect())
    }

    /// The last vector given of each row.
    fn features_by_row(&self, rows_of: &Rows) -> Vec<f32> {
        let dim = self.feature_dim;
        let mut features = vec![0.0; rows_of.n_rows() * dim];
        if dim > 0 {
            for (&user, given) in self
                .feature_users
                .iter()
                .zip(self.features.chunks_exact(dim))
            {
                features[rows_of.of(user as usize) * dim..][..dim].copy_from_slice(given);
            }
        }
        features
    }
}

/// Appends one user's records: stable sort by item, then the last of each run.
fn append_merged(table: &mut Interactions, row: &mut [(u32, f32)]) {
    row.sort_by_key(|&(item, _)| item);
    for run in row.chunk_by(|a, b| a.0 == b.0) {
        let (item, value) = run[run.len() - 1];
        table.items.push(item);
        table.values.push(value);
    }
    table.offsets.push(table.items.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_finite_record_of_a_pair_wins() {
        let mut b = InteractionsBuilder::new(2);
        for value in [1.0, 2.0, f32::NAN, f32::INFINITY] {
            b.push(0, 1, value).unwrap();
        }
        let (table, dropped) = b.build();
        assert_eq!(table.user(0).items(), &[1]);
        assert_eq!(table.user(0).values(), &[2.0]);
        assert_eq!(
            dropped,
            DroppedRecords {
                not_finite: 2,
                repeated: 1
            }
        );
    }

    #[test]
    fn many_users_in_any_order_give_the_table_of_the_records() {
        // users of several blocks, some of them empty, records of a user far apart
        let mut builder = InteractionsBuilder::new(50);
        let mut expected = std::collections::BTreeMap::new();
        for step in 0..60_000_u32 {
            let user = step.wrapping_mul(7_919) % 9_001 * if step % 5 == 0 { 9 } else { 1 };
            let (item, value) = (step % 50, (step / 7) as f32);
            builder.push(user, item, value).unwrap();
            let row: &mut std::collections::BTreeMap<u32, f32> = expected.entry(user).or_default();
            row.insert(item, value);
        }
        builder.ensure_users(3);
        for user in 0..3 {
            expected.entry(user).or_default();
        }
        let table = builder.build().0;
        assert_eq!(table.n_users(), expected.len());
        for (row, (_, records)) in table.users().zip(&expected) {
            assert!(row.iter().eq(records.iter().map(|(&i, &v)| (i, v))));
        }
    }

    #[test]
    fn another_users_records_do_not_change_what_is_kept() {
        let records = [(0, 1, 1.0), (2, 0, 5.0), (0, 1, 3.0), (2, 1, 2.0)];
        let build = |skip: Option<u32>| {
            let mut b = InteractionsBuilder::new(2);
            b.ensure_users(3);
            for (u, i, v) in records {
                if Some(u) != skip {
                    b.push(u, i, v).unwrap();
                }
            }
            b.build().0
        };
        assert!(build(None).user(2) == build(Some(0)).user(2));
    }

    #[test]
    fn feature_vectors_follow_the_rules() {
        let mut b = InteractionsBuilder::new(1).with_feature_dim(2);
        assert!(b.set_features(0, &[1.0]).is_err() && b.set_features(0, &[1.0; 3]).is_err());
        b.set_features(2, &[9.0, 9.0]).unwrap();
        b.set_features(2, &[f32::NEG_INFINITY, f32::MAX]).unwrap();
        b.ensure_users(4);
        let (table, dropped) = b.build();
        let all: Vec<_> = table.users().map(|row| row.features().to_vec()).collect();
        assert_eq!(all, [[0.0; 2], [0.0; 2], [0.0, f32::MAX], [0.0; 2]]);
        assert_eq!(dropped, DroppedRecords::default());
    }

    #[test]
    fn rejects_items_outside_the_catalogue() {
        let error = InteractionsBuilder::new(2).push(0, 2, 1.0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "item index plus one has size 3; expected 2"
        );
    }

    #[test]
    fn a_user_with_only_unusable_records_still_has_a_row() {
        let mut b = InteractionsBuilder::new(1);
        b.push(4, 0, f32::NAN).unwrap();
        let (table, _) = b.build();
        assert_eq!((table.n_users(), table.n_records()), (1, 0));
    }

    #[test]
    fn one_person_more_is_one_row_more_whatever_the_number() {
        let build = |last: Option<u32>| {
            let mut b = InteractionsBuilder::new(3).with_feature_dim(1);
            for user in [5, 2, 9] {
                b.push(user, user % 3, 1.0).unwrap();
            }
            if let Some(user) = last {
                b.push(user, 1, 7.0).unwrap();
                b.set_features(user, &[8.0]).unwrap();
            }
            b.build().0
        };
        assert_eq!(build(None).n_users(), 3);
        for (user, row) in [(0, 0), (3, 1), (7, 2), (1_000_000, 3)] {
            let table = build(Some(user));
            assert_eq!(table.n_users(), 4);
            assert_eq!(table.user(row).values(), &[7.0]);
            assert_eq!(table.user(row).features(), &[8.0]);
        }
    }
}
