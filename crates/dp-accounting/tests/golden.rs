//! All shared golden values, asked the way anybody would: through [`questions`]; those of Gaussian
//! mechanisms of the closed forms as well. They are read from `$DP_GOLDEN` (file or folder) or from `../shared/golden` beside the workspace. Ignored unless
//! asked for, and then a missing file is a failure.
//!
//! [`questions`]: dp_accounting::questions

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::PathBuf;

use dp_accounting::questions::{Answer, Quantity, QuestionFile};
use dp_accounting::{GdpAccountant, gdp};
use dp_core::{Adjacency, ApproxDp, DpEvent};
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

/// The text of the golden file and its cases.
fn golden() -> (String, Vec<Value>) {
    let path = golden_file();
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| {
        panic!(
            "{}: {e}; set DP_GOLDEN to the golden values",
            path.display()
        )
    });
    let mut file: Value = serde_json::from_str(&text).unwrap();
    let Value::Array(cases) = file["cases"].take() else {
        panic!("no list of cases");
    };
    assert!(cases.len() >= N_CASES, "only {} cases", cases.len());
    (text, cases)
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_golden_all() {
    let (text, cases) = golden();
    let questions = QuestionFile::from_json(&text).unwrap();
    assert_eq!(cases.len(), questions.cases().len());
    let mut objections = Vec::new();
    for (case, question) in cases.iter().zip(questions.cases()) {
        assert_eq!(case["id"], question.id());
        let objection = match question.answer() {
            Ok(answer) => Truth::of(case).objection(&answer),
            Err(error) => Some(error.to_string()),
        };
        objections.extend(objection.map(|text| format!("{}: {text}", question.id())));
    }
    let (n_wrong, n_cases) = (objections.len(), cases.len());
    let list = objections.join("\n");
    assert!(n_wrong == 0, "{n_wrong} of {n_cases} cases:\n{list}");
}

/// The figure of [`GdpAccountant`] or [`gdp::mu_for`] alone, for a case of Gaussian mechanisms.
fn closed_form(case: &Value) -> f64 {
    let query = &case["query"];
    let of = |name: &str| number(&query[name]);
    match query["kind"].as_str().unwrap() {
        "delta_at_epsilon" => gaussians(case).delta(of("epsilon")),
        "epsilon_at_delta" => gaussians(case).epsilon(of("delta")),
        "rdp_at_alpha" => gaussians(case).zcdp().rho * of("alpha"),
        "sigma_for_epsilon_delta" => {
            let target = ApproxDp::target(of("epsilon"), of("delta")).unwrap();
            let event = &case["events"][0];
            let distance = number(&event["sensitivity"]) * number(&event["count"]).sqrt();
            distance / gdp::mu_for(target).unwrap()
        }
        other => panic!("unexpected query {other}"),
    }
}

fn gaussians(case: &Value) -> GdpAccountant {
    let mut accountant = GdpAccountant::new(Adjacency::AddRemoveUser);
    for event in case["events"].as_array().unwrap() {
        assert_eq!(event["mechanism"], "gaussian");
        let z = number(&event["sigma"]) / number(&event["sensitivity"]);
        let count = event["count"].as_u64().unwrap();
        accountant.compose(&DpEvent::gaussian(z), count).unwrap();
    }
    accountant
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_golden_gaussian_closed_forms() {
    let (_, cases) = golden();
    for (family, at_least) in [
        ("gaussian-delta", 12),
        ("gaussian-epsilon", 11),
        ("gaussian-hetero", 4),
        ("gaussian-sigma", 7),
        ("gaussian-rdp", 3),
    ] {
        let of_family: Vec<_> = cases.iter().filter(|c| c["family"] == family).collect();
        assert!(of_family.len() >= at_least, "{family}: {}", of_family.len());
        for case in of_family {
            let (found, truth) = (closed_form(case), Truth::of(case));
            let (id, expected) = (&case["id"], truth.value);
            let allowed = truth.absolute.max(truth.relative * expected.abs());
            let near = (found - expected).abs() <= allowed;
            assert!(near, "{id}: {found} instead of {expected}");
            // Upper bounds, up to the last digits.
            let floor = expected * (1.0 - 1e-13) - truth.absolute;
            assert!(found >= floor, "{id} is too low: {found}");
        }
    }
}
