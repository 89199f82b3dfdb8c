//! Caches of numbers that a user's contribution would otherwise compute more than once.
//!
//! A cache entry of a user is a function of that user's own rows and of public values, and only
//! that user's contribution reads it: an entry is found by the key of the user's row. A row of
//! another table has no entry, and its numbers are recomputed with the same result.

use dp_core::{PerUser, UserRow, UserSamples, parallel};
use dp_linalg::prefetch;

use crate::batched::{USERS, UserBlock};
use crate::user_rows::UserCells;

/// Maximum memory of a cache; if it would need more, everything is recomputed.
const MOST_BYTES: usize = 1 << 30;
/// Number of users per task.
pub(crate) const USERS_PER_TASK: usize = 512;

/// Whether this many bytes for each user fit into a cache.
pub(crate) fn fits(samples: &UserSamples, bytes_per_user: usize) -> bool {
    samples.users().len() <= MOST_BYTES / bytes_per_user.max(1)
}

/// Looks up the index of a user's entry, from 0, by the key of the user's row.
pub(crate) fn user_index(samples: &UserSamples) -> PerUser<()> {
    let table = samples.table().expose();
    PerUser::from_values(table, vec![(); table.n_users()])
}

/// Calls a function for the users of a task with their entries and scratch memory.
pub(crate) fn fill<E, S>(
    samples: &UserSamples,
    task: usize,
    entries: impl Iterator<Item = E>,
    scratch: impl Fn() -> S,
    write: impl Fn(UserRow<'_>, &mut S, E),
) {
    let table = samples.table().expose();
    let mut own = scratch();
    for (user, entry) in (task * USERS_PER_TASK..).zip(entries) {
        if user + 1 < table.n_users() {
            prefetch(table.user(user + 1).features());
        }
        if cfg!(debug_assertions) {
            own = scratch(); // fresh scratch makes state left by one user visible in tests
        }
        write(table.user(user), &mut own, entry);
    }
}

/// Several numbers for every user, computed for [`USERS`] users at a time.
pub(crate) struct Cache {
    index: PerUser<()>,
    width: usize,
    /// Shape `(n_users, width)`.
    numbers: Vec<f32>,
}

impl Cache {
    /// `width` numbers for every user, if they fit into memory; `write` receives users, scratch
    /// memory and the destination of their numbers. The numbers of a user must not depend on other
    /// users. `memory` is reused.
    pub(crate) fn of<S>(
        samples: &UserSamples,
        width: usize,
        memory: Vec<f32>,
        scratch: impl Fn() -> S + Sync,
        write: impl Fn(UserBlock<'_>, &mut S, &mut [f32]) + Sync,
    ) -> Option<Self> {
        if width == 0 || !fits(samples, 4 * width) {
            return None;
        }
        let len = samples.users().len() * width;
        let mut numbers = memory;
        if numbers.len() != len {
            numbers = vec![0.0; len];
        }
        let tasks = numbers.chunks_mut(USERS_PER_TASK * width);
        parallel::for_each(tasks.enumerate(), |(task, part)| {
            let mut own = scratch();
            let blocks = part.chunks_mut(USERS * width);
            for (first, out) in (task * USERS_PER_TASK..).step_by(USERS).zip(blocks) {
                if cfg!(debug_assertions) {
                    own = scratch(); // fresh scratch makes state left by one user visible in tests
                }
                with_block(samples, first, |block| write(block, &mut own, out));
            }
        });
        Some(Self {
            index: user_index(samples),
            width,
            numbers,
        })
    }

    /// The numbers of the user with this row.
    pub(crate) fn find(&self, user: UserRow<'_>) -> Option<&[f32]> {
        let at = self.index.place(user.key())?;
        #[cfg(privacy_mutants)]
        let at = dp_core::mutants::pick("cache-of-the-neighbour", at, at & !1);
        self.numbers.get(at * self.width..(at + 1) * self.width)
    }

    /// The memory of a cache that is no longer needed.
    pub(crate) fn into_memory(self) -> Vec<f32> {
        self.numbers
    }
}

/// Calls `work` with the users of a block that begins with user `first`.
fn with_block(samples: &UserSamples, first: usize, work: impl FnOnce(UserBlock<'_>)) {
    let (table, n_features) = (samples.table().expose(), samples.n_features());
    let last = table.n_users() - 1;
    let cells = |at: usize| UserCells::of(table.user(at.min(last)), n_features);
    let users: [_; 2 * USERS] = std::array::from_fn(|at| cells(first + at));
    let users = &users[..users.len().min(table.n_users() - first)];
    let (users, next) = users.split_at(users.len().min(USERS));
    work(UserBlock { users, next });
}

/// Several numbers for every user of one block, computed when the first of them is requested.
#[derive(Default)]
pub(crate) struct BlockCache {
    first: Option<usize>,
    numbers: Vec<f32>,
}

impl BlockCache {
    /// The numbers of the user at index `at` of the table, as [`Cache::of`] would write them. One
    /// block serves one table, one width and one `write`.
    pub(crate) fn find(
        &mut self,
        (samples, at): (&UserSamples, usize),
        width: usize,
        write: impl FnOnce(UserBlock<'_>, &mut [f32]),
    ) -> Option<&[f32]> {
        let first = at / USERS * USERS;
        if self.first != Some(first) {
            with_block(samples, first, |block| {
                self.numbers.resize(block.users.len() * width, 0.0);
                write(block, &mut self.numbers);
            });
            self.first = Some(first);
        }
        self.numbers.get((at - first) * width..)?.get(..width)
    }
}
