//! The progress bar, shown on standard error only if that is a terminal.

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
        if stage == Stage::Releases {
            interrupt::catch();
        }
        if let Some(unit) = unit(stage) {
            let bar = self.0.get_or_insert_with(|| bar(unit, total));
            bar.set_position(done as u64);
            if done == total {
                self.end();
            }
        }
        if stage == Stage::Releases && interrupt::is_asked() {
            self.end();
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

impl Bar {
    /// Removes the bar from the screen.
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

/// Ctrl-C while a run spends budget: the first one ends it after the release that is being made, a
/// second one immediately.
mod interrupt {
    use std::sync::atomic::{AtomicBool, Ordering};

    static ASKED: AtomicBool = AtomicBool::new(false);

    /// Whether the run should end.
    pub(super) fn is_asked() -> bool {
        ASKED.load(Ordering::Relaxed)
    }

    /// Installs the handler for Ctrl-C. If that fails, Ctrl-C ends the process as before.
    #[cfg(unix)]
    pub(super) fn catch() {
        use std::sync::Once;

        use signal_hook::consts::SIGINT;
        use signal_hook::iterator::Signals;

        const CODE: i32 = 130;
        static CAUGHT: Once = Once::new();
        CAUGHT.call_once(|| {
            let Ok(mut signals) = Signals::new([SIGINT]) else {
                return;
            };
            std::thread::spawn(move || {
                for _ in signals.forever() {
                    if ASKED.swap(true, Ordering::Relaxed) {
                        std::process::exit(CODE);
                    }
                    crate::screen::say(
                        "stopping after the release that is being made; press Ctrl-C again to stop immediately",
                    );
                }
            });
        });
    }

    #[cfg(not(unix))]
    pub(super) fn catch() {}
}
