//! Compares all shared golden values with the public [`questions`] interface; for Gaussian
//! mechanisms also with the closed forms, for mechanisms that have a privacy loss distribution with
//! its brackets, which are as narrow as measured, and Renyi divergences and zCDP with their
//! accountants. They are read from `$DP_GOLDEN` (file or folder) or from `../shared/golden` next to
//! the workspace. Ignored by default; when run explicitly, a missing file is a failure.
//!
//! [`questions`]: dp_accounting::questions

use std::path::PathBuf;
use std::time::Instant;

use dp_accounting::questions::{Answer, Quantity, QuestionFile};
use dp_accounting::rdp::conversion::{self, Conversion};
use dp_accounting::{Accountant, GdpAccountant, PldAccountant, RdpAccountant, ZcdpAccountant, gdp};
use dp_core::{Adjacency, ApproxDp, DpEvent, Relation};
use serde_json::Value;

/// Minimum number of cases.
const N_CASES: usize = 169;

/// Largest relative width of a bracket around an epsilon, a divergence or a calibrated parameter.
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

/// The known bounds on the true value of a case.
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

    /// The reason why an answer is wrong, if it is.
    fn objection(&self, answer: &Answer) -> Option<String> {
        // The double is within half a unit in the last place of the value with all its digits.
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

/// The value of [`GdpAccountant`] or [`gdp::mu_for`] alone, for a case of Gaussian mechanisms.
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
    composed(GdpAccountant::new(Adjacency::AddRemoveUser), case)
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
            // upper bounds, up to the last digits
            let floor = expected * (1.0 - 1e-13) - truth.absolute;
            assert!(found >= floor, "{id} is too low: {found}");
        }
    }
}

const PLD_FAMILIES: [&str; 14] = [
    "gaussian-delta",
    "gaussian-epsilon",
    "gaussian-hetero",
    "laplace-delta",
    "laplace-epsilon",
    "laplace-composed",
    "rr-delta",
    "optimal-composition",
    "discrete-laplace-delta",
    "discrete-gaussian-delta",
    "sgm-single",
    "sgm-epsilon",
    "sgm-delta",
    "heterogeneous",
];

/// Largest measured width of a bracket, rounded up, relative to an epsilon or to a delta.
fn widest(family: &str) -> f64 {
    match family {
        "optimal-composition" | "rr-delta" => 1e-9,
        "discrete-laplace-delta" | "discrete-gaussian-delta" => 1e-11,
        "laplace-epsilon" | "laplace-composed" => 5e-6,
        "laplace-delta" => 2e-5,
        "sgm-single" => 3e-3,
        _ => 1e-4,
    }
}

/// One entry of a case's `events`, and its count.
fn event(one: &Value, relation: Relation) -> (DpEvent, u64) {
    let get = |name: &str| number(&one[name]);
    let whole = |name: &str| u32::try_from(one[name].as_u64().unwrap()).unwrap();
    let event = match one["mechanism"].as_str().unwrap() {
        "gaussian" => DpEvent::gaussian(get("sigma") / get("sensitivity")),
        "laplace" => DpEvent::laplace(get("scale") / get("sensitivity")),
        "discrete_laplace" => DpEvent::discrete_laplace(get("rate"), whole("sensitivity")),
        "discrete_gaussian" => DpEvent::discrete_gaussian(get("sigma"), whole("sensitivity")),
        "randomized_response" => {
            DpEvent::randomized_response(get("noise_probability"), whole("buckets"))
        }
        "approximate_dp" => DpEvent::approx_dp(get("epsilon"), get("delta"), relation),
        "poisson_subsampled_gaussian" => {
            DpEvent::sampled_gaussian(get("sigma"), get("sampling_probability"))
        }
        "zcdp" => DpEvent::zcdp(get("rho"), relation),
        other => panic!("unexpected mechanism {other}"),
    };
    (event, one["count"].as_u64().unwrap())
}

fn adjacency(case: &Value) -> Adjacency {
    match case["neighbour"].as_str().unwrap() {
        "replace_one" => Adjacency::ReplaceRecord,
        _ => Adjacency::AddRemoveRecord,
    }
}

