//! `dp audit`: a sound configuration passes, what makes no sense is refused.

use crate::support::{Run, Sandbox};

fn audit(args: &[&str]) -> Run {
    let mut all = vec!["audit", "--epsilon", "8", "--delta", "1e-5"];
    all.extend(args);
    Sandbox::new().dp(&all)
}

/// The white-box estimate rests on tens of thousands of draws: 5 percent is more than ten standard
/// deviations.
#[test]
fn claimed_and_measured_stand_side_by_side() {
    let small = [
        "--canaries",
        "30",
        "--runs",
        "2",
        "--steps",
        "1",
        "--dim",
        "1",
    ];
    let run = audit(&[&small[..], &["--json"]].concat()).exits(0);
    let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(found["verdict"], "holds");
    let claimed = found["claimed"]["epsilon"].as_f64().unwrap();
    assert!((claimed - 8.0).abs() < 1e-6, "{claimed}");
    let figure = |name: &str| found[name].as_f64().unwrap();
    let ratio = figure("white_box_mu") / figure("claimed_mu");
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
    assert!(figure("lower_bound_epsilon") <= 8.0);
    let text = audit(&small).exits(0).stdout;
    for part in [
        "no violation found in 2 training runs",
        "claimed",
        "lower bound",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
}

#[test]
fn bad_numbers_are_refused() {
    for args in [
        ["--canaries", "0"],
        ["--runs", "0"],
        ["--confidence", "1"],
        ["--confidence", "nan"],
    ] {
        audit(&args).exits(2);
    }
}
