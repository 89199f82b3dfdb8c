//! Records of users and items, stored user by user.

mod builder;
mod columns;

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub use builder::{DroppedRecords, InteractionsBuilder, SpillingBuilder};
pub use columns::Scratch;
use columns::{Columns, ColumnsWriter, SpillFile};

use crate::{Result, ScratchError, parallel};

/// One user's records: the data that a per-user contribution may use.
///
/// Two rows are equal if their records and features are equal, whichever users they belong to.
#[derive(Clone, Copy)]
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct UserRow<'a> {
    items: &'a [u32],
    values: &'a [f32],
    features: &'a [f32],
    key: UserKey,
}

impl PartialEq for UserRow<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.items, self.values, self.features) == (other.items, other.values, other.features)
    }
}

impl<'a> UserRow<'a> {
    /// Item indices, strictly increasing.
    #[must_use]
    pub const fn items(self) -> &'a [u32] {
        self.items
    }

    /// Values, one per item, all finite.
    #[must_use]
    pub const fn values(self) -> &'a [f32] {
        self.values
    }

    /// The user's own feature vector, all finite; empty in a table without features.
    #[must_use]
    pub const fn features(self) -> &'a [f32] {
        self.features
    }

    /// The key with which a [`PerUser`] finds this user's value.
    #[must_use]
    pub const fn key(self) -> UserKey {
        self.key
    }

    /// Number of records of the user.
    #[must_use]
    pub const fn len(self) -> usize {
        self.items.len()
    }

    /// Whether the user has no record.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.items.is_empty()
    }

    /// The records as pairs of item and value.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (u32, f32)> + 'a {
        self.items.iter().copied().zip(self.values.iter().copied())
    }
}

/// A sparse user-by-item table in compressed rows, with at most one value per user-item pair.
///
/// Build one with [`InteractionsBuilder`], which defines how repeated pairs and values that are not
/// finite are treated. `n_items` (the size of the catalogue) is public, and so is the length of the
/// users' feature vectors, 0 for a table without any. Everything else here, including the number of
/// users, is private under add/remove adjacency.
///
/// Records are in memory, or on disk if the builder was given a [`Scratch`]. Readers see no
/// difference, except that [`item_major`](Self::item_major) takes as much memory as the records.
///
/// # Examples
/// ```
/// use dp_core::InteractionsBuilder;
/// let mut builder = InteractionsBuilder::new(3);
/// builder.push(0, 2, 4.0)?;
/// builder.push(1, 0, 1.0)?;
/// builder.push(0, 2, 5.0)?; // the later record of a pair replaces the earlier one
/// let (table, _) = builder.build();
/// assert_eq!(table.n_users(), 2);
/// assert_eq!(table.user(0).values(), &[5.0]);
/// # Ok::<(), dp_core::Error>(())
/// ```
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
#[derive(Clone)]
pub struct Interactions {
    n_items: usize,
    offsets: Vec<usize>,
    records: Columns,
    feature_dim: usize,
    /// Shape `(n_users, feature_dim)`, row-major.
    features: Vec<f32>,
    /// Created on first use; always the listing of this table.
    by_item: OnceLock<ItemMajor>,
    /// Not compared by `==`.
    origin: Origin,
    /// The key of the first user; those of the others follow consecutively.
    keys: UserKey,
    /// Not compared by `==`.
    ids: UserIds,
}

/// The ids that identify the users outside this table.
#[derive(Clone)]
enum UserIds {
    /// Consecutive numbers starting with this one.
    From(u64),
    /// One per user, in order.
    Each(Vec<u128>),
}

impl PartialEq for Interactions {
    fn eq(&self, other: &Self) -> bool {
        self.n_items == other.n_items
            && self.offsets == other.offsets
            && self.feature_dim == other.feature_dim
            && self.users().eq(other.users())
    }
}

impl Interactions {
    /// Number of users, including those without records.
    #[must_use]
    pub fn n_users(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of items in the public catalogue.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        self.n_items
    }

    /// Number of records.
    #[must_use]
    pub fn n_records(&self) -> usize {
        self.records.len()
    }

    /// The scratch folder of records on disk; `None` if they are in memory.
    #[must_use]
    pub fn scratch(&self) -> Option<&Scratch> {
        self.records.scratch()
    }

