use super::Interactions;

/// One record seen from its item.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(
    missing_debug_implementations,
    reason = "says who holds what; printing it is never wanted"
)]
pub struct ItemEntry {
    /// The user who holds the record.
    pub user: u32,
    /// The record's place among all records in user order.
    pub position: u32,
}

/// The records of a table listed item by item, users increasing within each item.
///
/// A sum over the users of each item reads this list and gathers per-user data, which is far
/// cheaper than walking the users and scattering into per-item sums.
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
    /// When the table has 2^32 users or records or more; shard it first.
    pub(super) fn new(table: &Interactions) -> Self {
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
    /// When `item` is not below [`n_items`](Self::n_items).
    #[must_use]
    pub fn item(&self, item: usize) -> &[ItemEntry] {
        &self.entries[self.offsets[item]..self.offsets[item + 1]]
    }
}
