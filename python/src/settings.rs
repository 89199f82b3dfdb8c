//! Settings as names and values, and plans as JSON.

use std::path::{Path, PathBuf};

use dp_personal::accounting::{Certificate, Plan, PrivacyStatement};
use dp_personal::error::{Error, Result};
use dp_personal::settings::{
    EvidenceSettings, Given as Settings, ReportSettings, Settings as FromSettings, SynthSettings,
    VerifySettings,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::errors::Raise;
use crate::tables::AnyTable;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(certificate_statement, module)?)?;
    module.add_function(wrap_pyfunction!(certificate_verify, module)?)?;
    module.add_function(wrap_pyfunction!(synth, module)?)?;
    module.add_function(wrap_pyfunction!(evidence, module)?)?;
    module.add_function(wrap_pyfunction!(verify, module)?)?;
    module.add_function(wrap_pyfunction!(report, module)?)
}

/// Names and values; a list has one entry per element.
pub(crate) type Given = Vec<(String, String)>;

pub(crate) fn given(settings: Given) -> Settings {
    let settings = settings.into_iter();
    settings.fold(Settings::default(), |all, (name, value)| {
        all.with(&name, value)
    })
}

/// The releases of a plan with their noise, and the guarantee of the whole.
fn plan_json(plan: &Plan) -> String {
    let releases = plan.releases().iter().map(|release| {
        json!({
            "label": release.label(),
            "mechanism": release.event(),
            "noise_multiplier": release.noise_multiplier().ok(),
        })
    });
    json!({
        "target": plan.target(),
        "guarantee": plan.guarantee(),
        "adjacency": plan.adjacency(),
        "releases": releases.collect::<Vec<_>>(),
    })
    .to_string()
}

/// The plan of a run as JSON: what will be released, before any data are read.
pub(crate) fn planned<S: FromSettings + Sync>(
    py: Python<'_>,
    settings: Given,
    plan: impl FnOnce(&S) -> Result<Plan> + Send,
) -> PyResult<String> {
    let settings: S = given(settings).settings().raise(py)?;
    let plan = py.detach(|| plan(&settings)).raise(py)?;
    Ok(plan_json(&plan))
}

/// Released numbers in place, for numpy: an array created from the owner of this interface keeps it
/// alive and is read-only.
pub(crate) fn matrix_interface<'py>(
    py: Python<'py>,
    numbers: &[f64],
    shape: (usize, usize),
) -> PyResult<Bound<'py, PyDict>> {
    let interface = PyDict::new(py);
    let kind = if cfg!(target_endian = "little") {
        "<f8"
    } else {
        ">f8"
    };
    interface.set_item("version", 3)?;
    interface.set_item("shape", shape)?;
    interface.set_item("typestr", kind)?;
    interface.set_item("data", (numbers.as_ptr().addr(), true))?;
    Ok(interface)
}

/// Checks a model folder as `dp verify` does. A model without noise, or with seeded noise, is not
/// an error.
#[pyfunction]
fn verify(py: Python<'_>, folder: String) -> PyResult<()> {
    let settings: VerifySettings = Settings::default()
        .with("certificate", folder)
        .settings()
        .raise(py)?;
    let verified = py.detach(|| dp_personal::workflows::verify::verify(&settings));
    verified.raise(py).map(drop)
}

/// Writes the page about the model of a folder next to that folder.
#[pyfunction]
fn report(py: Python<'_>, folder: String) -> PyResult<String> {
    let page = Path::new(&folder).join("report.html");
    let settings: ReportSettings = Settings::default()
        .with("folders", folder)
        .settings()
        .raise(py)?;
    py.detach(|| dp_personal::workflows::report::report(&settings))
        .raise(py)?;
    let read = std::fs::read_to_string(&page);
    read.map_err(|e| Error::read(&page, e)).raise(py)
}

/// Generated data as csv files; returns their names.
#[pyfunction]
fn synth(py: Python<'_>, settings: Given) -> PyResult<Vec<PathBuf>> {
    let settings: SynthSettings = given(settings).settings().raise(py)?;
    let made = py.detach(|| dp_personal::workflows::synth::synth(&settings));
    Ok(made.raise(py)?.into_iter().map(|file| file.path).collect())
}

/// A table of item information from public ratings; returns its name.
#[pyfunction]
fn evidence(py: Python<'_>, settings: Given, ratings: AnyTable<'_>) -> PyResult<PathBuf> {
    let mut settings: EvidenceSettings = given(settings).settings().raise(py)?;
    settings.ratings = ratings.source();
    let made = py.detach(|| dp_personal::workflows::evidence::evidence(&settings));
    Ok(made.raise(py)?.path)
}

/// The statement of a certificate to the people it is about, after its values were recomputed.
#[pyfunction]
fn certificate_statement(py: Python<'_>, json: &str) -> PyResult<String> {
    let statement =
        py.detach(|| Certificate::from_json(json).and_then(|of| PrivacyStatement::of(&of)));
    let broken = |source| Error::Certificate {
        path: "certificate".into(),
        source,
    };
    let statement = statement.map_err(broken).raise(py)?;
    let words = json!({
        "fields": statement,
        "epsilons": statement.epsilons(),
        "method": statement.method_line(),
        "meaning": statement.meaning(),
        "tuning": statement.tuning_line(),
    });
    Ok(words.to_string())
}

/// Recomputes the values of a certificate from its releases.
#[pyfunction]
fn certificate_verify(py: Python<'_>, json: &str) -> PyResult<()> {
    let verified = py.detach(|| Certificate::from_json(json).and_then(|of| of.verify()));
    let broken = |source| Error::Certificate {
        path: "certificate".into(),
        source,
    };
    verified.map_err(broken).raise(py).map(drop)
}