    /// The records of one user.
    ///
    /// # Panics
    /// If `user` is not below [`n_users`](Self::n_users).
    #[must_use]
    pub fn user(&self, user: usize) -> UserRow<'_> {
        let (items, values) = self.records.get(self.user_range(user));
        UserRow {
            items,
            values,
            features: &self.features[self.feature_range(user, user + 1)],
            key: UserKey {
                table: self.keys.table,
                row: self.keys.row + user,
            },
        }
    }

    /// The id that identifies a user in every table of the same data set, in any process: the one
    /// set with [`InteractionsBuilder::set_id`], otherwise the number under which the user was
    /// added. It is meant for secret coins and for assigning users to shards; contributions do not
    /// see it.
    ///
    /// # Panics
    /// If `user` is not below [`n_users`](Self::n_users).
    #[must_use]
    pub fn user_id(&self, user: usize) -> u128 {
        assert!(user < self.n_users());
        match &self.ids {
            UserIds::From(first) => u128::from(*first) + user as u128,
            UserIds::Each(ids) => ids[user],
        }
    }

    /// Length of every user's feature vector; 0 if there are none. Public.
    #[must_use]
    pub const fn feature_dim(&self) -> usize {
        self.feature_dim
    }

    const fn feature_range(&self, first: usize, last: usize) -> std::ops::Range<usize> {
        first * self.feature_dim..last * self.feature_dim
    }

    /// The position range of the records of `user` among all records in user order.
    ///
    /// # Panics
    /// If `user` is not below [`n_users`](Self::n_users).
    #[must_use]
    pub fn user_range(&self, user: usize) -> std::ops::Range<usize> {
        self.offsets[user]..self.offsets[user + 1]
    }

    /// All users in order.
    pub fn users(&self) -> impl ExactSizeIterator<Item = UserRow<'_>> {
        (0..self.n_users()).map(|user| self.user(user))
    }

    /// Which users these are, as far as this process can tell from how its tables were created.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The same records listed item by item; computed once and cached.
    #[must_use]
    pub fn item_major(&self) -> &ItemMajor {
        self.by_item.get_or_init(|| ItemMajor::new(self))
    }

    /// The users in order, split into tables that can each be listed [item by
    /// item](Self::item_major) within the memory of the
    /// [`Scratch`]: each has about as many records as fit, or a single user with more. A table in memory is one block, unchanged.
    pub fn blocks(&self) -> impl Iterator<Item = Cow<'_, Self>> {
        let most = self.scratch().map(Scratch::records_of_block);
        let mut next = Some(0);
        std::iter::from_fn(move || {
            let first = next?;
            let Some(most) = most else {
                next = None;
                return Some(Cow::Borrowed(self));
            };
            let end = self.offsets[first].saturating_add(most);
            let within = self.offsets[first + 1..].partition_point(|&at| at <= end);
            let last = (first + within.max(1)).min(self.n_users());
            next = (last < self.n_users()).then_some(last);
            // everything up to the last user, also for a table without users
            let block = self.user_block(first, last, self.origin.clone());
            Some(Cow::Owned(block))
        })
    }

    /// Copies the users into `n_shards` tables of consecutive users and similar size. Every user is
    /// in exactly one, so sums over the shards add up to the sum over the whole table.
    #[must_use]
    pub fn shards(&self, n_shards: usize) -> Vec<Self> {
        let n_shards = n_shards.max(1);
        let mut shards = Vec::with_capacity(n_shards);
        let mut first = 0;
        for shard in 1..=n_shards {
            let goal = self.n_records() / n_shards * shard;
            let last = if shard == n_shards {
                self.n_users()
            } else {
                self.offsets[..=self.n_users()]
                    .partition_point(|&end| end < goal)
                    .clamp(first, self.n_users())
            };
            let origin = self.origin.shard(shard - 1, n_shards);
            shards.push(self.user_block(first, last, origin));
            first = last;
        }
        shards
    }

    /// Assigns each user, with all their data, to table `part(id)` of `n_parts` tables, where `id`
    /// is the user's [id](Self::user_id). A user whose part is `n_parts` or above is left out.
    /// Every user is in at most one table, so sums over the parts add up to the sum over all users
    /// in them.
    pub fn deal(&self, n_parts: usize, part: impl Fn(u128) -> usize) -> Vec<Self> {
        self.dealt(n_parts, |user| self.user_id(user), part)
    }

    /// Like [`deal`](Self::deal), but with ids from elsewhere, one per user in order. The users of
    /// the resulting tables have these ids.
    ///
    /// # Errors
    /// [`ShapeError`](crate::ShapeError) unless there is an id for each user.
    pub fn deal_by(
        &self,
        ids: &[u128],
        n_parts: usize,
        part: impl Fn(u128) -> usize,
    ) -> Result<Vec<Self>, crate::ShapeError> {
        crate::params::same_size("ids of users", ids.len(), self.n_users())?;
        Ok(self.dealt(n_parts, |user| ids[user], part))
    }

    fn dealt(
        &self,
        n_parts: usize,
        id: impl Fn(usize) -> u128,
        part: impl Fn(u128) -> usize,
    ) -> Vec<Self> {
        let cut = Origin::new_cut();
        let mut parts: Vec<_> = (0..n_parts)
            .map(|at| {
                let origin = self.origin.dealt(at, n_parts, cut);
                (self.of_nobody(origin), (Vec::new(), Vec::new()), Vec::new())
            })
            .collect();
        for (user, row) in self.users().enumerate() {
            let id = id(user);
            let Some((table, (items, values), ids)) = parts.get_mut(part(id)) else {
                continue;
            };
            items.extend_from_slice(row.items);
            values.extend_from_slice(row.values);
            table.features.extend_from_slice(row.features);
            table.offsets.push(items.len());
            ids.push(id);
        }
        let tables = parts.into_iter();
        let tables = tables.map(|(table, (items, values), ids)| Self {
            records: Columns::Memory { items, values },
            ids: UserIds::Each(ids),
            ..table
        });
        tables.collect()
    }

    /// A table of the same public shape without users: for a coordinator, which holds no users, and
    /// for rebuilding a model from released values.
    #[must_use]
    pub fn without_users(&self) -> Self {
        self.of_nobody(Origin::of_a_new_table())
    }

    fn of_nobody(&self, origin: Origin) -> Self {
        Self {
            offsets: vec![0],
            records: Columns::empty(),
            features: Vec::new(),
            by_item: OnceLock::new(),
            origin,
            keys: Self::new_keys(),
            ids: UserIds::Each(Vec::new()),
            ..*self
        }
    }

    /// The same users without records.
    #[must_use]
    pub fn without_records(&self) -> Self {
        self.with_records(Columns::empty(), vec![0; self.offsets.len()])
    }

    /// The same users with other records.
    fn with_records(&self, records: Columns, offsets: Vec<usize>) -> Self {
        Self {
            n_items: self.n_items,
            offsets,
            records,
            feature_dim: self.feature_dim,
            features: self.features.clone(),
            by_item: OnceLock::new(),
            origin: self.origin.clone(),
            keys: self.keys,
            ids: self.ids.clone(),
        }
    }

    /// Keys for a new table, shared with no other table of this process.
    fn new_keys() -> UserKey {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        UserKey {
            table: NEXT.fetch_add(1, Ordering::Relaxed),
            row: 0,
        }
    }

    /// Assigns each record to one of `n_parts` tables over the same users and items, by `part(user,
    /// item, value)`. A record whose part is `n_parts` or above is left out.
    ///
    /// A user can be in several parts, with the same features. Use the parts for training on one
    /// and testing on another, never for sums that are added up, because each part would bound the
    /// user separately. Use [`shards`](Self::shards) for that.
    ///
    /// # Errors
    /// [`ScratchError`] if the table is on disk and its parts cannot be written; never for a table
    /// in memory.
    pub fn partition(
        &self,
        n_parts: usize,
        part: impl Fn(usize, u32, f32) -> usize + Sync,
    ) -> Result<Vec<Self>> {
        let part = &part;
        self.partition_users(n_parts, |user| move |item, value| part(user, item, value))
    }

    /// Like [`partition`](Self::partition), where `part_of(user)` returns the function of item and
    /// value for one user, so that it can prepare what all records of the user share. Users are
    /// distributed over threads.
    ///
    /// # Errors
    /// The errors of [`partition`](Self::partition).
    pub fn partition_users<F: FnMut(u32, f32) -> usize>(
        &self,
        n_parts: usize,
        part_of: impl Fn(usize) -> F + Sync,
    ) -> Result<Vec<Self>> {
        let empty = || -> Result<_> {
            let mut offsets = Vec::with_capacity(self.offsets.len());
            offsets.push(0);
            Ok((ColumnsWriter::new(self.scratch(), 0)?, offsets))
        };
        let mut parts = (0..n_parts).map(|_| empty()).collect::<Result<Vec<_>>>()?;
        let stretches = self.stretches();
        for together in stretches.chunks(parallel::n_threads()) {
            let dealt = parallel::map(together.len(), |at| {
                let mut own: Vec<_> = (0..n_parts).map(|_| MergedBlock::default()).collect();
                for user in together[at].clone() {
                    let mut part = part_of(user);
                    for (item, value) in self.user(user).iter() {
                        if let Some(of) = own.get_mut(part(item, value)) {
                            of.items.push(item);
                            of.values.push(value);
                        }
                    }
                    own.iter_mut().for_each(|of| of.ends.push(of.items.len()));
                }
                own
            });
            for own in dealt {
                for (of, (records, offsets)) in own.iter().zip(&mut parts) {
                    let before = records.len();
                    records.extend(&of.items, &of.values)?;
                    offsets.extend(of.ends.iter().map(|end| before + end));
                }
            }
        }
        let parts = parts.into_iter();
        parts
            .map(|(records, offsets)| Ok(self.with_records(records.finish()?, offsets)))
            .collect()
    }

    /// All users in order, in stretches with about as many records each.
    fn stretches(&self) -> Vec<std::ops::Range<usize>> {
        const RECORDS: usize = 1 << 16;
        let mut stretches = Vec::new();
        let mut first = 0;
        while first < self.n_users() {
            let end = self.offsets[first] + RECORDS;
            let within = self.offsets[first + 1..].partition_point(|&at| at <= end);
            // users without records take memory too
            let last = first + within.clamp(1, RECORDS);
            stretches.push(first..last);
            first = last;
        }
        stretches
    }

    fn user_block(&self, first: usize, last: usize, origin: Origin) -> Self {
        let (low, high) = (self.offsets[first], self.offsets[last]);
        Self {
            n_items: self.n_items,
            offsets: self.offsets[first..=last]
                .iter()
                .map(|&end| end - low)
                .collect(),
            records: self.records.part(low..high),
            feature_dim: self.feature_dim,
            features: self.features[self.feature_range(first, last)].to_vec(),
            by_item: OnceLock::new(),
            origin,
            keys: UserKey {
                row: self.keys.row + first,
                ..self.keys
            },
            ids: match &self.ids {
                UserIds::From(number) => UserIds::From(number + first as u64),
                UserIds::Each(ids) => UserIds::Each(ids[first..last].to_vec()),
            },
        }
    }
}

