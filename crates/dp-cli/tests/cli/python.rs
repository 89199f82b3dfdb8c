//! The Python reader recommends the same as `dp recommend`.

use std::process::Command;

use crate::support::{Sandbox, words};

/// If two items differ by less than this, their order is arbitrary: users'
/// equations are summed in single precision.
const CLOSE: f64 = 1e-4;

fn has_numpy() -> bool {
    let run = Command::new("python3")
        .args(["-c", "import numpy"])
        .output();
    run.is_ok_and(|run| run.status.success())
}

#[test]
fn the_reader_in_python_agrees() {
    if !has_numpy() {
        eprintln!("SKIPPED: python3 with numpy is not there");
        return;
    }
    let sandbox = Sandbox::with_ratings();
    sandbox.train(&["--dim", "3"]).exits(0);
    sandbox.write(
        "mine.csv",
        "item,rating\nitem-1,5\nitem-4,1\nnowhere,5\nitem-9,4\n",
    );
    let args = words("recommend --model dp-model --history mine.csv -k 25 --json");
    let ours = sandbox.dp(&args).exits(0).json();
    let ours = ours["recommendations"].as_array().unwrap();
    assert_eq!(ours.len(), 22);

    let reader = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/python/recommend.py"
    );
    let python = |args: &[&str]| -> crate::support::Run {
        let mut command = sandbox.program("python3");
        command.arg(reader).args(args).output().unwrap().into()
    };
    let found = python(&["dp-model", "mine.csv", "22"]).exits(0).stdout;
    let found: Vec<(f64, &str)> = found
        .lines()
        .map(|line| {
            let mut cells = line.split('\t');
            (
                cells.next().unwrap().parse().unwrap(),
                cells.next().unwrap(),
            )
        })
        .collect();
    assert_eq!(found.len(), ours.len());
    for item in ours {
        let (id, score) = (
            item["item"].as_str().unwrap(),
            item["predicted_rating"].as_f64().unwrap(),
        );
        let (theirs, _) = found.iter().find(|(_, other)| *other == id).unwrap();
        assert!((theirs - score).abs() < CLOSE, "{id}: {theirs} {score}");
    }
    assert!(found.is_sorted_by(|a, b| a.0 >= b.0));

    // a newer model is rejected, not misread
    let factors = sandbox.read("dp-model/item_factors.safetensors");
    let (old, new) = (br#"schema_version\":5"#, br#"schema_version\":9"#);
    let at = factors
        .windows(old.len())
        .position(|part| part == old)
        .unwrap();
    let newer = [&factors[..at], new, &factors[at + old.len()..]].concat();
    sandbox.write("dp-model/item_factors.safetensors", newer);
    let refused = python(&["dp-model", "mine.csv"]).exits(1);
    refused.says(&["model schema 9 is newer than this reader"]);
}
