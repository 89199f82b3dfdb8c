//! Records of users with items, stored user by user.

mod builder;
mod item_major;
mod origin;
mod per_user;
mod records;
mod user_numbers;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub use builder::{DroppedRecords, InteractionsBuilder};
pub use item_major::{ItemEntry, ItemMajor};
pub use origin::Origin;
pub use per_user::{PerUser, UserKey};

/// One user's records: what a per-user contribution may look at.
///
/// Two rows are equal when their records and features are; whose they are does not count.
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

    /// Finds what a [`PerUser`] holds for this user.
    #[must_use]
    pub const fn key(self) -> UserKey {
        self.key
    }

    /// How many records the user has.
    #[must_use]
    pub const fn len(self) -> usize {
        self.items.len()
    }

    /// Whether the user has no record.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.items.is_empty()
    }

    /// The records as pairs.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (u32, f32)> + 'a {
        self.items.iter().copied().zip(self.values.iter().copied())
    }
}

/// A sparse user-by-item table in compressed rows, with at most one value per user-item pair.
///
/// Build one with [`InteractionsBuilder`], which states the rules for repeated pairs and for
/// values that are not finite. `n_items` is public (the catalogue), and so is the length of the
/// users' feature vectors, 0 for a table without any; everything else here, the number of users
/// included, is private under add/remove adjacency.
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
    items: Vec<u32>,
    values: Vec<f32>,
    feature_dim: usize,
    /// Shape `(n_users, feature_dim)`, row-major.
    features: Vec<f32>,
    /// Made when first asked for; always the listing of this very table.
    by_item: OnceLock<ItemMajor>,
    /// Not part of what makes two tables equal.
    origin: Origin,
    /// The key of the first user; those of the others follow.
    keys: UserKey,
    /// Not part of what makes two tables equal.
    ids: UserIds,
}

/// Who the users of a table are, beyond this table.
#[derive(Clone)]
enum UserIds {
    /// Numbers that follow each other, from this one on.
    From(u64),
    /// One to a user, in order.
    Each(Vec<u128>),
}

impl PartialEq for Interactions {
    fn eq(&self, other: &Self) -> bool {
        self.n_items == other.n_items
            && self.offsets == other.offsets
            && self.items == other.items
            && self.values == other.values
            && self.feature_dim == other.feature_dim
            && self.features == other.features
    }
}