/// One record as seen from its item.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(
    missing_debug_implementations,
    reason = "says who holds what; printing it is never wanted"
)]
pub struct ItemEntry {
    /// The user who has the record.
    pub user: u32,
    /// The position of the record among all records in user order.
    pub position: u32,
}

/// The records of a table listed item by item, with users increasing within each item.
///
/// A sum over the users of each item reads this list and gathers per-user data, which is much
/// cheaper than iterating over the users and scattering into per-item sums.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "says who holds what; printing it is never wanted"
)]
pub struct ItemMajor {
    offsets: Vec<usize>,
    entries: Vec<ItemEntry>,
}

impl ItemMajor {
    /// Counting sort of the table's records by item.
    ///
    /// # Panics
    /// If the table has 2^32 users or records or more; split it into shards first.
    fn new(table: &Interactions) -> Self {
        assert!(
            u32::try_from(table.n_records().max(table.n_users())).is_ok(),
            "a shard holds fewer than 2^32 users and records"
        );
        let mut offsets = vec![0; table.n_items() + 1];
        for row in table.users() {
            for &item in row.items() {
                offsets[item as usize + 1] += 1;
            }
        }
        for item in 0..table.n_items() {
            offsets[item + 1] += offsets[item];
        }
        let mut next = offsets.clone();
        let mut entries = vec![
            ItemEntry {
                user: 0,
                position: 0
            };
            table.n_records()
        ];
        let mut position = 0;
        for (user, row) in (0_u32..).zip(table.users()) {
            for &item in row.items() {
                let slot = &mut next[item as usize];
                entries[*slot] = ItemEntry { user, position };
                *slot += 1;
                position += 1;
            }
        }
        Self { offsets, entries }
    }

