//! Invalid command lines.

#[path = "../../../dp-cli/tests/cli/malformed/table.rs"]
mod table;

use crate::support::Sandbox;

#[test]
fn command_lines_that_make_no_sense_end_with_a_message() {
    let sandbox = Sandbox::new();
    for folder in ["folder", "words"] {
        std::fs::create_dir(sandbox.path(folder)).unwrap();
    }
    for (name, content) in [
        ("words/ratings.csv", "user,item,rating\nann,item-1,good\n"),
        ("empty", ""),
        ("list.json", "[1, 2, 3]"),
        ("rows-none.json", r#"{"name": "bietti2022-figure1a"}"#),
        (
            "rows-bad.json",
            r#"{"name": "bietti2022-figure1a", "rows": [3, "x", null, {"method": 5}]}"#,
        ),
        (
            "rows-one.json",
            r#"{"name": "bietti2022-figure1a", "rows": [{"method": "private", "epsilon": 1, "params": {"alpha": 1},
                "metric": "excess risk", "mean": 0.1, "se": 0.01, "n_seeds": 1}]}"#,
        ),
    ] {
        sandbox.write(name, content);
    }
    table::check(&sandbox, include_str!("malformed.txt"));
}
