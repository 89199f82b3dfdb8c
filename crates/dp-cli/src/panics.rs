//! Controls which panics are printed.

use std::panic;

/// Hides panics that are converted to errors: the panic message of the Parquet decoder reveals
/// lengths of ids.
pub(crate) fn show_what_is_not_caught() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |of| {
        if !dp_data::panic_is_contained() {
            before(of);
        }
    }));
}
