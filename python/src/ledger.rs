//! Ledgers: creation and display.

use dp_personal::settings::{
    Given, LedgerAcceptRollbackSettings, LedgerCreateSettings, LedgerShowSettings,
};
use dp_personal::workflows::ledger::{accept_rollback, create, show};
use pyo3::prelude::*;

use crate::errors::Raise;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(ledger_create, module)?)?;
    module.add_function(wrap_pyfunction!(ledger_accept_rollback, module)?)?;
    module.add_function(wrap_pyfunction!(ledger_show, module)?)
}

#[pyfunction]
fn ledger_create(
    py: Python<'_>,
    path: String,
    data_set: String,
    epsilon: f64,
    delta: f64,
    kind: String,
) -> PyResult<()> {
    let given = Given::default()
        .with("file", path)
        .with("data_set", data_set)
        .with("epsilon", epsilon.to_string())
        .with("delta", delta.to_string())
        .with("kind", kind);
    let settings: LedgerCreateSettings = given.settings().raise(py)?;
    py.detach(|| create(&settings)).raise(py).map(drop)
}

#[pyfunction]
fn ledger_accept_rollback(py: Python<'_>, path: String) -> PyResult<()> {
    let given = Given::default().with("file", path);
    let settings: LedgerAcceptRollbackSettings = given.settings().raise(py)?;
    py.detach(|| accept_rollback(&settings)).raise(py).map(drop)
}

/// The ledger as JSON and as text.
#[pyfunction]
fn ledger_show(py: Python<'_>, path: String) -> PyResult<(String, String)> {
    let given = Given::default().with("file", path);
    let settings: LedgerShowSettings = given.settings().raise(py)?;
    let report = py.detach(|| show(&settings)).raise(py)?;
    Ok((report.json.to_string(), report.text))
}
