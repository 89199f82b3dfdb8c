use std::collections::BTreeMap;
use std::convert::Infallible;

use super::{
    Block, Chunk, Columns, ColumnsWriter, Interactions, MergedBlock, Records, Rows, Scratch, Spill,
    UserIds, UserNumbers,
};
use crate::{Result, ShapeError, parallel};

/// Counts of what the merge left out. Private: for internal reports only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DroppedRecords {
    /// Records whose value was NaN or infinite.
    pub not_finite: usize,
    /// Records replaced by a later record of the same user-item pair.
    pub repeated: usize,
}

/// Collects records and merges them into [`Interactions`].
///
/// The rules depend on one user's own records only, so no user's data can change what is kept of
/// another user's:
///
/// | record | rule |
/// |---|---|
/// | value NaN or infinite | left out, as if it had not been added |
/// | second record of a user-item pair | the last finite one is kept |
/// | any finite value, however large | kept; training clips it |
/// | a coordinate of a feature vector NaN or infinite | replaced by 0 |
/// | second feature vector of a user | the last one is kept |
/// | no feature vector of a user | the zero vector |
///
/// Without the merge, one user could add the same item twice and thereby double what the privacy
/// bound allows per item.
///
/// Each row is one user: every user number that occurs in a record, in a feature vector or in
/// [`ensure_users`](Self::ensure_users) gets a row, in increasing order of the numbers. Unused
/// numbers get none, so adding one person adds one row, whatever their number.
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
    /// The user of each vector in `features`.
    feature_users: Vec<u32>,
    features: Vec<f32>,
    /// Ids set by [`set_id`](Self::set_id), by user number.
    ids: BTreeMap<u32, u128>,
}

impl InteractionsBuilder {
    /// Creates an empty collection for a catalogue of `n_items`.
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

    /// Turns this into a builder for a table that may be larger than memory. With a `scratch`,
    /// records are written to disk as soon as there are more than it holds in memory, and so is the
    /// table; without one, both stay in memory.
    #[must_use]
    pub fn on_disk(self, scratch: impl Into<Option<Scratch>>) -> SpillingBuilder {
        SpillingBuilder {
            largest_item: None,
            spill: scratch.into().map(Spill::new),
            collected: self,
        }
    }

