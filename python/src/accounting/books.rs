//! A ledger that pays for releases of a user's own pipeline, and the certificate of what it paid
//! for.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use dp_personal::accounting::{
    Budget, Certificate, Error, Ledger, Plan, PlannedRelease, ReleaseRecord, Result,
};
use dp_personal::core::{Adjacency, DpEvent};
use dp_personal::workflows::ledger::{
    audit_current, ledger_doubts, record, refuse_leftovers, refuse_older_copy,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::{adjacency, event, raise, target, unread};
use crate::errors::Raise;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<OpenLedger>()?;
    module.add_function(wrap_pyfunction!(certificate_of, module)?)?;
    module.add_function(wrap_pyfunction!(ledger_covers, module)?)
}

/// Label, event and noise draws of a release.
type Wanted = (String, String, u64);

fn planned(py: Python<'_>, wanted: Vec<Wanted>) -> PyResult<Vec<PlannedRelease>> {
    let wanted = wanted.into_iter();
    let planned =
        wanted.map(|(label, json, n)| Ok(PlannedRelease::new(label, event(py, &json)?, n)));
    planned.collect()
}

#[pyclass(frozen, module = "dp_personal._native")]
struct OpenLedger {
    path: PathBuf,
    ledger: Mutex<Option<Ledger>>,
}

impl OpenLedger {
    /// Queries the ledger with the interpreter's lock released.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&mut Ledger) -> Result<T> + Send,
    ) -> PyResult<T> {
        let answer = py.detach(|| {
            let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            ledger.as_mut().map(question)
        });
        match answer {
            Some(answer) => raise(py, answer),
            None => Err(PyValueError::new_err("the ledger is closed")),
        }
    }
}

fn plan(ledger: &Ledger, releases: Vec<PlannedRelease>) -> Result<Plan> {
    let budget = ledger.budget();
    Plan::with_noise_multipliers(budget.target().delta, budget.adjacency(), releases)
}

#[pymethods]
impl OpenLedger {
    #[staticmethod]
    fn open(py: Python<'_>, path: &str, data_set: &str, neighbours: &str) -> PyResult<Self> {
        let adjacency = adjacency(py, neighbours)?;
        let opened = py.detach(|| Ledger::open(path, data_set, adjacency));
        let ledger = raise(py, opened)?;
        refuse_older_copy(Path::new(path), &ledger).raise(py)?;
        Ok(Self {
            path: path.into(),
            ledger: Mutex::new(Some(ledger)),
        })
    }

    /// What certificates say of a ledger that may lack payments.
    fn doubts(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.ask(py, |ledger| Ok(ledger_doubts(ledger)))
    }

    #[staticmethod]
    fn create(
        py: Python<'_>,
        path: &str,
        data_set: &str,
        total: (f64, f64),
        neighbours: &str,
        kind: &str,
    ) -> PyResult<Self> {
        let (target, adjacency) = (target(py, total.0, total.1)?, adjacency(py, neighbours)?);
        let budget = match kind {
            "gaussian" => Budget::new(target, adjacency),
            "mixed" => Budget::rdp_for(target, adjacency, &[]),
            "schedule" => Budget::schedule(target, adjacency),
            other => return unread(py, "kind", format_args!("there is no kind {other}")),
        };
        if !Path::new(path).exists() {
            refuse_leftovers(Path::new(path)).raise(py)?;
        }
        let made = budget.and_then(|budget| Ledger::create(path, data_set, budget));
        Ok(Self {
            path: path.into(),
            ledger: Mutex::new(Some(raise(py, made)?)),
        })
    }

    /// The id of each release, all paid for or none.
    fn spend(&self, py: Python<'_>, wanted: Vec<Wanted>) -> PyResult<Vec<String>> {
        let releases = planned(py, wanted)?;
        self.ask(py, |ledger| {
            let plan = plan(ledger, releases)?;
            let spends = ledger.reserve(&plan)?;
            record(&self.path, ledger);
            Ok(spends.iter().map(|s| s.release_id().to_owned()).collect())
        })
    }

    /// The cost of the releases, in the measure of the balance.
    fn cost(&self, py: Python<'_>, wanted: Vec<Wanted>) -> PyResult<f64> {
        let releases = planned(py, wanted)?;
        self.ask(py, |ledger| ledger.cost(&plan(ledger, releases)?))
    }

    /// Whether the budget has room for the releases.
    fn affords(&self, py: Python<'_>, wanted: Vec<Wanted>) -> PyResult<bool> {
        let releases = planned(py, wanted)?;
        self.ask(py, |ledger| {
            match ledger.affords(&plan(ledger, releases)?) {
                Ok(()) => Ok(true),
                Err(Error::BudgetSpent { .. } | Error::ScheduleReserved { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Measure, amount spent, budget and remaining amount.
    fn balance(&self, py: Python<'_>) -> PyResult<(String, f64, f64, f64)> {
        self.ask(py, |ledger| {
            let balance = ledger.balance();
            let measure = balance.measure.to_string();
            Ok((measure, balance.spent, balance.budget, balance.left()))
        })
    }

    /// mu of the Gaussian releases that still fit.
    fn remaining(&self, py: Python<'_>) -> PyResult<f64> {
        self.ask(py, |ledger| ledger.remaining().map(|left| left.mu))
    }

    /// Epsilon and delta of the budget, and the number of releases.
    fn budget(&self, py: Python<'_>) -> PyResult<(f64, f64, u64)> {
        self.ask(py, |ledger| {
            let target = ledger.budget().target();
            Ok((target.epsilon, target.delta, ledger.n_releases()))
        })
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            drop(ledger.take());
        });
    }
}

/// The certificate of releases that a ledger paid for: label, event, noise draws and id of each.
#[pyfunction]
fn certificate_of(
    py: Python<'_>,
    releases: Vec<(String, String, u64, String)>,
    data_set: &str,
    delta: f64,
    neighbours: &str,
    released: Vec<(String, String)>,
    assumptions: Vec<String>,
) -> PyResult<String> {
    let neighbours = adjacency(py, neighbours)?;
    let mut records = Vec::with_capacity(releases.len());
    for (label, json, n_draws, release_id) in releases {
        records.push(ReleaseRecord {
            label,
            event: event(py, &json)?,
            n_draws,
            release_id,
            entry_hash: None,
        });
    }
    let written =
        py.detach(|| written(records, data_set, delta, neighbours, released, assumptions));
    raise(py, written)
}

fn written(
    records: Vec<ReleaseRecord>,
    data_set: &str,
    delta: f64,
    neighbours: Adjacency,
    released: Vec<(String, String)>,
    assumptions: Vec<String>,
) -> Result<String> {
    let planned = |record: &ReleaseRecord| {
        let event: DpEvent = record.event.clone();
        PlannedRelease::new(record.label.clone(), event, record.n_draws)
    };
    let planned = records.iter().map(planned).collect();
    let plan = Plan::with_noise_multipliers(delta, neighbours, planned)?;
    let mut builder = Certificate::builder(&plan, data_set).releases(records);
    for (what, to) in released {
        builder = builder.released_output(what, to);
    }
    for assumption in assumptions {
        builder = builder.assumption(assumption);
    }
    Ok(builder.build()?.to_json())
}

/// Refuses a certificate with a release that the ledger did not pay for.
#[pyfunction]
fn ledger_covers(py: Python<'_>, path: &str, certificate: &str) -> PyResult<()> {
    let found = py.detach(|| audit_current(Path::new(path))).raise(py)?;
    let certificate = raise(py, Certificate::from_json(certificate))?;
    raise(py, found.covers(&certificate))
}