    /// Number of items.
    #[must_use]
    pub fn n_items(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The records of one item.
    ///
    /// # Panics
    /// If `item` is not below [`n_items`](Self::n_items).
    #[must_use]
    pub fn item(&self, item: usize) -> &[ItemEntry] {
        &self.entries[self.offsets[item]..self.offsets[item + 1]]
    }
}

/// Where the users of a table come from: a unique number for every table that is built, together
/// with the splits that led from it to this table.
///
/// Sums over two tables may be added only if no user is in both, because each sum bounds its users
/// separately. [`overlaps`](Self::overlaps) reports when two tables of the same process may share
/// users. It depends on how the tables were created and never on records or numbers of users, so an
/// error based on it reveals nothing private. Two tables that were *built* separately count as
/// tables of different users, whatever data they were given.
///
/// # Examples
/// ```
/// use dp_core::InteractionsBuilder;
/// let table = InteractionsBuilder::new(3).build().0;
/// let [a, b] = &table.shards(2)[..] else { unreachable!() };
/// assert!(!a.origin().overlaps(b.origin()));
/// assert!(a.origin().overlaps(table.origin()) && a.origin().overlaps(a.clone().origin()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    table: u64,
    /// The part index and the kind of each split, outermost first.
    cuts: Vec<(usize, Cut)>,
}

/// How a table was split. Different parts of the same split are disjoint; parts of different splits
/// may share users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    n_parts: usize,
    /// 0 for consecutive users; otherwise a number that identifies the call of `deal` within this
    /// process.
    dealing: u64,
}

impl Origin {
    /// The origin of a new table, different from all others in this process.
    fn of_a_new_table() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            table: NEXT.fetch_add(1, Ordering::Relaxed),
            cuts: Vec::new(),
        }
    }

    /// Shard `index` of `n_shards` of a table with this origin.
    fn shard(&self, index: usize, n_shards: usize) -> Self {
        let mut shard = self.clone();
        let cut = Cut {
            n_parts: n_shards,
            dealing: 0,
        };
        shard.cuts.push((index, cut));
        shard
    }

    /// A unique number for one assignment of users to tables.
    fn new_cut() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// Part `index` of `n_parts` of an assignment of users to tables.
    fn dealt(&self, index: usize, n_parts: usize, dealing: u64) -> Self {
        let mut part = self.clone();
        part.cuts.push((index, Cut { n_parts, dealing }));
        part
    }

    /// Whether a user may be in tables of both origins, as far as is known. This is always true for
    /// a table and its own copies, parts and shards, and for shards of one table split into
    /// different numbers.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.table != other.table {
            return false;
        }
        let mut pairs = self.cuts.iter().zip(&other.cuts);
        match pairs.find(|(a, b)| a != b) {
            Some(((_, n), (_, m))) => n != m, // two different shards of one split are disjoint
            None => true,
        }
    }
}

