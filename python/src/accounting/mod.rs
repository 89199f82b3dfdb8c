//! What mechanisms cost. Events come as the JSON of [`DpEvent`].

mod books;
mod filters;

use std::sync::{Mutex, PoisonError};

use dp_personal::accounting::calibrate::{self, Calibrated};
use dp_personal::accounting::{
    Accountant, Error, GdpAccountant, PldAccountant, PrivacyBound, RdpAccountant, Result,
    SaddlePointAccountant, TightestAccountant, ZcdpAccountant,
};
use dp_personal::core::{Adjacency, ApproxDp, DpEvent};
use dp_personal::error::Error as FacadeError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::errors::Raise;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(account_check, module)?)?;
    module.add_function(wrap_pyfunction!(account_epsilon, module)?)?;
    module.add_function(wrap_pyfunction!(account_delta, module)?)?;
    module.add_function(wrap_pyfunction!(account_rdp, module)?)?;
    module.add_function(wrap_pyfunction!(account_mu, module)?)?;
    module.add_function(wrap_pyfunction!(account_rho, module)?)?;
    module.add_function(wrap_pyfunction!(calibrate_number, module)?)?;
    module.add_function(wrap_pyfunction!(calibrate_count, module)?)?;
    books::register(module)?;
    filters::register(module)
}