    /// Sets the length of the users' feature vectors, which is public. Vectors added before are
    /// discarded.
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
    /// [`ShapeError`] if the length differs from the one set by
    /// [`with_feature_dim`](Self::with_feature_dim), which is part of the table's public shape. No
    /// *value* is rejected.
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
        self.insert_features(user, features);
        Ok(())
    }

    /// Sets a vector whose length has been checked.
    pub(crate) fn insert_features(&mut self, user: u32, features: &[f32]) {
        let finite = |&x: &f32| if x.is_finite() { x } else { 0.0 };
        self.features.extend(features.iter().map(finite));
        self.feature_users.push(user);
        self.users.insert(user);
    }

    /// Adds one record. If the record is left out, its user still gets a row.
    ///
    /// # Errors
    /// [`ShapeError`] if `item` is not in the catalogue.
    pub fn push(&mut self, user: u32, item: u32, value: f32) -> Result<()> {
        check_item(item, self.n_items)?;
        self.insert(user, item, value);
        Ok(())
    }

    /// Adds a record of an item that is known to be in the catalogue.
    pub(crate) fn insert(&mut self, user: u32, item: u32, value: f32) {
        self.users.insert(user);
        if value.is_finite() {
            self.records.push(user, item, value);
        } else {
            self.not_finite += 1;
        }
    }

    /// Adds records of one user, with items that are known to be in the catalogue.
    fn insert_run(&mut self, user: u32, records: &[(u32, f32)]) {
        self.users.insert(user);
        for finite in records.split(|(_, value)| !value.is_finite()) {
            self.records.push_run(user, finite);
        }
        let is_finite = |(_, value): &&(u32, f32)| value.is_finite();
        self.not_finite += records.len() - records.iter().filter(is_finite).count();
    }

    /// Sets the id that identifies a user outside this table ([`Interactions::user_id`]), such as a
    /// hash of the id in the data; only the lower 127 bits are used. No two users may have the same
    /// id. A user without one is identified by their number, which cannot be confused with an id
    /// that was set.
    pub fn set_id(&mut self, user: u32, id: u128) {
        self.users.insert(user);
        self.ids.insert(user, id);
    }

    /// Adds rows for users `0..n_users`, so that users without records have one too.
    pub fn ensure_users(&mut self, n_users: usize) {
        self.users.insert_below(n_users);
    }

    /// Merges the records, on several threads. The cost is O(records + users) plus a sort within
    /// each user. A record takes 8 bytes before the merge and 8 after it, plus 4 before it for each
    /// run of records of the same user.
    #[must_use]
    pub fn build(self) -> (Interactions, DroppedRecords) {
        let n_given = self.records.len();
        let (mut items, mut values) = (Vec::with_capacity(n_given), Vec::with_capacity(n_given));
        let merged: Result<_, Infallible> = self.merge(
            None,
            parallel::n_threads(),
            |block| Ok(block.chunks),
            |of| {
                items.extend_from_slice(&of.items);
                values.extend_from_slice(&of.values);
                Ok(())
            },
        );
        let Ok((mut table, dropped)) = merged;
        table.records = Columns::Memory { items, values };
        (table, dropped)
    }

    /// Builds the table without its records, which are passed to `keep` in parts, with users in
    /// order. With `columns`, item `i` becomes item `columns[i]`. Also returns the counts of what was
    /// left out. `n_together` blocks of users are in memory at a time.
    fn merge<E>(
        mut self,
        columns: Option<&[u32]>,
        n_together: usize,
        mut chunks: impl FnMut(Block) -> Result<Vec<Chunk>, E>,
        mut keep: impl FnMut(&MergedBlock) -> Result<(), E>,
    ) -> Result<(Interactions, DroppedRecords), E> {
        let rows = std::mem::take(&mut self.users).into_rows();
        let n_given = self.records.len();
        let features = self.features_by_row(&rows);
        let ids = self.ids_by_row(&rows);
        let (mut offsets, mut n_kept) = (vec![0], 0);
        let mut blocks = std::mem::take(&mut self.records).blocks.into_iter();
        let numbers: Vec<usize> = (0..rows.n_blocks()).collect();
        for together in numbers.chunks(n_together) {
            let loaded = together.iter().map(|&block| {
                let chunks = chunks(blocks.next().unwrap_or_default())?;
                Ok((block, chunks))
            });
            let loaded: Vec<(usize, Vec<Chunk>)> = loaded.collect::<Result<_, E>>()?;
            let mut merged = Vec::new();
            merged.resize_with(loaded.len(), MergedBlock::default);
            let tasks = loaded.into_iter().zip(&mut merged);
            parallel::for_each(tasks, |((block, chunks), merged)| {
                *merged = MergedBlock::new(block, chunks, &rows, columns);
            });
            for merged in merged {
                keep(&merged)?;
                offsets.extend(merged.ends.iter().map(|end| n_kept + end));
                n_kept += merged.items.len();
            }
        }
        let dropped = DroppedRecords {
            not_finite: self.not_finite,
            repeated: n_given - n_kept,
        };
        let table = Interactions {
            n_items: self.n_items,
            offsets,
            records: Columns::empty(),
            feature_dim: self.feature_dim,
            features,
            by_item: std::sync::OnceLock::new(),
            origin: super::Origin::of_a_new_table(),
            keys: Interactions::new_keys(),
            ids,
        };
        Ok((table, dropped))
    }

    /// The user id of each row.
    fn ids_by_row(&self, rows: &Rows) -> UserIds {
        if self.ids.is_empty() && rows.are_consecutive() {
            return UserIds::From(rows.numbers().next().unwrap_or(0).into());
        }
        // ids that were set have the highest bit set and numbers do not, so neither can be taken
        // for the other
        let given = |&id: &u128| id | (1 << 127);
        let id = |number| self.ids.get(&number).map_or(number.into(), given);
        UserIds::Each(rows.numbers().map(id).collect())
    }

    /// The last feature vector of each row.
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

