//! The progress bar: on standard error, only when a person watches.

use std::io::{IsTerminal, stderr};
use std::ops::ControlFlow;

use dp_personal::watch::{Progress, Stage, Watch};
use indicatif::{ProgressBar, ProgressStyle};

use crate::screen::is_quiet;

/// A bar over the steps of a workflow, whose number is public.
#[derive(Default)]
pub(crate) struct Bar(Option<ProgressBar>);

impl Watch for Bar {
    fn progress(&mut self, stage: Stage, Progress { done, total }: Progress) -> ControlFlow<()> {
        if let Some(unit) = unit(stage) {
            let bar = self.0.get_or_insert_with(|| bar(unit, total));
            bar.set_position(done as u64);
            if done == total {
                self.end();
            }
        }
        ControlFlow::Continue(())
    }
}

impl Bar {
    /// Takes the bar off the screen.
    fn end(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.end();
    }
}

const fn unit(stage: Stage) -> Option<&'static str> {
    match stage {
        Stage::Preparation => None,
        Stage::Releases => Some("private steps"),
        Stage::Runs => Some("training runs"),
    }
}

fn bar(unit: &str, length: usize) -> ProgressBar {
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
