//! Users in other processes: the coordinator of a run over tasks, one task's answer, and a client's
//! policy record.

use std::sync::{Arc, Mutex, PoisonError};

use dp_personal::data::TableSource;
use dp_personal::error::Error;
use dp_personal::mechanism::{AskedRound, ClientPolicy, ClientRecord, KnownRun, Refusal};
use dp_personal::settings::{FederateSettings, ItemsSettings, PersonalizeSettings, TrainSettings};
use dp_personal::watch::{Silent, Watch};
use dp_personal::workers::{Dealing, LinkError, Place, Tasks, answer};
use dp_personal::workflows::federate::{FederateOutcome, federate_at};
use dp_personal::workflows::items::learn_items;
use dp_personal::workflows::personalize::personalize_at;
use dp_personal::workflows::train::train_at;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::errors::Raise;
use crate::run::{Listener, pool, run};
use crate::settings::{Given, given};
use crate::tables::AnyTable;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Record>()?;
    module.add_function(wrap_pyfunction!(drive, module)?)?;
    module.add_function(wrap_pyfunction!(answer_of, module)?)
}

const fn dealing(in_silos: bool) -> Dealing {
    match in_silos {
        true => Dealing::Silos,
        false => Dealing::ById,
    }
}

/// The exception with which an engine ended a run, if it did.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// The outcome of a run, or the exception with which an engine ended it.
pub(crate) fn ended<T>(py: Python<'_>, outcome: PyResult<T>, raised: &Raised) -> PyResult<T> {
    let mut raised = raised.lock().unwrap_or_else(PoisonError::into_inner);
    match (outcome, raised.take()) {
        (Err(told), Some(raised)) => {
            // the amount paid, for readers of the traceback; Python 3.10 has no notes
            let note = told.value(py).to_string();
            drop(raised.value(py).call_method1("add_note", (note,)));
            Err(raised)
        }
        (outcome, _) => outcome,
    }
}

/// Runs a command in the given role, on a table; returns the summary as text.
pub(crate) fn run_at(
    command: &str,
    settings: Given,
    table: TableSource,
    watch: &mut dyn Watch,
    place: Place<'_>,
) -> Result<String, Error> {
    let settings = given(settings);
    match command {
        "train" => {
            let mut settings: TrainSettings = settings.settings()?;
            settings.ratings = table;
            Ok(train_at(&settings, watch, place)?.summary)
        }
        "personalize" => {
            let mut settings: PersonalizeSettings = settings.settings()?;
            settings.run.data = table;
            Ok(personalize_at(&settings, watch, place)?.summary)
        }
        "federate" => {
            let mut settings: FederateSettings = settings.settings()?;
            settings.data = table;
            Ok(match federate_at(&settings, watch, place)? {
                FederateOutcome::Certified(outcome) => outcome.summary,
                FederateOutcome::Exploration(outcome) => outcome.summary,
            })
        }
        "items" => {
            let mut settings: ItemsSettings = settings.settings()?;
            settings.data = table;
            Ok(learn_items(&settings, watch, place)?.summary)
        }
        other => Err(Error::Usage(format!("`{other}` does not run in tasks"))),
    }
}

/// Trains on the users of `n_shards` tasks and writes the release folder; returns the summary as
/// text. `tasks` is called with all messages so far and the shards that answer the last one, and
/// returns shards and answers.
#[pyfunction]
fn drive(
    py: Python<'_>,
    command: &str,
    settings: Given,
    empty: AnyTable<'_>,
    listener: Listener<'_>,
    shards: (usize, bool),
    tasks: Py<PyAny>,
) -> PyResult<String> {
    let ((n_shards, in_silos), empty) = (shards, empty.source());
    let raised = Raised::default();
    let tasks = Tasks::new(n_shards, |messages, shards| {
        Python::attach(|py| {
            let said = messages.iter().map(|message| PyBytes::new(py, message));
            let said: Vec<_> = said.collect();
            let shards: Vec<usize> = shards.iter().copied().collect();
            let answers = tasks.call1(py, (said, shards));
            answers.and_then(|answers| answers.extract(py))
        })
        .map_err(|error: PyErr| {
            *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            LinkError::Link {
                what: "the engine ended the run",
            }
        })
    });
    let outcome = run(py, &listener, |watch| {
        let place = Place::Driver(&tasks, dealing(in_silos));
        run_at(command, settings, empty, watch, place)
    });
    drop(tasks);
    ended(py, outcome, &raised)
}

/// The answer of one shard to the last of these messages; the table contains that shard's users
/// only.
#[pyfunction]
fn answer_of<'py>(
    py: Python<'py>,
    command: &str,
    settings: Given,
    users: AnyTable<'py>,
    shard: (usize, usize, bool),
    messages: Vec<PyBackedBytes>,
) -> PyResult<Bound<'py, PyBytes>> {
    let ((shard, n_shards, in_silos), users) = (shard, users.source());
    let pool = pool()?;
    let work = || {
        pool.install(|| {
            answer((shard, n_shards, dealing(in_silos)), &messages, |place| {
                run_at(command, settings, users, &mut Silent, place)
            })
        })
    };
    Ok(PyBytes::new(py, &py.detach(work).raise(py)?))
}

/// A client's durable record of the runs that it took part in, under its policy.
#[pyclass(module = "dp_personal._native")]
struct Record(ClientRecord);

#[pymethods]
impl Record {
    /// Opens the record in a file; creates it if there is none and `is_new` is set.
    #[staticmethod]
    fn open(py: Python<'_>, path: &str, policy: &str, is_new: bool) -> PyResult<Self> {
        let policy: ClientPolicy =
            serde_json::from_str(policy).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let record = match is_new {
            true => ClientRecord::create(path, policy),
            false => ClientRecord::open(path, policy),
        };
        record.map_err(Error::Releases).raise(py).map(Self)
    }

    /// Agrees durably to a run with all its releases; does nothing if that was done before. A run
    /// that was left for another cannot be joined again.
    fn join(&mut self, py: Python<'_>, run: &str, noise_multipliers: Vec<f64>) -> PyResult<()> {
        let round = AskedRound {
            run,
            number: 1,
            noise_multipliers: &noise_multipliers,
            clip_norm: 1.0, // bounds are settings of the run, and its noise is relative to them
        };
        let known = self.0.enter(&round);
        let joined = known.and_then(|known| match (known, self.0.last_answered(run)) {
            (KnownRun::Left, _) => Err(LinkError::Refused(Refusal::Answered)),
            (KnownRun::New | KnownRun::Current, 0) => self.0.answer(&round),
            (KnownRun::New | KnownRun::Current, _) => Ok(()),
        });
        joined.map_err(Error::Releases).raise(py)
    }
}