/// `accountant` after composing all events of the case.
fn composed<A: Accountant>(mut accountant: A, case: &Value) -> A {
    for one in case["events"].as_array().unwrap() {
        let (event, count) = event(one, accountant.adjacency().relation());
        accountant.compose(&event, count).unwrap();
    }
    accountant
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_brackets_hold_every_golden_value() {
    let (mut n_cases, mut bad) = (0, Vec::new());
    for case in golden().1 {
        if !PLD_FAMILIES.contains(&case["family"].as_str().unwrap()) {
            continue;
        }
        if std::env::var("PLD_ONLY").is_ok_and(|only| !case["id"].as_str().unwrap().contains(&only))
        {
            continue;
        }
        n_cases += 1;
        let accountant = composed(PldAccountant::new(adjacency(&case)), &case);
        let query = &case["query"];
        let start = Instant::now();
        let bound = match query["kind"].as_str().unwrap() {
            "delta_at_epsilon" => accountant.delta(number(&query["epsilon"])),
            _ => accountant.epsilon(number(&query["delta"])),
        };
        let seconds = start.elapsed().as_secs_f64();
        let value = number(&case["value"]);
        let slack = value * 2.0 * number(&case["uncertainty_rel"]).max(1e-15) + 1e-300;
        if value < 1e-300 {
            assert!(bound.is_err() || bound.is_ok_and(|b| b.lower <= value + slack));
            continue;
        }
        let Ok(bound) = bound else {
            println!("{} {bound:?}", case["id"]);
            bad.push(case["id"].clone());
            continue;
        };
        let width = (bound.upper - bound.lower) / bound.upper.max(1e-300);
        println!(
            "{} {value:.12e} [{:+.2e}, {:+.2e}] width {width:.1e} {:.1} ms",
            case["id"],
            bound.lower / value - 1.0,
            bound.upper / value - 1.0,
            seconds * 1e3
        );
        let sound = bound.lower <= value + slack && value - slack <= bound.upper;
        if !(sound && width <= widest(case["family"].as_str().unwrap())) {
            bad.push(case["id"].clone());
        }
    }
    assert!(n_cases >= 80, "only {n_cases} cases");
    assert!(bad.is_empty(), "{bad:?}");
}

/// Runs `check` on every case of `family`, asserts that there were `at_least` of them and
/// returns the largest relative error.
fn for_each_case(family: &str, at_least: usize, check: impl Fn(&Value) -> f64) {
    let (_, cases) = golden();
    let (mut n_cases, mut worst) = (0, 0.0_f64);
    for case in cases.iter().filter(|case| case["family"] == family) {
        n_cases += 1;
        let (found, expected) = (check(case), number(&case["value"]));
        let tolerance = &case["tolerance"];
        let allowed = number(&tolerance["abs"]).max(number(&tolerance["rel"]) * expected.abs());
        let error = (found - expected).abs();
        assert!(
            error <= allowed,
            "{}: {found} instead of {expected}",
            case["id"]
        );
        worst = worst.max(error / expected.abs());
    }
    println!("{family}: {n_cases} cases, largest relative error {worst:e}");
    assert!(n_cases >= at_least, "{family}: only {n_cases} cases");
}

fn rdp(case: &Value) -> f64 {
    let accountant = composed(RdpAccountant::new(adjacency(case)), case);
    let bound = accountant.rdp(number(&case["query"]["alpha"])).unwrap();
    let truth = number(&case["value"]);
    // The reference lies within the bracket, up to its own last digit.
    let ulp = 2e-16 * truth;
    assert!(
        bound.lower <= truth + ulp && truth - ulp <= bound.upper,
        "{}: {bound:?}",
        case["id"]
    );
    bound.value
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_renyi_divergences() {
    for (family, at_least) in [
        ("gaussian-rdp", 3),
        ("laplace-rdp", 5),
        ("rr-rdp", 4),
        ("discrete-laplace-rdp", 3),
        ("discrete-gaussian-rdp", 4),
        ("sgm-rdp", 20),
    ] {
        for_each_case(family, at_least, rdp);
    }
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_conversions() {
    for_each_case("rdp-conversion", 7, |case| {
        let (event, query) = (&case["events"][0], &case["query"]);
        let (order, divergence) = (number(&event["alpha"]), number(&event["rdp"]));
        let conversion = match query["formula"].as_str().unwrap() {
            "mironov2017" => Conversion::Mironov2017,
            "cks2020" => Conversion::Cks2020,
            _ => Conversion::Asoodeh2020,
        };
        if query["kind"] == "epsilon_at_delta" {
            let delta = number(&query["delta"]);
            conversion::epsilon(order, divergence, delta, conversion).unwrap()
        } else {
            let epsilon = number(&query["epsilon"]);
            conversion::delta(order, divergence, epsilon, conversion).unwrap()
        }
    });
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_epsilon_on_fixed_orders() {
    let file: Value = serde_json::from_str(&golden().0).unwrap();
    let orders = file["default_orders"].as_array().unwrap().iter();
    let orders: Vec<f64> = orders.map(number).collect();
    for_each_case("rdp-epsilon-grid", 3, |case| {
        let accountant = RdpAccountant::with_orders(adjacency(case), orders.clone()).unwrap();
        let accountant = composed(accountant, case);
        let epsilon = accountant.epsilon(number(&case["query"]["delta"])).unwrap();
        assert!(epsilon.upper >= number(&case["value"]), "{}", case["id"]);
        let free = composed(RdpAccountant::new(adjacency(case)), case);
        let better = free.epsilon(number(&case["query"]["delta"])).unwrap();
        assert!(better.upper <= epsilon.upper, "{}", case["id"]);
        epsilon.upper
    });
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_zcdp() {
    let ask = |case: &Value| {
        let zcdp = composed(ZcdpAccountant::new(adjacency(case)), case);
        let rdp = composed(RdpAccountant::new(adjacency(case)), case);
        let query = &case["query"];
        let [one, other] = if query["kind"] == "epsilon_at_delta" {
            let delta = number(&query["delta"]);
            [zcdp.epsilon(delta).unwrap(), rdp.epsilon(delta).unwrap()]
        } else {
            let epsilon = number(&query["epsilon"]);
            [zcdp.delta(epsilon).unwrap(), rdp.delta(epsilon).unwrap()]
        };
        assert!(one.upper >= number(&case["value"]), "{}", case["id"]);
        assert!(
            (other.upper / one.upper - 1.0).abs() < 1e-6,
            "{one:?} {other:?}"
        );
        one.upper
    };
    for_each_case("zcdp-epsilon", 4, ask);
    for_each_case("zcdp-delta", 3, ask);
}
