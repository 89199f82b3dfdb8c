//! The compiled part of the Python package `dp-personal`: it passes values to a workflow of the
//! facade and returns values. It has no logic of its own; its public interface is in the package's
//! Python modules.

mod accounting;
mod devices;
mod errors;
mod ledger;
mod linear;
mod nightly;
mod recommender;
mod run;
mod settings;
mod shares;
mod tables;
mod workers;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    accounting::register(module)?;
    devices::register(module)?;
    ledger::register(module)?;
    nightly::register(module)?;
    linear::register(module)?;
    recommender::register(module)?;
    settings::register(module)?;
    shares::register(module)?;
    tables::register(module)?;
    workers::register(module)
}
