//! Budgets for mechanisms that are chosen one after the other.

use std::sync::{Mutex, MutexGuard, PoisonError};

use dp_personal::accounting as accountant;
use dp_personal::core::{Gdp, Private};
use pyo3::prelude::*;

use super::{adjacency, event, raise, target};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<GaussianFilter>()?;
    module.add_class::<RdpFilter>()?;
    module.add_class::<IndividualGaussianFilter>()?;
    module.add_class::<Odometer>()
}

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pyclass(frozen, module = "dp_personal._native")]
struct GaussianFilter(Mutex<accountant::GaussianFilter>);

#[pymethods]
impl GaussianFilter {
    #[new]
    fn new(py: Python<'_>, epsilon: f64, delta: f64, neighbours: &str) -> PyResult<Self> {
        let (target, adjacency) = (target(py, epsilon, delta)?, adjacency(py, neighbours)?);
        let filter = accountant::GaussianFilter::new(target, adjacency);
        Ok(Self(Mutex::new(raise(py, filter)?)))
    }

    fn spend(&self, py: Python<'_>, json: &str) -> PyResult<()> {
        let event = event(py, json)?;
        let outcome = py.detach(|| locked(&self.0).spend(&event));
        raise(py, outcome)
    }

    fn spent(&self) -> f64 {
        locked(&self.0).spent().mu
    }

    fn remaining(&self) -> f64 {
        locked(&self.0).remaining().mu
    }
}

#[pyclass(frozen, module = "dp_personal._native")]
struct RdpFilter(Mutex<accountant::RdpFilter>);

#[pymethods]
impl RdpFilter {
    #[staticmethod]
    fn over_orders(
        py: Python<'_>,
        epsilon: f64,
        delta: f64,
        neighbours: &str,
        orders: Vec<f64>,
    ) -> PyResult<Self> {
        let (target, adjacency) = (target(py, epsilon, delta)?, adjacency(py, neighbours)?);
        let filter = accountant::RdpFilter::over_orders(target, adjacency, &orders);
        Ok(Self(Mutex::new(raise(py, filter)?)))
    }

    #[staticmethod]
    fn for_schedule(
        py: Python<'_>,
        epsilon: f64,
        delta: f64,
        neighbours: &str,
        schedule: Vec<(String, u64)>,
    ) -> PyResult<Self> {
        let (target, adjacency) = (target(py, epsilon, delta)?, adjacency(py, neighbours)?);
        let schedule = schedule
            .iter()
            .map(|(json, count)| Ok((event(py, json)?, *count)))
            .collect::<PyResult<Vec<_>>>()?;
        let filter =
            py.detach(|| accountant::RdpFilter::for_schedule(target, adjacency, &schedule));
        Ok(Self(Mutex::new(raise(py, filter)?)))
    }

    fn spend(&self, py: Python<'_>, json: &str) -> PyResult<()> {
        let event = event(py, json)?;
        let outcome = py.detach(|| locked(&self.0).spend(&event));
        raise(py, outcome)
    }

    /// Order, spent and budget of each order.
    fn balances(&self) -> Vec<(f64, f64, f64)> {
        let balances = locked(&self.0).balances();
        let balances = balances.into_iter();
        balances.map(|b| (b.order, b.spent, b.budget)).collect()
    }
}

#[pyclass(frozen, module = "dp_personal._native")]
struct IndividualGaussianFilter(Mutex<accountant::IndividualGaussianFilter>);

#[pymethods]
impl IndividualGaussianFilter {
    #[new]
    fn new(
        py: Python<'_>,
        epsilon: f64,
        delta: f64,
        neighbours: &str,
        n_units: usize,
    ) -> PyResult<Self> {
        let (target, adjacency) = (target(py, epsilon, delta)?, adjacency(py, neighbours)?);
        let filter = accountant::IndividualGaussianFilter::new(target, adjacency, n_units);
        Ok(Self(Mutex::new(raise(py, filter)?)))
    }

    fn admit_all(&self, py: Python<'_>, mu: Vec<f64>) -> Vec<bool> {
        py.detach(|| {
            let admitted = locked(&self.0).admit_all(&Private::new(mu));
            admitted.into_exposed()
        })
    }
}

#[pyclass(frozen, module = "dp_personal._native")]
struct Odometer(Mutex<accountant::Odometer>);

#[pymethods]
impl Odometer {
    #[new]
    fn new(
        py: Python<'_>,
        delta: f64,
        neighbours: &str,
        mu: f64,
        growth: Option<f64>,
    ) -> PyResult<Self> {
        let mut made = accountant::Odometer::new(delta, adjacency(py, neighbours)?, Gdp { mu });
        if let Some(growth) = growth {
            made = made.and_then(|odometer| odometer.with_growth(growth));
        }
        Ok(Self(Mutex::new(raise(py, made)?)))
    }

    fn compose(&self, py: Python<'_>, json: &str, count: u64) -> PyResult<()> {
        let outcome = locked(&self.0).compose(&event(py, json)?, count);
        raise(py, outcome)
    }

    fn epsilon(&self, py: Python<'_>) -> PyResult<f64> {
        let reading = locked(&self.0).reading();
        raise(py, reading).map(|guarantee| guarantee.epsilon)
    }

    fn spent(&self) -> f64 {
        locked(&self.0).spent().mu
    }
}
