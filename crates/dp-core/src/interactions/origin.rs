//! Which users a table holds, without looking at them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where the users of a table come from: a number of its own for every table that is built, and the
/// shards that were cut from it since.
///
/// Sums over two tables may be added up only when no user is in both, because each sum bounds its
/// users anew. [`overlaps`](Self::overlaps) says when that is certain to go wrong, for tables of one
/// process. It looks at how tables were made and never at records or at numbers of users, so an error
/// that rests on it tells nothing private. Two tables that were *built* apart count as tables of
/// different users, whatever was put into them.
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
    /// Number of a shard and how was cut, outermost first.
    cuts: Vec<(usize, Cut)>,
}

/// How a table was cut. Shards of equal cuts are apart, shards of different ones may share users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    n_parts: usize,
    /// 0 for consecutive users; else which dealing it was, of all in this process.
    dealing: u64,
}

impl Origin {
    /// A table like no other of this process.
    pub(super) fn of_a_new_table() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            table: NEXT.fetch_add(1, Ordering::Relaxed),
            cuts: Vec::new(),
        }
    }

    /// Shard `index` of `n_shards` of a table of this origin.
    pub(super) fn shard(&self, index: usize, n_shards: usize) -> Self {
        let mut shard = self.clone();
        let cut = Cut {
            n_parts: n_shards,
            dealing: 0,
        };
        shard.cuts.push((index, cut));
        shard
    }

    /// A number for one way of dealing users to tables.
    pub(super) fn new_cut() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// Part `index` of `n_parts` that users were dealt to.
    pub(super) fn dealt(&self, index: usize, n_parts: usize, dealing: u64) -> Self {
        let mut part = self.clone();
        part.cuts.push((index, Cut { n_parts, dealing }));
        part
    }

    /// Whether a user may be in tables of both origins, as far as is known: always for a table and
    /// its own copies, parts and shards, and for shards of one table cut into different numbers.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.table != other.table {
            return false;
        }
        let mut pairs = self.cuts.iter().zip(&other.cuts);
        match pairs.find(|(a, b)| a != b) {
            Some(((_, n), (_, m))) => n != m, // two different shards of one cut are disjoint
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Interactions, InteractionsBuilder};

    fn table(n_users: u32) -> Interactions {
        let mut builder = InteractionsBuilder::new(2);
        for user in 0..n_users {
            builder.push(user, user % 2, 1.0).unwrap();
        }
        builder.build().0
    }

    #[test]
    fn shards_of_one_cut_are_apart_and_everything_else_of_a_table_is_not() {
        // the same answers whatever the number of users
        for n_users in [0, 1, 7] {
            let (t, other) = (table(n_users), table(n_users));
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
            // shards of shards: apart as soon as one cut tells them apart
            let quarters: Vec<_> = halves.iter().flat_map(|half| half.shards(2)).collect();
            for (i, a) in quarters.iter().enumerate() {
                for (j, b) in quarters.iter().enumerate() {
                    assert_eq!(a.origin().overlaps(b.origin()), i == j);
                }
                assert_eq!(a.origin().overlaps(halves[0].origin()), i < 2);
            }
            // parts hold the same users
            let parts = t.partition(2, |_, item, _| item as usize);
            assert!(parts[0].origin().overlaps(parts[1].origin()));
        }
    }
}
