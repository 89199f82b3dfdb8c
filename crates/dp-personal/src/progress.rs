//! The progress bar: on standard error, only when a person watches.

use std::io::{IsTerminal, stderr};
use std::ops::ControlFlow;

use dp_multitask::{Observer, Progress};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::is_quiet;

/// A bar over the releases of a plan, whose number is public.
pub(crate) struct ReleaseBar(ProgressBar);

impl ReleaseBar {
    pub(crate) fn new(n_releases: usize) -> Self {
        Self(bar(n_releases, "private steps"))
    }

    pub(crate) fn show(&self, progress: Progress) {
        tracing::debug!(done = progress.done, of = progress.total, "release made");
        self.0.set_position(progress.done as u64);
    }
}

impl Observer for ReleaseBar {
    fn progress(&mut self, at: Progress) -> ControlFlow<()> {
        self.show(at);
        ControlFlow::Continue(())
    }
}

impl Drop for ReleaseBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A bar over the training runs of an audit.
pub(crate) struct RunBar(ProgressBar);

impl RunBar {
    pub(crate) fn new(n_runs: usize) -> Self {
        Self(bar(n_runs, "training runs"))
    }

    /// Called when a run begins: those before it are done.
    pub(crate) fn begin(&self, n_done: usize) {
        tracing::debug!(run = n_done + 1, "training run begins");
        self.0.set_position(n_done as u64);
    }
}

impl Drop for RunBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn bar(length: usize, unit: &str) -> ProgressBar {
    if is_quiet() || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length as u64);
    if let Ok(style) = ProgressStyle::with_template(&format!(
        "{{bar:32}} {{pos}}/{{len}} {unit}, {{per_sec}}, {{eta}} left"
    )) {
        bar.set_style(style);
    }
    bar
}
