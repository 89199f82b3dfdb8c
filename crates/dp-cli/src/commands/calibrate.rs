//! `dp calibrate`: solves for the missing parameter so that a target is met.

use std::path::Path;
use std::time::Instant;

use dp_accounting::questions::{Answer, EventQuestion, Quantity, QuestionError, Solved};
use dp_accounting::{Error as AccountingError, PrivacyBound};
use dp_core::{Adjacency, ApproxDp, ParamError, params};
use serde_json::{Value, json};

use super::account::{number, read};
use super::answers::{at_least, at_most, bracket, bracket_of, figure};
use crate::args::CalibrateArgs;
use crate::error::{Error, Result};
use crate::screen::{print, print_json};
use dp_personal::output::rounded_up;

pub(crate) fn run(args: &CalibrateArgs) -> Result<()> {
    let question = match &args.file {
        Some(path) => from_file(path)?,
        None => from_flags(args)?,
    };
    let start = Instant::now();
    let solved = question.solve().map_err(|error| explained(args, error))?;
    let Some(target) = question.target() else {
        return Ok(());
    };
    let guarantees: Vec<Guarantee> = [
        question.adjacency(),
        question.under_other_neighbours().adjacency(),
    ]
    .map(|adjacency| (adjacency, solved.epsilon(adjacency, target.delta)))
    .into();
    let seconds = start.elapsed().as_secs_f64();
    if args.json {
        return print_json(&as_json(&solved, target, &guarantees, seconds));
    }
    let name = match solved.answer.quantity {
        Quantity::Count if args.file.is_none() => "steps",
        quantity => quantity.name(),
    };
    print(&summary(name, &solved, target, &guarantees))
}

/// Epsilon under one adjacency, or why there is none.
type Guarantee = (Adjacency, dp_accounting::Result<PrivacyBound>);

fn from_file(path: &Path) -> Result<EventQuestion> {
    let question = EventQuestion::from_json(&read(path)?).map_err(|source| Error::Questions {
        path: path.to_owned(),
        source,
    })?;
    if question.target().is_none() {
        let reason = "nothing in the event is null, so there is nothing to solve for";
        return Err(Error::Usage(format!("{}: {reason}", path.display())));
    }
    Ok(question)
}

/// The error for a target that cannot be met, naming the flags that prevent it.
fn explained(args: &CalibrateArgs, error: QuestionError) -> Error {
    let QuestionError::Accounting(AccountingError::TargetOutOfReach { epsilon, delta, .. }) = error
    else {
        return error.into();
    };
    let (wanted, change) = if args.file.is_some() {
        (
            "value of the unknown parameter",
            "change the other parameters",
        )
    } else if args.noise_multiplier.is_none() {
        (
            "--noise-multiplier",
            "lower --steps or --sampling-probability",
        )
    } else if args.steps.is_none() {
        (
            "number of --steps",
            "raise --noise-multiplier, or lower --sampling-probability",
        )
    } else {
        (
            "--sampling-probability",
            "raise --noise-multiplier, or lower --steps",
        )
    };
    let target = format!("epsilon {epsilon} at delta {delta:e}");
    Error::Usage(format!(
        "no {wanted} meets {target}; {change}, or raise --epsilon"
    ))
}

/// Steps of a Gaussian mechanism on a Poisson sample, with one of the three parameters missing.
fn from_flags(args: &CalibrateArgs) -> Result<EventQuestion> {
    let (Some(epsilon), Some(delta)) = (args.epsilon, args.delta) else {
        let needed = "dp calibrate needs --epsilon and --delta, or a file";
        return Err(Error::Usage(needed.to_owned()));
    };
    let target = ApproxDp::target(epsilon, delta)?;
    let z = args.noise_multiplier;
    let q = args.sampling_probability;
    let left_out = [z.is_none(), q.is_none(), args.steps.is_none()];
    if left_out.iter().filter(|&&out| out).count() != 1 {
        return Err(Error::Usage(
            "leave out exactly one of --noise-multiplier, --steps and --sampling-probability: it \
             is solved for; without sampling, --sampling-probability is 1"
                .to_owned(),
        ));
    }
    // JSON has no NaN: an invalid number must not be treated as the unknown parameter
    z.map(|z| params::finite_positive("--noise-multiplier", z))
        .transpose()?;
    q.map(|q| params::finite_positive("--sampling-probability", q))
        .transpose()?;
    q.map(|q| params::closed_unit("--sampling-probability", q))
        .transpose()?;
    if args.steps == Some(0) {
        let (name, value) = ("--steps", 0.0);
        let expected = "a whole number, 1 or above";
        return Err(Error::Param(ParamError {
            name,
            value,
            expected,
        }));
    }
    Ok(EventQuestion::from_json(
        &steps_question(args, target).to_string(),
    )?)
}

