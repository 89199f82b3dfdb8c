//! Deliberate bugs for builds with `--cfg privacy_mutants`, selected by the environment variable
//! `DP_MUTANT`. No other build contains this module.

use std::sync::OnceLock;

/// Whether the named bug is switched on.
#[must_use]
pub fn active(name: &str) -> bool {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("DP_MUTANT").ok());
    chosen.as_deref() == Some(name)
}

/// Returns `wrong` if the named bug is switched on, otherwise `right`.
#[must_use]
pub fn pick<T>(name: &str, right: T, wrong: T) -> T {
    if active(name) { wrong } else { right }
}
