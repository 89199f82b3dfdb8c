//! Caches of numbers that a user's contribution would compute more than once.
//!
//! What a cache holds of a user is a function of that user's own rows and of public values, and only that user's contribution reads it: an entry is found by the
//! key of the user's row. A row of another table has no entry, and is computed anew with the same result.

use dp_core::{PerUser, UserRow, UserSamples};
use dp_linalg::prefetch;
use rayon::prelude::*;

use crate::batched::{USERS, UserBlock};
use crate::user_rows::UserCells;

/// A cache takes this much memory at most; beyond it everything is computed anew.
const MOST_BYTES: usize = 1 << 30;
/// Users of one task.
pub(crate) const USERS_PER_TASK: usize = 512;

/// Whether so many bytes for each user are few enough.
pub(crate) fn fits(samples: &UserSamples, bytes_per_user: usize) -> bool {
    samples.users().len() <= MOST_BYTES / bytes_per_user.max(1)
}

/// Finds where the entry of a user lies, from 0, by the key of the user's row.
pub(crate) fn user_index(samples: &UserSamples) -> PerUser<()> {
    let table = samples.table().expose();
    PerUser::from_values(table, vec![(); table.n_users()])
}

/// Hands the users of a task their entries, with working memory.
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
            own = scratch(); // what one user left there shows in tests
        }
        write(table.user(user), &mut own, entry);
    }
}

/// Some numbers of every user, computed for [`USERS`] users at a time.
pub(crate) struct Cache {
    index: PerUser<()>,
    width: usize,
    /// Shape `(n_users, width)`.
    numbers: Vec<f32>,
}

impl Cache {
    /// `width` numbers of every user, if they fit into memory; `write` is given users, working memory and where their numbers go. What it writes of a
    /// user must not depend on the others. `memory` is used again.
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
        let tasks = numbers.par_chunks_mut(USERS_PER_TASK * width);
        tasks.enumerate().for_each(|(task, part)| {
            let mut own = scratch();
            let blocks = part.chunks_mut(USERS * width);
            for (first, out) in (task * USERS_PER_TASK..).step_by(USERS).zip(blocks) {
                if cfg!(debug_assertions) {
                    own = scratch(); // what one user left there shows in tests
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

    /// Those of the user whose row this is.
    pub(crate) fn find(&self, user: UserRow<'_>) -> Option<&[f32]> {
        let at = self.index.place(user.key())?;
        #[cfg(privacy_mutants)]
        let at = dp_core::mutants::pick("cache-of-the-neighbour", at, at & !1);
        self.numbers.get(at * self.width..(at + 1) * self.width)
    }

    /// The memory of a cache that is not needed any more.
    pub(crate) fn into_memory(self) -> Vec<f32> {
        self.numbers
    }
}

/// Hands over the users of a block that begins with user `first`.
fn with_block(samples: &UserSamples, first: usize, work: impl FnOnce(UserBlock<'_>)) {
    let (table, n_features) = (samples.table().expose(), samples.n_features());
    let last = table.n_users() - 1;
    let cells = |at: usize| UserCells::of(table.user(at.min(last)), n_features);
    let users: [_; 2 * USERS] = std::array::from_fn(|at| cells(first + at));
    let users = &users[..users.len().min(table.n_users() - first)];
    let (users, next) = users.split_at(users.len().min(USERS));
    work(UserBlock { users, next });
}

/// Some numbers of every user of one block, computed when the first of them is asked for.
#[derive(Default)]
pub(crate) struct BlockCache {
    first: Option<usize>,
    numbers: Vec<f32>,
}

impl BlockCache {
    /// Those of the user at place `at` of the table, as [`Cache::of`] would write them. One block serves one table, one width and one
    /// `write`.
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