/// Value, lower end, upper end and method of an answer.
type Answer = (f64, f64, f64, &'static str);

fn answer(bound: PrivacyBound) -> Answer {
    (bound.value, bound.lower, bound.upper, bound.method.name())
}

/// The value, or the exception for an error of the accountant: one of `dp_personal.accounting.errors` where it has one.
fn raise<T>(py: Python<'_>, result: Result<T>) -> PyResult<T> {
    let error = match result {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let class = match &error {
        Error::UnsupportedEvent { .. } => "UnsupportedEvent",
        Error::NonPrivateEvent | Error::NoFiniteEpsilon { .. } | Error::NothingComposed => {
            "NoGuarantee"
        }
        Error::TargetOutOfReach { .. } => "TargetOutOfReach",
        Error::NotCertified { .. } => "NotCertified",
        _ => return Err(error).raise(py),
    };
    let module = py.import("dp_personal.accounting.errors")?;
    let class = module.getattr(class)?.cast_into::<PyType>()?;
    let raised = PyErr::from_type(class, (error.to_string(),));
    if let Error::UnsupportedEvent { event, .. } = error {
        raised.value(py).setattr("event", event)?;
    }
    Err(raised)
}

/// A text that is no event, neighbouring relation or method.
fn unread<T>(py: Python<'_>, setting: &str, why: impl std::fmt::Display) -> PyResult<T> {
    Err(FacadeError::Usage(format!("`{setting}`: {why}"))).raise(py)
}

fn event(py: Python<'_>, json: &str) -> PyResult<DpEvent> {
    match py.detach(|| serde_json::from_str(json)) {
        Ok(event) => Ok(event),
        Err(error) => unread(py, "event", error),
    }
}

fn adjacency(py: Python<'_>, name: &str) -> PyResult<Adjacency> {
    match serde_json::from_value(name.into()) {
        Ok(adjacency) => Ok(adjacency),
        Err(error) => unread(py, "adjacency", error),
    }
}

fn target(py: Python<'_>, epsilon: f64, delta: f64) -> PyResult<ApproxDp> {
    raise(py, ApproxDp::target(epsilon, delta).map_err(Error::from))
}

/// Composes an event with the accountant of that name, and asks it with the interpreter's lock released.
fn ask<T: Send>(
    py: Python<'_>,
    (json, neighbours): (&str, &str),
    (method, orders): (&str, Option<Vec<f64>>),
    question: impl FnOnce(&dyn Accountant) -> Result<T> + Send,
) -> PyResult<T> {
    let event = event(py, json)?;
    let adjacency = adjacency(py, neighbours)?;
    let mut accountant: Box<dyn Accountant + Send> = match (method, orders) {
        ("tightest", None) => Box::new(TightestAccountant::new(adjacency)),
        ("gdp", None) => Box::new(GdpAccountant::new(adjacency)),
        ("saddle-point", None) => Box::new(SaddlePointAccountant::new(adjacency)),
        ("pld", None) => Box::new(PldAccountant::new(adjacency)),
        ("zcdp", None) => Box::new(ZcdpAccountant::new(adjacency)),
        ("rdp", None) => Box::new(RdpAccountant::new(adjacency)),
        ("rdp", Some(orders)) => {
            Box::new(raise(py, RdpAccountant::with_orders(adjacency, orders))?)
        }
        (_, Some(_)) => return unread(py, "orders", "only method rdp has orders"),
        (other, None) => return unread(py, "method", format_args!("there is no method {other}")),
    };
    let answered = py.detach(|| {
        accountant.compose(&event, 1)?;
        question(&*accountant)
    });
    raise(py, answered)
}

/// Refuses what the accountant cannot count.
#[pyfunction]
fn account_check(
    py: Python<'_>,
    event: &str,
    adjacency: &str,
    method: &str,
    orders: Option<Vec<f64>>,
) -> PyResult<()> {
    ask(py, (event, adjacency), (method, orders), |_| Ok(()))
}

#[pyfunction]
fn account_epsilon(
    py: Python<'_>,
    event: &str,
    delta: f64,
    adjacency: &str,
    method: &str,
    orders: Option<Vec<f64>>,
) -> PyResult<Answer> {
    ask(py, (event, adjacency), (method, orders), |accountant| {
        accountant.epsilon(delta).map(answer)
    })
}

#[pyfunction]
fn account_delta(
    py: Python<'_>,
    event: &str,
    epsilon: f64,
    adjacency: &str,
    method: &str,
    orders: Option<Vec<f64>>,
) -> PyResult<Answer> {
    ask(py, (event, adjacency), (method, orders), |accountant| {
        accountant.delta(epsilon).map(answer)
    })
}

/// Renyi divergence of one order.
#[pyfunction]
fn account_rdp(py: Python<'_>, event: &str, order: f64, adjacency: &str) -> PyResult<Answer> {
    let (event, neighbours) = (self::event(py, event)?, self::adjacency(py, adjacency)?);
    let mut accountant = RdpAccountant::new(neighbours);
    let answered = py.detach(|| {
        accountant.compose(&event, 1)?;
        accountant.rdp(order).map(answer)
    });
    raise(py, answered)
}

/// mu of Gaussian mechanisms.
#[pyfunction]
fn account_mu(py: Python<'_>, event: &str, adjacency: &str) -> PyResult<f64> {
    let mut accountant = GdpAccountant::new(self::adjacency(py, adjacency)?);
    raise(py, accountant.compose(&self::event(py, event)?, 1))?;
    Ok(accountant.gdp().mu)
}

/// rho of mechanisms that are concentrated.
#[pyfunction]
fn account_rho(py: Python<'_>, event: &str, adjacency: &str) -> PyResult<f64> {
    let mut accountant = ZcdpAccountant::new(self::adjacency(py, adjacency)?);
    raise(py, accountant.compose(&self::event(py, event)?, 1))?;
    Ok(accountant.rho())
}

/// The events of a calibration: a function of Python, and the first exception that it raised.
struct Events {
    function: Py<PyAny>,
    failed: Mutex<Option<PyErr>>,
}

impl Events {
    const fn new(function: Py<PyAny>) -> Self {
        Self {
            function,
            failed: Mutex::new(None),
        }
    }

    /// The event at `x`. After an exception nothing meets the target, which ends the search.
    fn at<T: for<'py> IntoPyObject<'py>>(&self, x: T) -> DpEvent {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_some() {
            return DpEvent::NonPrivate;
        }
        let made = Python::attach(|py| {
            let json: String = self.function.call1(py, (x,))?.extract(py)?;
            event(py, &json)
        });
        made.unwrap_or_else(|error| {
            *failed = Some(error);
            DpEvent::NonPrivate
        })
    }

    fn outcome<T>(self, py: Python<'_>, found: Result<Calibrated<T>>) -> PyResult<(T, Answer)> {
        let failed = self.failed.into_inner();
        if let Some(error) = failed.unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        raise(py, found).map(|found| (found.value, answer(found.bound)))
    }
}

/// The parameter that just meets a target: a noise multiplier, a sampling probability, or the smallest or largest number of a range.
#[pyfunction]
fn calibrate_number(
    py: Python<'_>,
    events: Py<PyAny>,
    aim: (f64, f64),
    adjacency: &str,
    what: &str,
    range: (f64, f64),
) -> PyResult<(f64, Answer)> {
    let (target, adjacency) = (target(py, aim.0, aim.1)?, self::adjacency(py, adjacency)?);
    let events = Events::new(events);
    let at = |x: f64| events.at(x);
    let found = py.detach(|| match what {
        "noise-multiplier" => calibrate::noise(target, adjacency, at),
        "sampling-probability" => calibrate::sampling_probability(target, adjacency, at),
        "smallest" => calibrate::smallest(target, adjacency, range, at),
        _ => calibrate::largest(target, adjacency, range, at),
    });
    events.outcome(py, found)
}

/// The largest count that meets a target.
#[pyfunction]
fn calibrate_count(
    py: Python<'_>,
    events: Py<PyAny>,
    aim: (f64, f64),
    adjacency: &str,
) -> PyResult<(u64, Answer)> {
    let (target, adjacency) = (target(py, aim.0, aim.1)?, self::adjacency(py, adjacency)?);
    let events = Events::new(events);
    let found = py.detach(|| calibrate::count(target, adjacency, |n: u64| events.at(n)));
    events.outcome(py, found)
}
