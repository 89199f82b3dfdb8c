//! Users on their own devices: the rounds of a server, and one round of a device.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use dp_personal::data::TableSource;
use dp_personal::devices::{
    DeviceReply, Devices, answer_invitation, answer_round, local_parameters,
};
use dp_personal::error::Error;
use dp_personal::mechanism::{ClientPolicy, ClientRecord};
use dp_personal::settings::ItemsSettings;
use dp_personal::workers::{LinkError, Place};
use dp_personal::workflows::items::plan;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::Raise;
use crate::run::{Listener, run};
use crate::settings::{Given, planned};
use crate::tables::AnyTable;
use crate::workers::{Raised, run_at};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(drive_devices, module)?)?;
    module.add_function(wrap_pyfunction!(items_plan, module)?)?;
    module.add_function(wrap_pyfunction!(device_round, module)?)?;
    module.add_function(wrap_pyfunction!(device_examples, module)?)?;
    module.add_function(wrap_pyfunction!(device_parameters, module)?)
}

/// Devices behind a Python function, which is called with a message and the devices that are asked,
/// and returns devices and replies.
struct Called {
    n_devices: usize,
    rounds: Py<PyAny>,
    raised: Raised,
}

impl Devices for Called {
    fn n_devices(&self) -> usize {
        self.n_devices
    }

    fn round(
        &mut self,
        message: &[u8],
        asked: &[usize],
    ) -> Result<Vec<(usize, Vec<u8>)>, LinkError> {
        let replies = Python::attach(|py| {
            let said = (PyBytes::new(py, message), asked.to_vec());
            self.rounds.call1(py, said)?.extract(py)
        });
        replies.map_err(|error| {
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            LinkError::Link {
                what: "the engine ended the run",
            }
        })
    }
}

/// Runs a command with `n_devices` devices and writes the release folder; returns the summary as
/// text.
#[pyfunction]
fn drive_devices(
    py: Python<'_>,
    command: &str,
    settings: Given,
    empty: AnyTable<'_>,
    listener: Listener<'_>,
    n_devices: usize,
    rounds: Py<PyAny>,
) -> PyResult<String> {
    let (raised, empty) = (Raised::default(), empty.source());
    let called = Called {
        n_devices,
        rounds,
        raised: Arc::clone(&raised),
    };
    let outcome = run(py, &listener, |watch| {
        let place = Place::Devices(Box::new(called));
        run_at(command, settings, empty, watch, place)
    });
    crate::workers::ended(py, outcome, &raised)
}

/// The plan of a run that learns item vectors from devices, as JSON.
#[pyfunction]
fn items_plan(py: Python<'_>, settings: Given) -> PyResult<String> {
    planned::<ItemsSettings>(py, settings, plan)
}

/// Why a message was refused, or the reply to the server and the state to store before it is sent.
type Answered<'py> = (Option<String>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// One round of a device. The message comes with whether the device is asked; the device is its
/// number and the file of its rows, the account a file and the policy.
#[pyfunction]
fn device_round<'py>(
    py: Python<'py>,
    message: (&[u8], bool),
    device: (usize, &str),
    account: (&str, &str),
    state: Option<&[u8]>,
) -> PyResult<Answered<'py>> {
    let (number, rows) = device;
    answered(py, account, |record| {
        answer_round(message, &rows_of(rows), (number, record), state)
    })
}

/// A device's answer to an invitation: the device is its number and the files of its user's vector
/// and examples, the account a file and the policy.
#[pyfunction]
fn device_examples<'py>(
    py: Python<'py>,
    message: &[u8],
    device: (usize, &str, &str),
    account: (&str, &str),
    state: Option<&[u8]>,
) -> PyResult<Answered<'py>> {
    let (number, vector, examples) = device;
    answered(py, account, |record| {
        let records = (Path::new(vector), &rows_of(examples));
        answer_invitation(message, records, (number, record), state)
    })
}

fn rows_of(file: &str) -> TableSource {
    TableSource::File(file.into())
}

fn answered<'py>(
    py: Python<'py>,
    (account, policy): (&str, &str),
    answer: impl FnOnce(ClientRecord) -> Result<DeviceReply, Error> + Send,
) -> PyResult<Answered<'py>> {
    let policy: ClientPolicy =
        serde_json::from_str(policy).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let work = || answer(ClientRecord::open(account, policy).map_err(Error::Releases)?);
    let (refused, reply, state) = match py.detach(work).raise(py)? {
        DeviceReply::Received { reply, state } => (None, reply, state),
        DeviceReply::Refused(reason) => (Some(reason), Vec::new(), Vec::new()),
    };
    Ok((refused, PyBytes::new(py, &reply), PyBytes::new(py, &state)))
}

/// The user's own parameters in the state of a device.
#[pyfunction]
fn device_parameters(py: Python<'_>, state: &[u8]) -> PyResult<Vec<f64>> {
    local_parameters(state).raise(py)
}