/// Identifies the user that a row belongs to without revealing anything about the user.
///
/// Every row carries its key ([`UserRow::key`]). Copies, shards and parts of a table
/// ([`Interactions::shards`], [`Interactions::partition`]) give a user the same key; tables that
/// were built separately never share one. A key can only be compared and used to look up a value in
/// a [`PerUser`], so a contribution cannot depend on a user's number or position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UserKey {
    table: u64,
    row: usize,
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
    /// Computes each user's value from the user's own row.
    pub fn of(table: &Interactions, make: impl FnMut(UserRow<'_>) -> T) -> Self {
        Self::from_values(table, table.users().map(make).collect())
    }

    /// Wraps values computed elsewhere, in the order of the users of `table`. Values after the last
    /// user belong to nobody.
    #[must_use]
    pub const fn from_values(table: &Interactions, values: Vec<T>) -> Self {
        Self {
            table: table.keys.table,
            first: table.keys.row,
            values,
        }
    }

    /// The value of a user, or `None` for a row of another table.
    #[must_use]
    pub fn get(&self, key: UserKey) -> Option<&T> {
        self.values.get(self.place(key)?)
    }

    /// The index of a user's value in [`values`](Self::values), or `None` for a row of another
    /// table.
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

    /// All values, mutable.
    #[must_use]
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

/// Records in the order they were added, grouped in blocks of user numbers: 8 bytes each, and 4 for
/// every run of records of the same user. Each block is sorted separately and freed before the
/// next, so there is never a sorted copy of everything at once. With a [`Spill`], all blocks are
/// written to disk whenever there are as many records as memory may hold.
#[derive(Default)]
struct Records {
    blocks: Vec<Block>,
    len: usize,
}

/// The records of a range of user numbers in the order they were added: first what was written to
/// disk, then the chunks.
#[derive(Default)]
struct Block {
    aside: Vec<Aside>,
    chunks: Vec<Chunk>,
}

/// The position of a chunk that was written to disk.
struct Aside {
    start: u64,
    n_records: usize,
    n_runs: usize,
}

/// The file with the records on disk, and the number of records that are still in memory.
struct Spill {
    scratch: Scratch,
    /// Created when first needed.
    file: Option<SpillFile>,
    n_held: usize,
}

/// At most [`LARGEST_CHUNK`] records while in memory; a full chunk is never moved or reallocated. A
/// chunk that was written to disk has as many as there were.
#[derive(Default)]
struct Chunk {
    /// Item and value.
    records: Vec<(u32, f32)>,
    /// Number within the block and how many records of that user follow.
    runs: Vec<(u16, u16)>,
}

const SMALLEST_CHUNK: usize = 16;
const LARGEST_CHUNK: usize = 1 << 12;

impl Chunk {
    fn push(&mut self, number: u16, records: &[(u32, f32)]) {
        #[allow(clippy::cast_possible_truncation, reason = "a chunk has 2^12 records")]
        let n_more = records.len() as u16;
        match self.runs.last_mut() {
            Some((last, n)) if *last == number => *n += n_more,
            _ => self.runs.push((number, n_more)),
        }
        self.records.extend_from_slice(records);
    }

    /// The user number within the block and the records of each run.
    fn runs(&self) -> impl Iterator<Item = (usize, &[(u32, f32)])> {
        let mut start = 0;
        self.runs.iter().map(move |&(number, n)| {
            let own = start..start + usize::from(n);
            start = own.end;
            (usize::from(number), &self.records[own])
        })
    }
}

impl Block {
    fn push(&mut self, number: u16, item: u32, value: f32) {
        self.push_run(number, &[(item, value)]);
    }

    fn push_run(&mut self, number: u16, mut records: &[(u32, f32)]) {
        while !records.is_empty() {
            let chunk = self.chunk_with_room();
            let room = chunk.records.capacity().min(LARGEST_CHUNK) - chunk.records.len();
            let (now, later) = records.split_at(room.min(records.len()));
            chunk.push(number, now);
            records = later;
        }
    }

    /// The last chunk, or a new one if that is full.
    fn chunk_with_room(&mut self) -> &mut Chunk {
        let before = self.chunks.last().map_or(0, |chunk| chunk.records.len());
        let has_room =
            |chunk: &Chunk| chunk.records.len() < chunk.records.capacity().min(LARGEST_CHUNK);
        if !self.chunks.last().is_some_and(has_room) {
            let capacity = (2 * before).clamp(SMALLEST_CHUNK, LARGEST_CHUNK);
            let mut chunk = Chunk::default();
            chunk.records.reserve_exact(capacity);
            self.chunks.push(chunk);
        }
        let last = self.chunks.len() - 1;
        &mut self.chunks[last]
    }

    /// Writes the chunks to disk as a single one.
    fn set_aside(&mut self, file: &mut SpillFile) -> Result<(), ScratchError> {
        let chunks = std::mem::take(&mut self.chunks);
        if chunks.is_empty() {
            return Ok(());
        }
        let mut aside = Aside {
            start: file.end(),
            n_records: 0,
            n_runs: 0,
        };
        let mut bytes = Vec::new();
        for &(item, value) in chunks.iter().flat_map(|chunk| &chunk.records) {
            bytes.extend_from_slice(&item.to_ne_bytes());
            bytes.extend_from_slice(&value.to_ne_bytes());
            aside.n_records += 1;
        }
        for &(number, n) in chunks.iter().flat_map(|chunk| &chunk.runs) {
            bytes.extend_from_slice(&number.to_ne_bytes());
            bytes.extend_from_slice(&n.to_ne_bytes());
            aside.n_runs += 1;
        }
        file.write(&bytes)?;
        self.aside.push(aside);
        Ok(())
    }

    /// All chunks, those on disk first.
    fn into_chunks(self, spill: Option<&mut Spill>) -> Result<Vec<Chunk>, ScratchError> {
        let mut chunks = Vec::with_capacity(self.aside.len() + self.chunks.len());
        if let Some(file) = spill.and_then(|spill| spill.file.as_mut()) {
            for aside in &self.aside {
                chunks.push(aside.read(file)?);
            }
        }
        chunks.extend(self.chunks);
        Ok(chunks)
    }
}

impl Aside {
    fn read(&self, file: &mut SpillFile) -> Result<Chunk, ScratchError> {
        let mut bytes = vec![0; 8 * self.n_records + 4 * self.n_runs];
        file.read(self.start, &mut bytes)?;
        let (records, runs) = bytes.split_at(8 * self.n_records);
        let record = |of: &[u8; 8]| {
            let [a, b, c, d, e, f, g, h] = *of;
            (
                u32::from_ne_bytes([a, b, c, d]),
                f32::from_ne_bytes([e, f, g, h]),
            )
        };
        let run = |of: &[u8; 4]| {
            let [a, b, c, d] = *of;
            (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]))
        };
        Ok(Chunk {
            records: records.as_chunks().0.iter().map(record).collect(),
            runs: runs.as_chunks().0.iter().map(run).collect(),
        })
    }
}

