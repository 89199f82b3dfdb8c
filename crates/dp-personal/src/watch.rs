//! Whoever started a workflow, told how far it is.
//!
//! What else there is to tell are events of `tracing` below the target `dp_personal`: warnings, and on demand what is
//! done. Neither these nor progress hold private values.

use dp_multitask::Progress;

use crate::error::{Error, Result};

/// What the steps of a workflow are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Releases of a plan, whose number is public.
    Releases,
    /// Training runs of an audit.
    Runs,
}

/// The caller of a workflow.
pub trait Watch {
    /// So many of `total` steps are done; 0 when the first begins.
    fn progress(&mut self, stage: Stage, done: usize, total: usize) {
        let _ = (stage, done, total);
    }

    /// Whether to stop. It is asked before data is read and again before a run is paid for; a run that was paid for goes
    /// on to its end, because what was spent does not come back.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// A caller who wants to know nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Watch for Silent {}

/// Ends the workflow if its caller asks for it.
pub(crate) fn go_on(watch: &dyn Watch) -> Result<()> {
    if watch.is_cancelled() {
        return Err(Error::Cancelled);
    }
    Ok(())
}

/// Tells that a release was made.
pub(crate) fn made(watch: &mut dyn Watch, Progress { done, total }: Progress) {
    tracing::debug!(done, of = total, "release made");
    watch.progress(Stage::Releases, done, total);
}

/// Tells that an audit's run begins: those before it are done.
pub(crate) fn begins(watch: &mut dyn Watch, n_done: usize, total: usize) {
    tracing::debug!(run = n_done + 1, "training run begins");
    watch.progress(Stage::Runs, n_done, total);
}