fn check_item(item: u32, n_items: usize) -> Result<(), ShapeError> {
    match (item as usize) < n_items {
        true => Ok(()),
        false => Err(ShapeError::new(
            "item index plus one",
            item as usize + 1,
            n_items,
        )),
    }
}

/// An [`InteractionsBuilder`] whose records and table may be written to disk: see
/// [`InteractionsBuilder::on_disk`].
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct SpillingBuilder {
    collected: InteractionsBuilder,
    /// The largest item among the records that were pushed.
    largest_item: Option<u32>,
    spill: Option<Spill>,
}

impl SpillingBuilder {
    /// Adds one record, like [`InteractionsBuilder::push`].
    ///
    /// # Errors
    /// [`ShapeError`] if `item` is not in the catalogue; [`ScratchError`](crate::ScratchError) if
    /// records cannot be written.
    pub fn push(&mut self, user: u32, item: u32, value: f32) -> Result<()> {
        self.collected.push(user, item, value)?;
        self.largest_item = self.largest_item.max(Some(item));
        if let Some(spill) = &mut self.spill {
            spill.count(&mut self.collected.records, 1)?;
        }
        Ok(())
    }

    /// Adds records of one user, in order, like [`push`](Self::push) for each. None is added if an
    /// item is not in the catalogue.
    ///
    /// # Errors
    /// The errors of [`push`](Self::push).
    pub fn push_run(&mut self, user: u32, records: &[(u32, f32)]) -> Result<()> {
        let Some(largest) = records.iter().map(|&(item, _)| item).max() else {
            return Ok(());
        };
        check_item(largest, self.collected.n_items)?;
        self.largest_item = self.largest_item.max(Some(largest));
        self.collected.insert_run(user, records);
        if let Some(spill) = &mut self.spill {
            spill.count(&mut self.collected.records, records.len())?;
        }
        Ok(())
    }

    /// Merges the records into the same table, with the records in the same order, as
    /// [`InteractionsBuilder::build`]. Records on disk are read and written once more.
    ///
    /// # Errors
    /// [`ScratchError`](crate::ScratchError) if records cannot be read or written.
    pub fn try_build(self) -> Result<(Interactions, DroppedRecords)> {
        self.build_with(None)
    }

    /// Like [`try_build`](Self::try_build), but renumbers the items into a catalogue of `n_items`:
    /// what was pushed as item `i` becomes item `columns[i]`. For readers that know the catalogue
    /// only after reading everything.
    ///
    /// # Errors
    /// [`ShapeError`] if a record has an item beyond `columns`, or a column is not in the
    /// catalogue.
    pub fn try_build_in_catalogue(
        mut self,
        n_items: usize,
        columns: &[u32],
    ) -> Result<(Interactions, DroppedRecords)> {
        if let Some(largest) = self.largest_item {
            check_item(largest, columns.len())?;
        }
        if let Some(largest) = columns.iter().max() {
            check_item(*largest, n_items)?;
        }
        self.collected.n_items = n_items;
        self.build_with(Some(columns))
    }

