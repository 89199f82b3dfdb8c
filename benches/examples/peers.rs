//! Our side of `peers/compare.sh`: runs one workload so many times and prints its answer as JSON.
//! The workloads are those of `peers/peers.py`.

use std::error::Error;
use std::hint::black_box;

use dp_accounting::questions::EventQuestion;
use dp_accounting::{Accountant, PrivacyBound, TightestAccountant};
use dp_core::{Adjacency, DpEvent};
use serde_json::{Value, json};

const DELTA: f64 = 1e-5;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let workload = args.next().ok_or("usage: peers WORKLOAD CALLS")?;
    let calls: u64 = args.next().ok_or("usage: peers WORKLOAD CALLS")?.parse()?;
    let run = workload_named(&workload)?;
    let mut answer = Value::Null;
    for _ in 0..calls {
        answer = black_box(run())?;
    }
    println!("{answer}");
    Ok(())
}

fn workload_named(name: &str) -> Result<Box<dyn Fn() -> Result<Value>>> {
    let events = match name {
        "sgm-sigma" => return Ok(Box::new(sigma)),
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
    let mut accountant = TightestAccountant::new(Adjacency::AddRemoveRecord);
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

/// The smallest noise multiplier for epsilon 1.
fn sigma() -> Result<Value> {
    let question = EventQuestion::from_json(
        r#"{"adjacency": "add-remove-record", "epsilon": 1, "delta": 1e-5,
            "event": {"mechanism": "repeated", "count": 10000, "event":
                {"mechanism": "poisson-sampled", "sampling_probability": 0.01, "event":
                    {"mechanism": "gaussian", "noise_multiplier": null, "replace_factor": "two"}}}}"#,
    )?;
    let answer = question.answer()?;
    Ok(json!({ "value": answer.value, "lower": answer.lower, "upper": answer.upper }))
}
