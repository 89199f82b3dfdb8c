//! Answers of silos in shares: the arithmetic of two servers on the bytes of messages.

use dp_personal::core::Private;
use dp_personal::error::Error;
use dp_personal::mechanism::{ShardAnswer, Share, SumRequest, ToWorker};
use dp_personal::workers::LinkError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::errors::Raise;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(without_nonce, module)?)?;
    module.add_function(wrap_pyfunction!(split_answer, module)?)?;
    module.add_function(wrap_pyfunction!(share_answer, module)?)?;
    module.add_function(wrap_pyfunction!(sum_of_shares, module)?)?;
    module.add_function(wrap_pyfunction!(add_share, module)?)
}

type Bytes<'py> = PyResult<Bound<'py, PyBytes>>;

/// A request for a sum with its nonce set to 0; any other message as it is. The sum does not depend
/// on the nonce, which is new whenever a coordinator asks again.
#[pyfunction]
fn without_nonce<'py>(py: Python<'py>, message: &[u8]) -> Bytes<'py> {
    if !ToWorker::is_request(message) {
        return Ok(PyBytes::new(py, message));
    }
    let asked = request(message).raise(py)?;
    let asked = ToWorker::Sum(SumRequest { nonce: 0, ..asked });
    Ok(PyBytes::new(py, &asked.to_bytes().raise(py)?))
}

/// The sum of an answer in two shares. Each alone is uniform; together they are the exact sum.
#[pyfunction]
fn split_answer<'py>(
    py: Python<'py>,
    answer: &[u8],
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let answer = ShardAnswer::from_bytes(answer).raise(py)?;
    let shares = py.detach(|| Share::split(answer.sum)).raise(py)?;
    let [first, second] = shares.map(|share| PyBytes::new(py, &share.to_bytes()));
    Ok((first, second))
}

/// An answer with a share in place of the sum. Everything else in it follows from the request and
/// the number of the shard.
#[pyfunction]
fn share_answer<'py>(
    py: Python<'py>,
    message: &[u8],
    shard: (usize, usize),
    share: &[u8],
) -> Bytes<'py> {
    let (shard, n_shards) = shard;
    let asked = request(message).raise(py)?;
    let answer = ShardAnswer {
        shard,
        n_shards,
        run: asked.run,
        step: asked.step,
        list_head: asked.list_head,
        nonce: asked.nonce,
        sum: vector(Share::from_bytes(share).raise(py)?),
    };
    Ok(PyBytes::new(py, &answer.to_bytes().raise(py)?))
}

/// The sum modulo 2^64 of shares, of which there is at least one.
#[pyfunction]
fn sum_of_shares<'py>(py: Python<'py>, shares: Vec<PyBackedBytes>) -> Bytes<'py> {
    let mut sum: Option<Share> = None;
    for share in &shares {
        let share = Share::from_bytes(share).raise(py)?;
        match &mut sum {
            Some(sum) => sum.add(&share).raise(py)?,
            None => sum = Some(share),
        }
    }
    let none = LinkError::Link {
        what: "there are no shares",
    };
    Ok(PyBytes::new(py, &sum.ok_or(none).raise(py)?.to_bytes()))
}

/// The answer with a share added to its sum.
#[pyfunction]
fn add_share<'py>(py: Python<'py>, answer: &[u8], share: &[u8]) -> Bytes<'py> {
    let answer = ShardAnswer::from_bytes(answer).raise(py)?;
    let mut sum = Share::from_coordinates(answer.sum.into_exposed());
    sum.add(&Share::from_bytes(share).raise(py)?).raise(py)?;
    let answer = ShardAnswer {
        sum: vector(sum),
        ..answer
    };
    Ok(PyBytes::new(py, &answer.to_bytes().raise(py)?))
}

fn vector(share: Share) -> Private<Vec<i64>> {
    Private::new(share.coordinates().to_vec())
}

fn request(message: &[u8]) -> Result<SumRequest, Error> {
    match ToWorker::from_bytes(message) {
        Ok(ToWorker::Sum(request)) => Ok(request),
        Ok(_) => Err(Error::Releases(LinkError::Link {
            what: "the message requests no sum",
        })),
        Err(error) => Err(Error::Releases(error)),
    }
}
