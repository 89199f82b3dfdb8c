//! The progress bar: on standard error, only when a person watches.

use std::io::{IsTerminal, stderr};

use dp_multitask::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar over the releases of a plan, whose number is public.
pub(crate) struct ReleaseBar(ProgressBar);

impl ReleaseBar {
    pub(crate) fn new(n_releases: usize) -> Self {
        if !stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(n_releases as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:32} {pos}/{len} private steps") {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(crate) fn show(&self, progress: Progress) {
        self.0.set_position(progress.done as u64);
    }
}

impl Drop for ReleaseBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
