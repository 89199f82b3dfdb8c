//! Progress of a workflow, for its caller.
//!
//! Everything else is reported as `tracing` events below the target `dp_personal`: warnings, and
//! details on demand. Neither these nor progress contain private values.

use std::ops::ControlFlow;

use dp_accounting::Plan;
use dp_mechanism::{Observer, Round};

use crate::error::{Error, Result};

pub use dp_mechanism::Progress;

/// The kind of a workflow's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Settings are checked; next, data are read or a run is paid for. One step.
    Preparation,
    /// Releases of a plan, whose number is public.
    Releases,
    /// Training runs of an audit, which always runs to its end: a `Break` is ignored.
    Runs,
}

/// The caller of a workflow.
pub trait Watch {
    /// Called with the number of completed steps; 0 when the first begins. `Break` ends the
    /// workflow with [`Error::Cancelled`]: until the first release nothing is lost, and after that
    /// what was paid stays paid.
    fn progress(&mut self, stage: Stage, at: Progress) -> ControlFlow<()> {
        let _ = (stage, at);
        ControlFlow::Continue(())
    }
}

/// A caller that ignores progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Watch for Silent {}

/// Ends the workflow if its caller requests it.
pub(crate) fn go_on(watch: &mut dyn Watch) -> Result<()> {
    asked(watch.progress(Stage::Preparation, Progress { done: 0, total: 1 }))
}

/// Reports the start of an audit's run: the previous runs are done.
pub(crate) fn begins(watch: &mut dyn Watch, done: usize, total: usize) {
    tracing::debug!(run = done + 1, "training run begins");
    let _ = watch.progress(Stage::Runs, Progress { done, total });
}

const fn asked(answer: ControlFlow<()>) -> Result<()> {
    match answer {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Cancelled),
    }
}

/// Shows a run to the caller of its workflow, and its rounds to the code that measures them.
pub(crate) struct Watched<'a> {
    watch: &'a mut dyn Watch,
    rounds: Option<&'a mut dyn Observer>,
}

impl<'a> Watched<'a> {
    /// Must be called before the first release.
    pub(crate) fn begin(watch: &'a mut dyn Watch, plan: &Plan) -> Result<Self> {
        let total = plan.releases().len();
        asked(watch.progress(Stage::Releases, Progress { done: 0, total }))?;
        Ok(Self {
            watch,
            rounds: None,
        })
    }

    pub(crate) fn with_rounds(self, rounds: &'a mut dyn Observer) -> Self {
        Self {
            rounds: Some(rounds),
            ..self
        }
    }
}

impl Observer for Watched<'_> {
    fn reads_users(&self) -> bool {
        false
    }

    fn round(&mut self, round: &Round<'_>) {
        if let Some(rounds) = &mut self.rounds {
            rounds.round(round);
        }
    }

    fn progress(&mut self, at: Progress) -> ControlFlow<()> {
        tracing::debug!(done = at.done, of = at.total, "release made");
        self.watch.progress(Stage::Releases, at)
    }
}