    fn build_with(self, columns: Option<&[u32]>) -> Result<(Interactions, DroppedRecords)> {
        let mut spill = self.spill;
        let scratch = spill.as_ref().map(|spill| &spill.scratch);
        let mut records = ColumnsWriter::new(scratch, self.collected.records.len())?;
        // where memory is limited, one block after another
        let n_together = spill.as_ref().map_or(parallel::n_threads(), |_| 1);
        let (mut table, dropped) = self.collected.merge(
            columns,
            n_together,
            |block| Ok(block.into_chunks(spill.as_mut())?),
            |of| -> Result<()> { Ok(records.extend(&of.items, &of.values)?) },
        )?;
        table.records = records.finish()?;
        Ok((table, dropped))
    }
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
        // users of several blocks, some of them empty, with a user's records far apart
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
    fn records_that_go_through_the_disk_give_the_same_table() {
        let push = |mut builder: SpillingBuilder| {
            for step in 0..200_000_u32 {
                let pair = step % 60_000; // the last value of a pair is kept
                let user = pair.wrapping_mul(7_919) % 9_001 * if pair % 5 == 0 { 9 } else { 1 };
                let value = if step % 97 == 0 {
                    f32::NAN
                } else {
                    step as f32
                };
                builder.push(user, pair % 50, value).unwrap();
            }
            let columns: Vec<u32> = (0..50).rev().collect();
            builder.try_build_in_catalogue(50, &columns).unwrap()
        };
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(dir.path(), Scratch::LEAST_MEMORY).unwrap();
        assert!(
            scratch.records_collected() < 50_000,
            "several times to disk"
        );
        let (expected, dropped) = push(InteractionsBuilder::new(50).on_disk(None));
        let (table, dropped_there) = push(InteractionsBuilder::new(50).on_disk(scratch));
        assert!(table == expected && table.scratch().is_some() && dropped == dropped_there);
        let blocks: Vec<_> = table.blocks().collect();
        assert!(blocks.len() > 2);
        let users = blocks.iter().flat_map(|block| block.users());
        assert!(users.eq(expected.users()));
        let parts = [&table, &expected].map(|of| of.partition(2, by_parity).unwrap());
        assert!(parts[0] == parts[1] && parts[0][1].scratch().is_some());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// Bytes of a folder's files that are mapped into this process's memory.
    #[cfg(target_os = "linux")]
    fn resident(folder: &std::path::Path) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (mut is_ours, mut kilobytes) = (false, 0);
        for line in maps.lines() {
            if line.contains('/') {
                is_ours = line.contains(folder.to_str().unwrap());
            } else if let (true, Some(of)) = (is_ours, line.strip_prefix("Rss:")) {
                kilobytes += of.trim_end_matches("kB").trim().parse::<usize>().unwrap();
            }
        }
        1024 * kilobytes
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pass_over_the_users_holds_a_part_of_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(dir.path(), Scratch::LEAST_MEMORY).unwrap();
        let mut builder = InteractionsBuilder::new(1_000).on_disk(scratch);
        for record in 0..12_000_000_u32 {
            builder.push(record / 100, record % 100, 1.0).unwrap();
        }
        let table = builder.try_build().unwrap().0;
        let mut most = 0;
        for (user, row) in table.users().enumerate() {
            assert_eq!(
                row.values().iter().sum::<f32>().to_bits(),
                100_f32.to_bits()
            );
            if user % 2_000 == 0 {
                most = most.max(resident(dir.path()));
            }
        }
        // only the values are read; the system maps up to 2 MB at once, at each end of three
        // stretches
        let all = 4 * table.n_records();
        assert!(most > 0 && most < all / 2, "{most} of {all} bytes");
    }

    fn by_parity(_: usize, item: u32, _: f32) -> usize {
        item as usize % 2
    }

    #[test]
    fn a_folder_that_takes_no_files_and_a_catalogue_that_lacks_items_are_errors() {
        let missing = Scratch::new("/nowhere/at/all", Scratch::LEAST_MEMORY);
        assert!(matches!(missing, Err(crate::Error::Scratch(_))));
        assert!(Scratch::new(std::env::temp_dir(), 1000).is_err());
        let refused = |n_items: usize, columns: &[u32]| {
            let mut builder = InteractionsBuilder::new(9).on_disk(None);
            builder.push(0, 1, 1.0).unwrap();
            builder.push(0, 2, 1.0).unwrap();
            builder.push(0, 0, 1.0).unwrap();
            builder.try_build_in_catalogue(n_items, columns).is_err()
        };
        assert!(refused(9, &[1, 0]) && refused(2, &[1, 0, 2]));
        assert!(!refused(3, &[1, 0, 2]));
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