impl Interactions {
    /// Number of users, those without records included.
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
        self.items.len()
    }

    /// The records of one user.
    ///
    /// # Panics
    /// When `user` is not below [`n_users`](Self::n_users).
    #[must_use]
    pub fn user(&self, user: usize) -> UserRow<'_> {
        let range = self.user_range(user);
        UserRow {
            items: &self.items[range.clone()],
            values: &self.values[range],
            features: &self.features[self.feature_range(user, user + 1)],
            key: UserKey {
                table: self.keys.table,
                row: self.keys.row + user,
            },
        }
    }

    /// Who a user is in every table of the same data set, whichever process reads it: what the
    /// builder was told ([`InteractionsBuilder::set_id`]), else the number that the user was given
    /// under. For secret coins and for dealing users to shards; contributions do not see it.
    ///
    /// # Panics
    /// When `user` is not below [`n_users`](Self::n_users).
    #[must_use]
    pub fn user_id(&self, user: usize) -> u128 {
        assert!(user < self.n_users());
        match &self.ids {
            UserIds::From(first) => u128::from(*first) + user as u128,
            UserIds::Each(ids) => ids[user],
        }
    }

    /// Length of every user's feature vector; 0 when there are none. Public.
    #[must_use]
    pub const fn feature_dim(&self) -> usize {
        self.feature_dim
    }

    const fn feature_range(&self, first: usize, last: usize) -> std::ops::Range<usize> {
        first * self.feature_dim..last * self.feature_dim
    }

    /// Where the records of `user` lie among all records in user order.
    ///
    /// # Panics
    /// When `user` is not below [`n_users`](Self::n_users).
    #[must_use]
    pub fn user_range(&self, user: usize) -> std::ops::Range<usize> {
        self.offsets[user]..self.offsets[user + 1]
    }

    /// All users in order.
    pub fn users(&self) -> impl ExactSizeIterator<Item = UserRow<'_>> {
        (0..self.n_users()).map(|user| self.user(user))
    }

    /// Which users these are, as far as the making of tables in this process tells.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The same records listed item by item; made once and kept.
    #[must_use]
    pub fn item_major(&self) -> &ItemMajor {
        self.by_item.get_or_init(|| ItemMajor::new(self))
    }

    /// Copies the users into `n_shards` tables of consecutive users and similar size; every
    /// user is in exactly one. Sums over shards add up to sums over the whole.
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

    /// Deals every user, with everything that is theirs, to one of `n_parts` tables by `part(id)` of
    /// the user's [id](Self::user_id); a user whose part is `n_parts` or above is left out. Every
    /// user is in one table at most, so sums over the parts add up to sums over the whole.
    pub fn deal(&self, n_parts: usize, part: impl Fn(u128) -> usize) -> Vec<Self> {
        let cut = Origin::new_cut();
        let mut parts: Vec<Self> = (0..n_parts)
            .map(|at| Self {
                offsets: vec![0],
                items: Vec::new(),
                values: Vec::new(),
                features: Vec::new(),
                by_item: OnceLock::new(),
                origin: self.origin.dealt(at, n_parts, cut),
                keys: Self::new_keys(),
                ids: UserIds::Each(Vec::new()),
                ..*self
            })
            .collect();
        for (user, row) in self.users().enumerate() {
            let id = self.user_id(user);
            let Some(table) = parts.get_mut(part(id)) else {
                continue;
            };
            table.items.extend_from_slice(row.items);
            table.values.extend_from_slice(row.values);
            table.features.extend_from_slice(row.features);
            table.offsets.push(table.items.len());
            if let UserIds::Each(ids) = &mut table.ids {
                ids.push(id);
            }
        }
        parts
    }

    /// Nobody, in the same public shape: for a coordinator, which holds no users, and for making a model again from what was
    /// released.
    #[must_use]
    pub fn without_users(&self) -> Self {
        Self {
            offsets: vec![0],
            items: Vec::new(),
            values: Vec::new(),
            features: Vec::new(),
            by_item: OnceLock::new(),
            origin: Origin::of_a_new_table(),
            keys: Self::new_keys(),
            ids: UserIds::Each(Vec::new()),
            ..*self
        }
    }

    /// Keys of a table like no other of this process.
    fn new_keys() -> UserKey {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        UserKey {
            table: NEXT.fetch_add(1, Ordering::Relaxed),
            row: 0,
        }
    }

    /// Deals every record to one of `n_parts` tables over the same users and items, by
    /// `part(user, item, value)`; a record whose part is `n_parts` or above is left out.
    ///
    /// A user can be in several parts, with the same features. Parts are for training on one and testing on another, never
    /// for sums that are added up: each part would bound the user anew. Use
    /// [`shards`](Self::shards) for that.
    pub fn partition(
        &self,
        n_parts: usize,
        mut part: impl FnMut(usize, u32, f32) -> usize,
    ) -> Vec<Self> {
        let empty = Self {
            n_items: self.n_items,
            offsets: vec![0],
            items: Vec::new(),
            values: Vec::new(),
            feature_dim: self.feature_dim,
            features: self.features.clone(),
            by_item: OnceLock::new(),
            origin: self.origin.clone(),
            keys: self.keys,
            ids: self.ids.clone(),
        };
        let mut parts = vec![empty; n_parts];
        for (user, row) in self.users().enumerate() {
            for (item, value) in row.iter() {
                if let Some(table) = parts.get_mut(part(user, item, value)) {
                    table.items.push(item);
                    table.values.push(value);
                }
            }
            for table in &mut parts {
                table.offsets.push(table.items.len());
            }
        }
        parts
    }

    fn user_block(&self, first: usize, last: usize, origin: Origin) -> Self {
        let (low, high) = (self.offsets[first], self.offsets[last]);
        Self {
            n_items: self.n_items,
            offsets: self.offsets[first..=last]
                .iter()
                .map(|&end| end - low)
                .collect(),
            items: self.items[low..high].to_vec(),
            values: self.values[low..high].to_vec(),
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
        // another way of dealing may put a user of one part into another
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
        let parts = t.partition(2, |_, item, _| item as usize % 3);
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
        for part in t.partition(2, |user, _, _| user % 2) {
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
                assert_eq!(t.items[entry.position as usize] as usize, item);
                seen += 1;
            }
        }
        assert_eq!(seen, t.n_records());
    }
}
