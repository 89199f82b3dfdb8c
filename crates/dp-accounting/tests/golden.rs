//! All shared golden values, asked the way anybody would: through [`questions`]. They are read from
//! `$DP_GOLDEN` (file or folder) or from `../shared/golden` beside the workspace. Ignored unless
//! asked for, and then a missing file is a failure.
//!
//! [`questions`]: dp_accounting::questions

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::PathBuf;

use dp_accounting::questions::{Answer, Quantity, QuestionFile};
use serde_json::Value;

/// Cases there are at least.
const N_CASES: usize = 169;

/// Widest bracket around an epsilon, a divergence or a calibrated parameter, relatively.
const WIDTH: f64 = 1e-4;

/// The same around a delta: d ln(delta) / d epsilon is at most in the hundreds here.
const WIDTH_OF_DELTA: f64 = 1e-3;

fn golden_file() -> PathBuf {
    let path = std::env::var_os("DP_GOLDEN").map_or_else(
        || {
            PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../../shared/golden"
            ))
        },
        PathBuf::from,
    );
    if path.is_dir() {
        path.join("accounting.json")
    } else {
        path
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// What is known about the true value of a case.
struct Truth {
    value: f64,
    relative: f64,
    absolute: f64,
    uncertainty: f64,
}

impl Truth {
    fn of(case: &Value) -> Self {
        Self {
            value: number(&case["value"]),
            relative: number(&case["tolerance"]["rel"]),
            absolute: number(&case["tolerance"]["abs"]),
            uncertainty: number(&case["uncertainty_rel"]),
        }
    }

    /// Why an answer is wrong, if it is.
    fn objection(&self, answer: &Answer) -> Option<String> {
        // A double is within half a unit in the last place of the value with all its digits.
        let doubt = self.value.abs() * (self.uncertainty + 0.5 * f64::EPSILON) + self.absolute;
        let (least, most) = (self.value - doubt, self.value + doubt);
        if answer.upper < least {
            return Some(format!(
                "UNSOUND: upper {} below {}",
                answer.upper, self.value
            ));
        }
        if answer.lower > most {
            return Some(format!(
                "UNSOUND: lower {} above {}",
                answer.lower, self.value
            ));
        }
        let allowed = self.absolute.max(self.relative * self.value.abs());
        let close = (answer.value - self.value).abs() <= allowed;
        let width = match answer.quantity {
            Quantity::Delta => WIDTH_OF_DELTA,
            _ => WIDTH,
        };
        let bracketed = answer.upper - answer.lower <= width * self.value.abs();
        (!close && !bracketed).then(|| {
            let Answer {
                value,
                lower,
                upper,
                method,
                ..
            } = answer;
            format!(
                "{value} in {lower} to {upper} by {method} for {}",
                self.value
            )
        })
    }
}

/// Answers every case whose family passes `wanted`; returns how many there were and what was
/// wrong.
fn run(wanted: impl Fn(&str) -> bool) -> (usize, Vec<String>) {
    let path = golden_file();
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| {
        panic!(
            "{}: {e}; set DP_GOLDEN to the golden values",
            path.display()
        )
    });
    let expected: Value = serde_json::from_str(&text).unwrap();
    let questions = QuestionFile::from_json(&text).unwrap();
    let (mut n_cases, mut objections) = (0, Vec::new());
    let cases = expected["cases"].as_array().unwrap();
    assert_eq!(cases.len(), questions.cases().len());
    for (case, question) in cases.iter().zip(questions.cases()) {
        assert_eq!(case["id"], question.id());
        if !wanted(case["family"].as_str().unwrap()) {
            continue;
        }
        n_cases += 1;
        let objection = match question.answer() {
            Ok(answer) => Truth::of(case).objection(&answer),
            Err(error) => Some(error.to_string()),
        };
        objections.extend(objection.map(|text| format!("{}: {text}", question.id())));
    }
    (n_cases, objections)
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_golden_all() {
    let (n_cases, objections) = run(|_| true);
    assert!(n_cases >= N_CASES, "only {n_cases} cases");
    assert!(
        objections.is_empty(),
        "{} of {n_cases} cases:\n{}",
        objections.len(),
        objections.join("\n")
    );
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_golden_gaussian() {
    let (n_cases, objections) = run(|family| family.starts_with("gaussian-epsilon"));
    assert!(n_cases >= 11, "only {n_cases} cases");
    assert!(objections.is_empty(), "{}", objections.join("\n"));
}
