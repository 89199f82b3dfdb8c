//! What mechanisms cost.

use dp_personal::accounting::{Error, gdp};
use dp_personal::core::params;
use pyo3::prelude::*;

use crate::errors::Raise;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(gaussian_epsilon, module)?)
}

#[pyfunction]
fn gaussian_epsilon(
    py: Python<'_>,
    noise_multiplier: f64,
    delta: f64,
    releases: u32,
) -> PyResult<f64> {
    let checked = || {
        let z = params::finite_positive("noise_multiplier", noise_multiplier)?;
        Ok::<_, Error>((z, params::open_unit("delta", delta)?))
    };
    let (z, delta) = checked().raise(py)?;
    Ok(py.detach(|| gdp::epsilon(f64::from(releases).sqrt() / z, delta)))
}
