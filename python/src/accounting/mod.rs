//! Privacy cost of mechanisms. Events are passed as the JSON of [`DpEvent`].

mod books;
mod filters;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dp_personal::accounting::calibrate::{self, Calibrated};
use dp_personal::accounting::{
    Accountant, Error, GdpAccountant, PldAccountant, PrivacyBound, RdpAccountant, Result,
    SaddlePointAccountant, TightestAccountant, ZcdpAccountant, trade_off,
};
use dp_personal::core::{Adjacency, ApproxDp, DpEvent};
use dp_personal::error::Error as FacadeError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::errors::Raise;
use crate::run::interruptible;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(account_check, module)?)?;
    module.add_function(wrap_pyfunction!(account_answer, module)?)?;
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

/// The value, or the exception for an error of the accountant; accountant errors have their own
/// exception classes.
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
    let module = py.import("dp_personal.errors")?;
    let class = module.getattr(class)?.cast_into::<PyType>()?;
    let raised = PyErr::from_type(class, (error.to_string(),));
    if let Error::UnsupportedEvent { event, .. } = error {
        raised.value(py).setattr("event", event)?;
    }
    Err(raised)
}

/// The exception for a text that is not an event, a neighbouring relation or a method.
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

/// The accountant of a method.
fn accountant(
    py: Python<'_>,
    adjacency: Adjacency,
    (method, orders): (&str, Option<Vec<f64>>),
) -> PyResult<Box<dyn Accountant + Send>> {
    Ok(match (method, orders) {
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
    })
}

/// Composes an event with the accountant of that name, and queries it with the interpreter's lock
/// released. Ctrl-C ends the call, except if the answer is a closed form, which is available before
/// a thread could start.
fn ask<T: Send + 'static>(
    py: Python<'_>,
    (json, neighbours): (&str, &str),
    (method, orders): (&str, Option<Vec<f64>>),
    question: impl FnOnce(&dyn Accountant) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let (event, adjacency) = (event(py, json)?, adjacency(py, neighbours)?);
    let is_closed_form = matches!(method, "tightest" | "gdp" | "zcdp")
        && GdpAccountant::new(adjacency).compose(&event, 1).is_ok();
    let mut accountant = accountant(py, adjacency, (method, orders))?;
    let answer = move || {
        accountant.compose(&event, 1)?;
        question(&*accountant)
    };
    let answered = match is_closed_form {
        true => py.detach(answer),
        false => interruptible(py, answer)?,
    };
    raise(py, answered)
}

/// Refuses an event that the accountant cannot count.
#[pyfunction]
fn account_check(
    py: Python<'_>,
    event: &str,
    adjacency: &str,
    method: &str,
    orders: Option<Vec<f64>>,
) -> PyResult<()> {
    let (event, adjacency) = (self::event(py, event)?, self::adjacency(py, adjacency)?);
    let mut accountant = accountant(py, adjacency, (method, orders))?;
    raise(py, py.detach(|| accountant.compose(&event, 1)))
}

/// Epsilon at a delta, delta at an epsilon, or the trade-off function at a type I error. For the
/// trade-off function the value is the lower end.
#[pyfunction]
fn account_answer(
    py: Python<'_>,
    event: &str,
    question: (&str, f64),
    adjacency: &str,
    method: &str,
    orders: Option<Vec<f64>>,
) -> PyResult<Answer> {
    let (name, at) = question;
    let asked: fn(&dyn Accountant, f64) -> Result<Answer> = match name {
        "epsilon" => |accountant, delta| accountant.epsilon(delta).map(answer),
        "delta" => |accountant, epsilon| accountant.delta(epsilon).map(answer),
        _ => |accountant, alpha| {
            let found = trade_off(accountant, alpha)?;
            Ok((found.lower, found.lower, found.upper, found.method.name()))
        },
    };
    ask(
        py,
        (event, adjacency),
        (method, orders),
        move |accountant| asked(accountant, at),
    )
}

/// Renyi divergence of one order.
#[pyfunction]
fn account_rdp(py: Python<'_>, event: &str, order: f64, adjacency: &str) -> PyResult<Answer> {
    let (event, neighbours) = (self::event(py, event)?, self::adjacency(py, adjacency)?);
    let mut accountant = RdpAccountant::new(neighbours);
    let answered = interruptible(py, move || {
        accountant.compose(&event, 1)?;
        accountant.rdp(order).map(answer)
    })?;
    raise(py, answered)
}

/// mu of Gaussian mechanisms.
#[pyfunction]
fn account_mu(py: Python<'_>, event: &str, adjacency: &str) -> PyResult<f64> {
    let mut accountant = GdpAccountant::new(self::adjacency(py, adjacency)?);
    raise(py, accountant.compose(&self::event(py, event)?, 1))?;
    Ok(accountant.gdp().mu)
}

/// rho of mechanisms that satisfy zCDP.
#[pyfunction]
fn account_rho(py: Python<'_>, event: &str, adjacency: &str) -> PyResult<f64> {
    let mut accountant = ZcdpAccountant::new(self::adjacency(py, adjacency)?);
    raise(py, accountant.compose(&self::event(py, event)?, 1))?;
    Ok(accountant.rho())
}

/// The events of a calibration: a Python function, and the first exception that it raised.
struct Events {
    function: Py<PyAny>,
    failed: Mutex<Option<PyErr>>,
    /// Set by Ctrl-C: the function is no longer called.
    is_abandoned: AtomicBool,
}

impl Events {
    const fn new(function: Py<PyAny>) -> Self {
        Self {
            function,
            failed: Mutex::new(None),
            is_abandoned: AtomicBool::new(false),
        }
    }

    /// The result of `search` with these events, unless an exception or Ctrl-C ends it.
    fn searched<T: Send + 'static>(
        self,
        py: Python<'_>,
        search: impl FnOnce(&Self) -> Result<Calibrated<T>> + Send + 'static,
    ) -> PyResult<(T, Answer)> {
        let events = Arc::new(self);
        let own = Arc::clone(&events);
        let found = interruptible(py, move || search(&own))
            .inspect_err(|_| events.is_abandoned.store(true, Ordering::Relaxed))?;
        let mut failed = events.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match failed.take() {
            Some(error) => Err(error),
            None => raise(py, found).map(|found| (found.value, answer(found.bound))),
        }
    }

    /// The event at `x`. After an exception no event meets the target, which ends the search.
    fn at<T: for<'py> IntoPyObject<'py>>(&self, x: T) -> DpEvent {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_some() || self.is_abandoned.load(Ordering::Relaxed) {
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
    let what = what.to_owned();
    Events::new(events).searched(py, move |events| {
        let at = |x: f64| events.at(x);
        match &*what {
            "noise-multiplier" => calibrate::noise(target, adjacency, at),
            "sampling-probability" => calibrate::sampling_probability(target, adjacency, at),
            "smallest" => calibrate::smallest(target, adjacency, range, at),
            _ => calibrate::largest(target, adjacency, range, at),
        }
    })
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
    Events::new(events).searched(py, move |events| {
        calibrate::count(target, adjacency, |n: u64| events.at(n))
    })
}
