//! Runs a workflow with the interpreter's lock released, with its progress, its log and Ctrl-C.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dp_personal::error::{Error, Result};
use dp_personal::watch::{Progress, Stage, Watch};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::errors::Raise;

/// How often Ctrl-C is checked.
const SIGNALS: Duration = Duration::from_millis(50);

/// Receives the progress and the log of a workflow.
#[derive(FromPyObject)]
pub(crate) struct Listener<'py> {
    /// Called with the number of releases made and the total.
    progress: Option<Bound<'py, PyAny>>,
    /// Called with a level of Python's `logging` and a text.
    log: Bound<'py, PyAny>,
}

/// Messages of a workflow.
enum Message {
    /// How many releases have been made, if these are the steps; the answer is whether to continue.
    Progress(Option<Progress>, SyncSender<ControlFlow<()>>),
    Log(Level, String),
}

/// Runs a workflow on separate threads. Ctrl-C and an exception of the listener end it before its
/// next release.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    listener: &Listener<'_>,
    workflow: impl FnOnce(&mut dyn Watch) -> Result<T> + Send,
) -> PyResult<T> {
    let pool = pool()?;
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let mut stopped: Option<PyErr> = None;
    let outcome = std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let log = tracing::Dispatch::new(Log(Mutex::new(sender.clone())));
            let mut told = Told(sender);
            pool.install(|| tracing::dispatcher::with_default(&log, || workflow(&mut told)))
        });
        loop {
            let next = || {
                let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
                receiver.recv_timeout(SIGNALS)
            };
            match py.detach(next) {
                Ok(Message::Log(level, text)) => {
                    if let Err(error) = listener.log.call1((number_of(level), text)) {
                        stopped.get_or_insert(error);
                    }
                }
                Ok(Message::Progress(at, answer)) => {
                    if stopped.is_none()
                        && let Some(at) = at
                        && let Some(progress) = &listener.progress
                        && let Err(error) = progress.call1((at.done, at.total))
                    {
                        stopped = Some(error);
                    }
                    let go_on = match stopped {
                        None => ControlFlow::Continue(()),
                        Some(_) => ControlFlow::Break(()),
                    };
                    // a workflow that is no longer waiting has ended, which the next message
                    // reports
                    answer.send(go_on).ok();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break py.detach(|| worker.join()),
            }
            if let Err(error) = py.check_signals() {
                stopped.get_or_insert(error);
            }
        }
    });
    let outcome =
        outcome.map_err(|_| PyRuntimeError::new_err("the run panicked: this is a bug"))?;
    match (outcome, stopped) {
        (Err(error), Some(stopped)) if is_cancelled(&error) => {
            // the amount paid, for readers of the traceback; Python 3.10 has no notes
            let note = error.to_string();
            drop(stopped.value(py).call_method1("add_note", (note,)));
            Err(stopped)
        }
        (outcome, _) => outcome.raise(py),
    }
}

/// Computes on a separate thread while this one checks for signals. Ctrl-C ends the call
/// immediately; the computation runs to its end, its result is discarded, and it holds nothing that
/// another thread waits for.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    compute: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = sync_channel(1);
    let receiver = Mutex::new(receiver);
    let worker = std::thread::Builder::new()
        .spawn(move || drop(sender.send(compute())))
        .map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    loop {
        let next = || {
            let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
            receiver.recv_timeout(SIGNALS)
        };
        match py.detach(next) {
            Ok(computed) => return Ok(computed),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                drop(worker.join());
                return Err(PyRuntimeError::new_err(
                    "the computation panicked: this is a bug",
                ));
            }
        }
    }
}

fn is_cancelled(error: &Error) -> bool {
    match error {
        Error::Cancelled => true,
        Error::AfterPayment { error, .. } | Error::Unmeasured { error, .. } => is_cancelled(error),
        _ => false,
    }
}

/// The threads of this process: a forked process has none of its parent's.
pub(crate) fn pool() -> PyResult<Arc<ThreadPool>> {
    static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((of, pool)) = &*pool
        && *of == process
    {
        return Ok(Arc::clone(pool));
    }
    let made = ThreadPoolBuilder::new().build();
    let made = Arc::new(made.map_err(|e| PyRuntimeError::new_err(e.to_string()))?);
    if let Some((_, parents)) = pool.replace((process, Arc::clone(&made))) {
        std::mem::forget(parents); // its threads do not exist in this process
    }
    Ok(made)
}

/// Reports the progress of a run, and waits for the answer.
struct Told(Sender<Message>);

impl Watch for Told {
    fn progress(&mut self, stage: Stage, at: Progress) -> ControlFlow<()> {
        let at = (stage == Stage::Releases).then_some(at);
        let (answer, answered) = sync_channel(1);
        let told = self.0.send(Message::Progress(at, answer));
        if told.is_err() {
            return ControlFlow::Break(());
        }
        answered.recv().unwrap_or(ControlFlow::Break(()))
    }
}

/// A level as a number of Python's `logging`.
const fn number_of(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG | Level::TRACE => 10,
    }
}

/// Events of the facade, as messages.
struct Log(Mutex<Sender<Message>>);

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && metadata.target().starts_with("dp_")
            && *metadata.level() <= Level::DEBUG
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(sender.send(Message::Log(*event.metadata().level(), text.0)));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The message of an event, and its fields after it.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.0.insert_str(0, &format!("{value:?}")),
            name => self.0.extend([" ", name, "=", &format!("{value:?}")]),
        }
    }
}