/// The event file equivalent to the flags.
fn steps_question(args: &CalibrateArgs, target: ApproxDp) -> Value {
    json!({
        "adjacency": Adjacency::from(args.adjacency),
        "event": {
            "mechanism": "repeated",
            "count": args.steps,
            "event": {
                "mechanism": "poisson-sampled",
                "sampling_probability": args.sampling_probability,
                "event": {
                    "mechanism": "gaussian",
                    "noise_multiplier": args.noise_multiplier,
                    "replace_factor": "two",
                },
            },
        },
        "epsilon": target.epsilon,
        "delta": target.delta,
    })
}

fn as_json(solved: &Solved, target: ApproxDp, guarantees: &[Guarantee], seconds: f64) -> Value {
    let answer = &solved.answer;
    let figure = |value| number(answer.quantity, value);
    json!({
        "parameter": answer.quantity.name(),
        "value": figure(answer.value),
        "lower": figure(answer.lower),
        "upper": figure(answer.upper),
        "method": answer.method,
        "target": target,
        "event": solved.event,
        "guarantees": guarantees.iter().map(|of| guarantee_json(of, target.delta)).collect::<Vec<_>>(),
        "seconds": seconds,
    })
}

fn guarantee_json((adjacency, bound): &Guarantee, delta: f64) -> Value {
    match bound {
        Ok(bound) => json!({
            "adjacency": adjacency,
            "epsilon": bound.upper,
            "lower": bound.lower,
            "method": bound.method,
            "meaning": meaning(*adjacency, bound.upper, delta),
        }),
        Err(error) => json!({ "adjacency": adjacency, "error": error.to_string() }),
    }
}

fn summary(name: &str, solved: &Solved, target: ApproxDp, guarantees: &[Guarantee]) -> String {
    let Solved { answer, .. } = solved;
    let name = name.replace('_', " ");
    let side = if answer.quantity.safe_above() {
        "smallest"
    } else {
        "largest"
    };
    let mut lines = vec![
        format!("{name} {}", figure(answer)),
        format!(
            "  the {side} for epsilon {}, delta {:e}: {}",
            target.epsilon,
            target.delta,
            certainty(answer)
        ),
        String::new(),
        format!("  delta     {:e}", target.delta),
    ];
    lines.extend(guarantees.iter().map(guarantee_line));
    if let Some((adjacency, Ok(bound))) = guarantees.first() {
        lines.extend([String::new(), "  what it means".to_owned()]);
        lines.push(indented(&meaning(*adjacency, bound.upper, target.delta)));
    }
    lines.join("\n") + "\n"
}

/// A remark about values beyond the answer.
fn certainty(answer: &Answer) -> String {
    let width = bracket(answer);
    match width.as_str() {
        "exact" if answer.quantity == Quantity::Count => "one more does not meet it".to_owned(),
        "exact" => "known to eleven digits".to_owned(),
        "at most" | "or more" => "a better one may exist".to_owned(),
        _ if answer.quantity.safe_above() => format!("{} does not meet it", at_most(answer.lower)),
        _ => format!("{} does not meet it", at_least(answer.upper)),
    }
}

/// Epsilon with its bracket, as in the table of `dp account`.
fn guarantee_line((adjacency, bound): &Guarantee) -> String {
    let unit = adjacency.unit();
    let neighbours = if adjacency.is_replace() {
        format!("replace one {unit}")
    } else {
        format!("add or remove one {unit}")
    };
    match bound {
        Ok(bound) => format!(
            "  epsilon   {:<8}  {:<7}  {neighbours} ({})",
            at_least(bound.upper),
            bracket_of(bound.lower, bound.upper),
            bound.method
        ),
        Err(error) => format!("  epsilon   unknown            {neighbours}: {error}"),
    }
}

/// The same sentence as in the statement of a certificate.
fn meaning(adjacency: Adjacency, epsilon: f64, delta: f64) -> String {
    let unit = adjacency.unit();
    let compared = if adjacency.is_replace() {
        format!("if a given {unit}'s data is one thing as if it is another")
    } else {
        format!("with a given {unit} in the data as without, or without as with")
    };
    let factor = rounded_up(epsilon.exp().next_up());
    format!(
        "Any conclusion is at most {factor} times as likely to be drawn from everything released \
         {compared}, plus a probability of {delta:e}."
    )
}

/// Lines of at most 88 characters, indented by four spaces.
fn indented(sentence: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in sentence.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < 88 => *line += &format!(" {word}"),
            _ => lines.push(format!("    {word}")),
        }
    }
    lines.join("\n")
}
