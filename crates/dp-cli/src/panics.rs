//! Which panics are shown.

use std::panic;

/// Shows none that becomes an error: what the decoder of Parquet files says as it panics tells lengths of ids.
pub(crate) fn show_what_is_not_caught() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |of| {
        if !dp_data::panic_is_contained() {
            before(of);
        }
    }));
}
