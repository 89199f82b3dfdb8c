//! Nightly runs: creation, release, status and publication.

use dp_personal::settings::{
    NightlyEraseSettings, NightlyPublishSettings, NightlyRunRowsSettings, NightlyRunSettings,
    NightlyStatusSettings,
};
use dp_personal::workflows::nightly::{
    NightlyReport, erase, init, init_rows, publish, run as night, run_rows, status,
};
use pyo3::prelude::*;

use crate::errors::Raise;
use crate::run::{Listener, run};
use crate::settings::{Given, given};
use crate::tables::AnyTable;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(nightly_init, module)?)?;
    module.add_function(wrap_pyfunction!(nightly_run, module)?)?;
    module.add_function(wrap_pyfunction!(nightly_init_rows, module)?)?;
    module.add_function(wrap_pyfunction!(nightly_run_rows, module)?)?;
    module.add_function(wrap_pyfunction!(nightly_status, module)?)?;
    module.add_function(wrap_pyfunction!(nightly_erase, module)?)?;
    module.add_function(wrap_pyfunction!(nightly_publish, module)?)
}

/// The report as JSON and as text.
fn told(report: NightlyReport) -> (String, String) {
    (report.json.to_string(), report.text)
}

#[pyfunction]
fn nightly_init(py: Python<'_>, settings: Given) -> PyResult<(String, String)> {
    let settings = given(settings).settings().raise(py)?;
    py.detach(|| init(&settings)).raise(py).map(told)
}

#[pyfunction]
fn nightly_run(
    py: Python<'_>,
    settings: Given,
    ratings: AnyTable<'_>,
    listener: Listener<'_>,
) -> PyResult<(String, String)> {
    let mut settings: NightlyRunSettings = given(settings).settings().raise(py)?;
    settings.ratings = ratings.source();
    run(py, &listener, |watch| night(&settings, watch)).map(told)
}

#[pyfunction]
fn nightly_init_rows(py: Python<'_>, settings: Given) -> PyResult<(String, String)> {
    let settings = given(settings).settings().raise(py)?;
    py.detach(|| init_rows(&settings)).raise(py).map(told)
}

#[pyfunction]
fn nightly_run_rows(
    py: Python<'_>,
    settings: Given,
    rows: AnyTable<'_>,
    listener: Listener<'_>,
) -> PyResult<(String, String)> {
    let mut settings: NightlyRunRowsSettings = given(settings).settings().raise(py)?;
    settings.rows = rows.source();
    run(py, &listener, |watch| run_rows(&settings, watch)).map(told)
}

#[pyfunction]
fn nightly_status(py: Python<'_>, settings: Given) -> PyResult<(String, String)> {
    let settings: NightlyStatusSettings = given(settings).settings().raise(py)?;
    py.detach(|| status(&settings)).raise(py).map(told)
}

#[pyfunction]
fn nightly_erase(py: Python<'_>, settings: Given) -> PyResult<(String, String)> {
    let settings: NightlyEraseSettings = given(settings).settings().raise(py)?;
    py.detach(|| erase(&settings)).raise(py).map(told)
}

#[pyfunction]
fn nightly_publish(py: Python<'_>, settings: Given) -> PyResult<()> {
    let settings: NightlyPublishSettings = given(settings).settings().raise(py)?;
    py.detach(|| publish(&settings)).raise(py).map(drop)
}
