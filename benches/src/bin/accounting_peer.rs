//! Our side of `peers/accounting.sh`: runs one workload of `peers/accounting.py` and prints its
//! answer and the processor seconds of a call as JSON.
//!
//!     peers WORKLOAD          repeated until the calls take 0.2 s together
//!     peers WORKLOAD --once   one call, for the time and the memory of a whole process

use std::error::Error;
use std::hint::black_box;

use dp_accounting::questions::EventQuestion;
use dp_accounting::{Accountant, PrivacyBound, TightestAccountant, calibrate};
use dp_core::{Adjacency, ApproxDp, DpEvent};
use serde_json::{Value, json};

const DELTA: f64 = 1e-5;

const ADJACENCY: Adjacency = Adjacency::AddRemoveRecord;

/// Calls are repeated until they take this many seconds.
const LEAST_SECONDS: f64 = 0.2;

/// [`sigma`] as an event file.
const SIGMA: &str = r#"{"adjacency": "add-remove-record", "epsilon": 1, "delta": 1e-5, "event":
    {"mechanism": "repeated", "count": 10000, "event":
        {"mechanism": "poisson-sampled", "sampling_probability": 0.01, "event":
            {"mechanism": "gaussian", "noise_multiplier": null, "replace_factor": "two"}}}}"#;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

type Run = Box<dyn Fn() -> Result<Value>>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (name, once) = match args.as_slice() {
        [name] => (name, false),
        [name, flag] if flag == "--once" => (name, true),
        _ => return Err("usage: peers WORKLOAD [--once]".into()),
    };
    let run = workload_named(name)?;
    let answer = if once { run()? } else { timed(&run)? };
    println!("{answer}");
    Ok(())
}

/// The answer with the processor seconds of one call. The first call is not counted, so that
/// neither page faults nor the construction of tables are averaged over the others; with `--once`
/// it is the only call and is counted.
fn timed(run: &Run) -> Result<Value> {
    let mut answer = run()?;
    let mut calls = 1_u32;
    let seconds = loop {
        let start = processor_seconds()?;
        for _ in 0..calls {
            answer = black_box(run())?;
        }
        let seconds = processor_seconds()? - start;
        if seconds >= LEAST_SECONDS {
            break seconds;
        }
        calls *= 2;
    };
    answer["seconds"] = (seconds / f64::from(calls)).into();
    answer["calls"] = calls.into();
    Ok(answer)
}

/// Processor time of this thread (Linux); the program has only this thread.
fn processor_seconds() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds = text.split_whitespace().next().ok_or("schedstat is empty")?;
    Ok(nanoseconds.parse::<f64>()? * 1e-9)
}

fn workload_named(name: &str) -> Result<Run> {
    let events = match name {
        "sgm-sigma" => return Ok(Box::new(sigma)),
        "sgm-sigma-file" => return Ok(Box::new(sigma_of_file)),
        "sgm-10k" => vec![(DpEvent::sampled_gaussian(1.0, 0.01), 10_000)],
        "sgm-1m" => vec![(DpEvent::sampled_gaussian(1.0, 0.001), 1_000_000)],
        "gaussians-40" => (0..40)
            .map(|i| (DpEvent::gaussian(10.0 + f64::from(i)), 1))
            .collect(),
        "tree-300" => mixed(300),
        "tree-1000" => mixed(1000),
        other => return Err(format!("no workload {other}").into()),
    };
    Ok(Box::new(move || epsilon(black_box(&events))))
}

/// A third Gaussian, a third Laplace, a third sampled Gaussian, all different.
fn mixed(n: u32) -> Vec<(DpEvent, u64)> {
    let widen = if n > 300 { f64::from(n) / 300.0 } else { 1.0 };
    let event = |i: u32| {
        let step = f64::from(i / 3) / f64::from(n);
        match i % 3 {
            0 => DpEvent::gaussian((20.0 + 60.0 * step) * widen),
            1 => DpEvent::laplace((60.0 + 90.0 * step) * widen),
            _ => DpEvent::sampled_gaussian(1.0 + 2.0 * step, 0.01),
        }
    };
    (0..n).map(|i| (event(i), 1)).collect()
}

fn epsilon(events: &[(DpEvent, u64)]) -> Result<Value> {
    let mut accountant = TightestAccountant::new(ADJACENCY);
    for (event, count) in events {
        accountant.compose(event, *count)?;
    }
    let PrivacyBound {
        value,
        lower,
        upper,
        method,
        ..
    } = accountant.epsilon(DELTA)?;
    Ok(json!({ "value": value, "lower": lower, "upper": upper, "method": method }))
}

/// The smallest noise multiplier for epsilon 1, from the library alone: a value that meets the
/// target, and its epsilon.
fn sigma() -> Result<Value> {
    let target = ApproxDp::target(1.0, black_box(DELTA))?;
    let found = calibrate::noise(target, ADJACENCY, |z| {
        DpEvent::sampled_gaussian(z, 0.01).repeated(10_000)
    })?;
    let (value, bound) = (found.value, found.bound);
    Ok(json!({ "value": value, "epsilon": bound.upper, "method": bound.method }))
}

/// The same as `dp calibrate` does it: it reads JSON and also finds a smaller noise that provably
/// misses the target, which makes the answer a bracket.
fn sigma_of_file() -> Result<Value> {
    let answer = EventQuestion::from_json(black_box(SIGMA))?.answer()?;
    let (lower, upper) = (answer.lower, answer.upper);
    Ok(json!({ "value": answer.value, "lower": lower, "upper": upper, "method": answer.method }))
}
