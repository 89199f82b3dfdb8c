//! Tables of what users would compute more than once.
//!
//! What is kept of a user is a function of that user's own rows and of public values, and only that user's contribution reads it: an entry is found by where the
//! rows lie in memory, which no two users of a table share. Rows from elsewhere have no entry.

use dp_core::{UserRow, UserSamples};
use dp_linalg::fetch_ahead;

/// A table takes this much memory at most; beyond it everything is computed anew.
const MOST_BYTES: usize = 1 << 30;
/// Users of one task.
pub(crate) const USERS_PER_TASK: usize = 512;

/// Whether so many bytes for each user are few enough.
pub(crate) fn fits(samples: &UserSamples, bytes_per_user: usize) -> bool {
    samples.users().len() <= MOST_BYTES / bytes_per_user.max(1)
}

/// The user's number, if the rows are those of the table.
pub(crate) fn place(samples: &UserSamples, user: UserRow<'_>) -> Option<usize> {
    let table = samples.table().expose();
    let cells = user.features();
    let first = table.users().next()?.features().as_ptr().addr();
    let offset = cells.as_ptr().addr().checked_sub(first)?;
    let at = offset.checked_div(size_of_val(cells))?;
    let here = at < table.n_users() && std::ptr::eq(table.user(at).features(), cells);
    here.then_some(at)
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
            fetch_ahead(table.user(user + 1).features());
        }
        if cfg!(debug_assertions) {
            own = scratch(); // what one user left there shows in tests
        }
        write(table.user(user), &mut own, entry);
    }
}
