//! Panics of the decoder are its word for a damaged file.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a call whose panic becomes an [`Error::Parquet`](crate::Error::Parquet).
///
/// The decoder of Parquet files panics at some kinds of damage, and what it says then tells lengths of ids. The readers
/// catch that panic and pass nothing of it on; but Rust's panic hook has shown the message on standard error by then. This
/// crate leaves the hook alone, which belongs to the program. A program whose standard error others may see asks here:
///
/// ```
/// let before = std::panic::take_hook();
/// std::panic::set_hook(Box::new(move |panic| {
///     if !dp_data::panic_is_contained() {
///         before(panic);
///     }
/// }));
/// # assert!(!dp_data::panic_is_contained());
/// ```
///
/// In a program built with `panic = "abort"` nothing is caught: it ends at such a file, and the hook still asks here.
#[must_use]
pub fn panic_is_contained() -> bool {
    IS_CONTAINED.try_with(Cell::get).unwrap_or(false)
}

/// What `call` gives, nothing if it panics. What it changed may be in any state then and must not be read further.
pub(super) fn contained<T>(call: impl FnOnce() -> T) -> Option<T> {
    let before = IS_CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    IS_CONTAINED.set(before);
    result.ok()
}