impl Records {
    const fn len(&self) -> usize {
        self.len
    }

    fn push(&mut self, user: u32, item: u32, value: f32) {
        let (block, number) = self.place(user);
        self.blocks[block].push(number, item, value);
        self.len += 1;
    }

    /// The same as [`push`](Self::push) for each record of a run.
    fn push_run(&mut self, user: u32, records: &[(u32, f32)]) {
        let (block, number) = self.place(user);
        self.blocks[block].push_run(number, records);
        self.len += records.len();
    }

    /// The block of a user, created if there is none, and the number within it.
    fn place(&mut self, user: u32) -> (usize, u16) {
        let block = user as usize / NUMBERS_OF_A_BLOCK;
        if block >= self.blocks.len() {
            self.blocks.resize_with(block + 1, Block::default);
        }
        #[allow(clippy::cast_possible_truncation, reason = "a block has 2^12 numbers")]
        let number = (user as usize % NUMBERS_OF_A_BLOCK) as u16;
        (block, number)
    }
}

/// Records of consecutive users, merged.
#[derive(Default)]
struct MergedBlock {
    items: Vec<u32>,
    values: Vec<f32>,
    /// Where the records of each row end.
    ends: Vec<usize>,
}

impl MergedBlock {
    fn new(block: usize, chunks: Vec<Chunk>, rows: &Rows, columns: Option<&[u32]>) -> Self {
        let (starts, mut sorted) = by_row(&chunks, rows, block);
        drop(chunks);
        if let Some(columns) = columns {
            for (item, _) in &mut sorted {
                *item = columns[*item as usize];
            }
        }
        let mut merged = Self {
            items: Vec::with_capacity(sorted.len()),
            values: Vec::with_capacity(sorted.len()),
            ends: Vec::with_capacity(starts.len() - 1),
        };
        for range in starts.windows(2) {
            let row = &mut sorted[range[0]..range[1]];
            // stable sort by item, then keep the last of each run
            row.sort_by_key(|&(item, _)| item);
            for (at, &(item, value)) in row.iter().enumerate() {
                if row.get(at + 1).is_none_or(|&(next, _)| next != item) {
                    merged.items.push(item);
                    merged.values.push(value);
                }
            }
            merged.ends.push(merged.items.len());
        }
        merged
    }
}

impl Spill {
    const fn new(scratch: Scratch) -> Self {
        Self {
            scratch,
            file: None,
            n_held: 0,
        }
    }

    /// Counts more records, and writes all records to disk if there are too many.
    fn count(&mut self, records: &mut Records, n_more: usize) -> Result<(), ScratchError> {
        self.n_held += n_more;
        if self.n_held < self.scratch.records_collected() {
            return Ok(());
        }
        self.n_held = 0;
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(SpillFile::new(&self.scratch)?),
        };
        let mut blocks = records.blocks.iter_mut();
        blocks.try_for_each(|block| block.set_aside(file))
    }
}

/// Counting sort of a block by row.
fn by_row(chunks: &[Chunk], rows: &Rows, block: usize) -> (Vec<usize>, Vec<(u32, f32)>) {
    let own = rows.of_block(block);
    let row_of = |number: usize| rows.of(block * NUMBERS_OF_A_BLOCK + number) - own.start;
    let mut starts = vec![0; own.len() + 1];
    for (number, run) in chunks.iter().flat_map(Chunk::runs) {
        starts[row_of(number) + 1] += run.len();
    }
    for row in 0..own.len() {
        starts[row + 1] += starts[row];
    }
    let mut next = starts.clone();
    let mut sorted = vec![(0, 0.0); starts[own.len()]];
    for (number, run) in chunks.iter().flat_map(Chunk::runs) {
        let slot = &mut next[row_of(number)];
        sorted[*slot..*slot + run.len()].copy_from_slice(run);
        *slot += run.len();
    }
    (starts, sorted)
}

/// User numbers per block: a multiple of the word size.
const NUMBERS_OF_A_BLOCK: usize = 64 * WORDS_OF_A_BLOCK;
const WORDS_OF_A_BLOCK: usize = 64;

/// A set of user numbers.
#[derive(Default)]
struct UserNumbers {
    /// Bit `n % 64` of word `n / 64` stands for number `n`.
    words: Vec<u64>,
}

/// The numbers of a set in order: the row of a number is the count of smaller numbers in the set.
struct Rows {
    words: Vec<u64>,
    /// Count of numbers in all words before each word.
    before: Vec<usize>,
    n_rows: usize,
}

impl UserNumbers {
    fn insert(&mut self, user: u32) {
        let word = user as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (user % 64);
    }

    /// Inserts `0..end`.
    fn insert_below(&mut self, end: usize) {
        let whole = end / 64;
        if self.words.len() < end.div_ceil(64) {
            self.words.resize(end.div_ceil(64), 0);
        }
        self.words[..whole].fill(u64::MAX);
        if !end.is_multiple_of(64) {
            self.words[whole] |= (1 << (end % 64)) - 1;
        }
    }

    fn into_rows(self) -> Rows {
        let mut n_rows = 0;
        let mut before = Vec::with_capacity(self.words.len());
        for word in &self.words {
            before.push(n_rows);
            n_rows += word.count_ones() as usize;
        }
        Rows {
            words: self.words,
            before,
            n_rows,
        }
    }
}

impl Rows {
    const fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Number of blocks up to the largest user number.
    const fn n_blocks(&self) -> usize {
        self.words.len().div_ceil(WORDS_OF_A_BLOCK)
    }

