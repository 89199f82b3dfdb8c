//! What counts as one unit: a user with everything, or a single record.

use dp_core::{Adjacency, Interactions, InteractionsBuilder, Private};
use sha2::{Digest, Sha256};

use crate::{Error, Result};

/// The protected unit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProtectedUnit {
    /// A user with all examples and the user's vector: Theorem 2 of Krichene et al. 2024. Adjacency
    /// [`Adjacency::AddRemoveUser`] or [`Adjacency::ReplaceUser`]. A vector that is given must be made from its user's own data and from public or released values
    /// only: one that was learned from everybody's data changes with others too. The certificate lists this as an assumption.
    #[default]
    User,
    /// The record of one pair of user and item: Theorem 1. Every record becomes a row of its own, with its user's vector, so that the kernel bounds each by
    /// itself. Adjacency [`Adjacency::ReplaceRecord`].
    ///
    /// # Neighbours
    /// Two tables with each pair of user and item at most once, with the same vectors of users, and with the same records but for one:
    ///
    /// ```text
    /// replaced:          T' = T - {(k, j, y)} + {(k, j, y')}      the same pair with another label, or
    ///                    T' = T - {(k, j, y)} + {(k', j', y')}    a pair (k', j') that T does not have
    /// added or removed:  T' = T + {(k', j', y')}                  a pair (k', j') that T does not have
    /// ```
    ///
    /// So one row changes, and the release moves by `D` when a record is added or removed, by at most `2 D` (right-hand sides, gradients) or `sqrt(2) D` (matrices)
    /// when it is replaced. The kernel, which bounds rows, takes payments for replacement only; the certificate prints epsilon under both.
    ///
    /// # Not covered
    /// Raw lists of records that are merged with the last one winning. If `(k, j, y)` is exchanged for a record of a pair that is there already, the pair's label is
    /// overwritten too, and if the old record had covered an earlier one of its pair, that one comes back: two rows move, right-hand sides by up to
    /// `2 sqrt(2) D` and gradients by up to `4 D`. Repeats have to be merged before neighbours are thought of; the certificate lists this as an assumption.
    ///
    /// Protects single records only, and not vectors of users: they are no part of the unit, and must not be made from the records, else one
    /// record changes all rows of its user.
    Example,
}

impl ProtectedUnit {
    /// Refuses neighbours that are not of this unit.
    pub(crate) fn check(self, adjacency: Adjacency) -> Result<()> {
        match (self, adjacency) {
            (Self::User, Adjacency::AddRemoveUser | Adjacency::ReplaceUser)
            | (Self::Example, Adjacency::ReplaceRecord) => Ok(()),
            (Self::User, _) => Err(Error::Unsupported {
                what: "neighbours that differ in a record, for a run that bounds users",
            }),
            (Self::Example, _) => Err(Error::Unsupported {
                what: "neighbours other than replace-record, for a run that bounds single examples",
            }),
        }
    }

    /// Runs `work` on the table whose rows are the units.
    pub(crate) fn with_rows<T>(
        self,
        data: &Private<Interactions>,
        work: impl FnOnce(&Private<Interactions>) -> Result<T>,
    ) -> Result<T> {
        let unit = self;
        #[cfg(privacy_mutants)]
        let unit = crate::mutants::unit(unit);
        match unit {
            Self::User => work(data),
            Self::Example => work(&one_row_per_record(data)?),
        }
    }
}

/// Every record as a row of its own, with the vector of its user. Its id follows from the user's id and the item, so that the coins of a sample
/// are the record's, wherever it is.
fn one_row_per_record(data: &Private<Interactions>) -> Result<Private<Interactions>> {
    let data = data.expose();
    let mut builder = InteractionsBuilder::new(data.n_items()).with_feature_dim(data.feature_dim());
    let mut number = 0_u32;
    for (user, row) in data.users().enumerate() {
        let user_id = data.user_id(user);
        for (item, value) in row.iter() {
            builder.push(number, item, value)?;
            builder.set_features(number, row.features())?;
            builder.set_id(number, record_id(user_id, item));
            number = number.saturating_add(1); // tables hold fewer than 2^32 records
        }
    }
    Ok(Private::new(builder.build().0))
}

/// `SHA-256(user id, item)` cut to 128 bits.
fn record_id(user_id: u128, item: u32) -> u128 {
    let hash = Sha256::new_with_prefix(user_id.to_le_bytes())
        .chain_update(item.to_le_bytes())
        .finalize();
    let (first, _) = hash.split_at(size_of::<u128>());
    first.iter().fold(0, |id, byte| id << 8 | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_rows_with_their_user_s_vector() {
        let mut builder = InteractionsBuilder::new(3).with_feature_dim(1);
        for (user, item, y) in [(0, 2, 1.0), (0, 0, 2.0), (5, 2, 3.0)] {
            builder.push(user, item, y).unwrap();
            builder.set_features(user, &[user as f32]).unwrap();
        }
        let rows = one_row_per_record(&Private::new(builder.build().0)).unwrap();
        let rows: Vec<_> = rows
            .expose()
            .users()
            .map(|r| (r.items().to_vec(), r.values().to_vec(), r.features()[0]))
            .collect();
        assert_eq!(
            rows,
            [
                (vec![0], vec![2.0], 0.0),
                (vec![2], vec![1.0], 0.0),
                (vec![2], vec![3.0], 5.0)
            ]
        );
    }

    #[test]
    fn a_record_has_the_same_id_in_whichever_table_its_user_is() {
        let mut builder = InteractionsBuilder::new(3);
        for (user, item) in [(0, 2), (0, 0), (1, 2), (2, 1)] {
            builder.push(user, item, 1.0).unwrap();
        }
        let whole = builder.build().0;
        let ids = |data: &Interactions| {
            let rows = one_row_per_record(&Private::new(data.clone())).unwrap();
            let rows = rows.expose();
            (0..rows.n_users())
                .map(|row| rows.user_id(row))
                .collect::<Vec<_>>()
        };
        let all = ids(&whole);
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 4);
        let parts = whole.deal(2, |id| usize::from(id == 1));
        assert_eq!(ids(&parts[1]), [all[2]]);
        assert_eq!(ids(&parts[0]), [all[0], all[1], all[3]]);
    }

    #[test]
    fn units_take_their_own_neighbours_only() {
        use Adjacency::*;
        for (adjacency, user, example) in [
            (AddRemoveUser, true, false),
            (ReplaceUser, true, false),
            (AddRemoveRecord, false, false),
            (ReplaceRecord, false, true),
        ] {
            assert_eq!(ProtectedUnit::User.check(adjacency).is_ok(), user);
            assert_eq!(ProtectedUnit::Example.check(adjacency).is_ok(), example);
        }
    }
}