    /// The rows of the user numbers in a block.
    fn of_block(&self, block: usize) -> std::ops::Range<usize> {
        let first = |block: usize| {
            let word = block * WORDS_OF_A_BLOCK;
            self.before.get(word).copied().unwrap_or(self.n_rows)
        };
        first(block)..first(block + 1)
    }

    /// The numbers in order.
    #[allow(clippy::cast_possible_truncation, reason = "numbers are 32 bits")]
    fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let bits = (0..64_u32).filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| at as u32 * 64 + bit)
        })
    }

    /// Whether no number between the first and the last is missing.
    fn are_consecutive(&self) -> bool {
        let first = self.words.iter().position(|&word| word != 0);
        let last = self.words.iter().rposition(|&word| word != 0);
        let (Some(first), Some(last)) = (first, last) else {
            return true;
        };
        let start = first * 64 + self.words[first].trailing_zeros() as usize;
        let end = last * 64 + 64 - self.words[last].leading_zeros() as usize;
        end - start == self.n_rows
    }

    /// The row of a number in the set.
    fn of(&self, user: usize) -> usize {
        let word = user / 64;
        let below = self.words[word] & ((1 << (user % 64)) - 1);
        self.before[word] + below.count_ones() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(records: &[(u32, u32, f32)], n_items: usize) -> Interactions {
        let mut builder = InteractionsBuilder::new(n_items);
        builder.ensure_users(4);
        for &(user, item, value) in records {
            builder.push(user, item, value).unwrap();
        }
        builder.build().0
    }

    /// Users 0 to 3, of whom 1 has no record.
    fn sample() -> Interactions {
        table(
            &[
                (0, 3, 1.0),
                (0, 1, 2.0),
                (2, 0, 3.0),
                (2, 3, 4.0),
                (3, 2, 5.0),
            ],
            4,
        )
    }

    #[test]
    fn rows_are_sorted_by_item_and_empty_users_stay() {
        let t = sample();
        assert_eq!(t.n_users(), 4);
        assert_eq!(t.user(0).items(), &[1, 3]);
        assert_eq!(t.user(0).values(), &[2.0, 1.0]);
        assert!(t.user(1).is_empty());
    }

    #[test]
    fn shards_hold_every_user_once_in_order() {
        let t = sample();
        for n_shards in [1, 2, 3, 7] {
            let shards = t.shards(n_shards);
            assert_eq!(shards.len(), n_shards);
            let joined: Vec<_> = shards
                .iter()
                .flat_map(|s| s.users().map(|r| r.iter().collect::<Vec<_>>()))
                .collect();
            let whole: Vec<_> = t.users().map(|r| r.iter().collect::<Vec<_>>()).collect();
            assert_eq!(joined, whole);
        }
    }

    #[test]
    fn dealt_users_keep_everything_and_are_in_one_table() {
        let mut builder = InteractionsBuilder::new(2).with_feature_dim(1);
        for user in [4, 900, 17] {
            builder.push(user, user % 2, user as f32).unwrap();
            builder.set_features(user, &[-(user as f32)]).unwrap();
        }
        builder.set_id(17, 1 << 100);
        let t = builder.build().0;
        let given = (1 << 100) | (1 << 127);
        assert_eq!([0, 1, 2].map(|user| t.user_id(user)), [4, given, 900]);
        assert_eq!(t.shards(3)[1].user_id(0), given);
        let parts = t.deal(2, |id| usize::from(id > 4));
        assert_eq!([parts[0].n_users(), parts[1].n_users()], [1, 2]);
        assert_eq!(parts[1].user(0).values(), &[17.0]);
        assert_eq!(parts[1].user(1).features(), &[-900.0]);
        assert_eq!(parts[1].user_id(0), given);
        let (a, b) = (parts[0].origin(), parts[1].origin());
        assert!(!a.overlaps(b) && a.overlaps(t.origin()));
        // a different assignment may put a user of one part into the other
        assert!(t.deal(2, |_| 0)[0].origin().overlaps(b));
        assert!(t.shards(2)[0].origin().overlaps(b));
    }

    #[test]
    fn ids_that_follow_each_other_are_those_of_the_numbers_given() {
        let mut builder = InteractionsBuilder::new(1);
        builder.ensure_users(5);
        let t = builder.build().0;
        assert_eq!(
            (0..5).map(|u| t.user_id(u)).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4]
        );
        assert_eq!(
            t.shards(2).last().map(|s| s.user_id(s.n_users() - 1)),
            Some(4)
        );
    }

    #[test]
    fn partition_deals_each_record_once_and_keeps_the_users() {
        let t = sample();
        let parts = t.partition(2, |_, item, _| item as usize % 3).unwrap();
        assert_eq!(parts[0].n_records() + parts[1].n_records(), 4);
        assert_eq!(parts[0].n_users(), 4);
        assert_eq!(parts[1].user(0).items(), &[1]);
        assert_eq!(parts[0].user(2).items(), &[0, 3]);
        assert!(parts[1].user(3).is_empty());
    }

    #[test]
    fn features_stay_with_their_user_in_shards_and_parts() {
        let mut builder = InteractionsBuilder::new(2).with_feature_dim(2);
        for user in 0..5_u8 {
            builder.push(user.into(), u32::from(user) % 2, 1.0).unwrap();
            let x = f32::from(user);
            builder.set_features(user.into(), &[x, -x]).unwrap();
        }
        let t = builder.build().0;
        assert_eq!(
            (t.feature_dim(), t.user(3).features()),
            (2, &[3.0, -3.0][..])
        );
        let joined: Vec<f32> = t
            .shards(3)
            .iter()
            .flat_map(|s| {
                s.users()
                    .flat_map(|r| r.features().to_vec())
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(joined, t.features);
        for part in t.partition(2, |user, _, _| user % 2).unwrap() {
            assert_eq!(part.user(4).features(), &[4.0, -4.0]);
        }
        assert!(sample().user(0).features().is_empty());
    }

    #[test]
    fn item_major_lists_the_same_records() {
        let t = sample();
        let by_item = t.item_major();
        let mut seen = 0;
        for item in 0..t.n_items() {
            let mut last_user = None;
            for entry in by_item.item(item) {
                let user = entry.user as usize;
                assert!(last_user < Some(user), "users of an item must increase");
                last_user = Some(user);
                assert!(t.user_range(user).contains(&(entry.position as usize)));
                let own = t.user(user).items();
                let place = entry.position as usize - t.user_range(user).start;
                assert_eq!(own[place] as usize, item);
                seen += 1;
            }
        }
        assert_eq!(seen, t.n_records());
    }

    fn first_users(n_users: u32) -> Interactions {
        let mut builder = InteractionsBuilder::new(2);
        for user in 0..n_users {
            builder.push(user, user % 2, 1.0).unwrap();
        }
        builder.build().0
    }

    #[test]
    fn shards_of_one_cut_are_apart_and_everything_else_of_a_table_is_not() {
        // the answers do not depend on the number of users
        for n_users in [0, 1, 7] {
            let (t, other) = (first_users(n_users), first_users(n_users));
            assert!(!t.origin().overlaps(other.origin()));
            assert!(t == other, "equal tables may have different origins");
            let (halves, thirds) = (t.shards(2), t.shards(3));
            for (i, a) in halves.iter().enumerate() {
                assert!(a.origin().overlaps(t.origin()) && t.origin().overlaps(a.origin()));
                assert!(!a.origin().overlaps(other.origin()));
                for (j, b) in t.shards(2).iter().enumerate() {
                    assert_eq!(a.origin().overlaps(b.origin()), i == j);
                }
                for b in &thirds {
                    assert!(a.origin().overlaps(b.origin()), "not known to be apart");
                }
            }
            // shards of shards: disjoint as soon as one split separates them
            let quarters: Vec<_> = halves.iter().flat_map(|half| half.shards(2)).collect();
            for (i, a) in quarters.iter().enumerate() {
                for (j, b) in quarters.iter().enumerate() {
                    assert_eq!(a.origin().overlaps(b.origin()), i == j);
                }
                assert_eq!(a.origin().overlaps(halves[0].origin()), i < 2);
            }
            // parts hold the same users
            let parts = t.partition(2, |_, item, _| item as usize).unwrap();
            assert!(parts[0].origin().overlaps(parts[1].origin()));
        }
    }

    fn users_in_order(users: &[u32]) -> Interactions {
        let mut builder = InteractionsBuilder::new(3);
        for &user in users {
            builder.push(user, user % 3, 1.0).unwrap();
        }
        builder.build().0
    }

    #[test]
    fn shards_parts_and_copies_find_what_belongs_to_their_users_and_other_tables_find_nothing() {
        let t = users_in_order(&[5, 1, 9, 300]);
        let numbers = PerUser::from_values(&t, vec![10, 11, 12, 13]);
        let parts = t.partition(2, |_, item, _| item as usize % 2).unwrap();
        for tables in [t.shards(3), parts] {
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
        let stranger = users_in_order(&[5, 1, 9, 300]);
        assert!(stranger.users().all(|row| numbers.get(row.key()).is_none()));
        for part in t.deal(2, |id| usize::from(id > 5)) {
            assert!(part.users().all(|row| numbers.get(row.key()).is_none()));
        }
    }

    #[test]
    fn rows_are_the_numbers_in_order() {
        let mut numbers = UserNumbers::default();
        let given = [70, 3, 64, 3, 0, 1_000, 127, 128];
        for user in given {
            numbers.insert(user);
        }
        let rows = numbers.into_rows();
        let sorted = std::collections::BTreeSet::from(given);
        assert_eq!(rows.n_rows(), sorted.len());
        for (row, user) in sorted.into_iter().enumerate() {
            assert_eq!(rows.of(user as usize), row);
            assert_eq!(rows.numbers().nth(row), Some(user));
        }
        assert!(!rows.are_consecutive());
    }

    #[test]
    fn numbers_are_consecutive_where_none_is_missing() {
        for (first, end, missing) in [
            (0, 5, None),
            (60, 200, None),
            (60, 200, Some(130)),
            (0, 0, None),
        ] {
            let mut numbers = UserNumbers::default();
            (first..end)
                .filter(|&n| Some(n) != missing)
                .for_each(|n| numbers.insert(n));
            let rows = numbers.into_rows();
            assert_eq!(rows.are_consecutive(), missing.is_none());
        }
    }

    #[test]
    fn ranges_are_inserted_to_their_end() {
        for end in [0, 1, 63, 64, 65, 200] {
            let mut numbers = UserNumbers::default();
            numbers.insert_below(end);
            numbers.insert(500);
            let rows = numbers.into_rows();
            assert_eq!((rows.n_rows(), rows.of(500)), (end + 1, end));
        }
    }
}
