//! LEAF JSON.

use super::{N_USERS, SHARED, federate, federate_file, rows, sandbox};
use crate::support::{USER, words};

fn leaf(users: &[Vec<([f64; 7], f64)>]) -> String {
    let list = |items: Vec<String>| items.join(", ");
    let ids = (0..users.len()).map(|u| format!("\"{USER}{u}\"")).collect();
    let counts = users.iter().map(|rows| rows.len().to_string()).collect();
    let data = users.iter().enumerate().map(|(u, rows)| {
        let x = rows.iter().map(|(x, _)| format!("{x:?}")).collect();
        let y = rows.iter().map(|(_, y)| y.to_string()).collect();
        format!(
            "\"{USER}{u}\": {{\"x\": [{}], \"y\": [{}]}}",
            list(x),
            list(y)
        )
    });
    let data = data.collect();
    format!(
        "{{\"users\": [{}], \"num_samples\": [{}], \"user_data\": {{{}}}}}",
        list(ids),
        list(counts),
        list(data)
    )
}

#[test]
fn leaf_json_and_csv_of_the_same_rows_give_the_same_model() {
    let sandbox = sandbox();
    sandbox.write("data.json", leaf(&rows(N_USERS)));
    federate(&sandbox, &["--insecure-seed", "2"]).exits(0);
    let seven = ["--n-features", "7"];
    let args = ["--insecure-seed", "2", "--out", "leaf"];
    federate_file(&sandbox, "data.json", &[args.as_slice(), &seven].concat()).exits(0);
    assert!(sandbox.read(SHARED) == sandbox.read("leaf/shared.safetensors"));
    let text = sandbox.text("leaf/certificate.json");
    assert!(text.contains("list `users`") && text.contains("--n-features"));
    assert!(!text.contains("names of columns") && !text.contains("user column"));
    // a row of another length before all others changes neither shape nor user
    let first = leaf(&rows(N_USERS)).replacen("\"x\": [", "\"x\": [[1], ", 1);
    let first = first.replacen("\"y\": [", "\"y\": [0, ", 1);
    sandbox.write("first.json", first.replacen("[10, ", "[11, ", 1));
    let args = words("--insecure-seed 2 --out first --data-set data.json");
    federate_file(&sandbox, "first.json", &[args.as_slice(), &seven].concat()).exits(0);
    assert!(sandbox.read(SHARED) == sandbox.read("first/shared.safetensors"));
    for (text, said) in [
        (
            leaf(&rows(3)).replace("[10, 10, 10]", "[10, 10, 9]"),
            "num_samples",
        ),
        (leaf(&rows(3)).replacen("-0.", "\"-0.", 1), "data.json:1:"),
        (
            leaf(&rows(3)).replacen(&format!("\"{USER}1\", "), "", 1),
            "num_samples",
        ),
        ("[1]".to_owned(), "an object"),
    ] {
        sandbox.write("data.json", text);
        let run = federate_file(
            &sandbox,
            "data.json",
            &["--out", "bad", "--n-features", "7"],
        );
        let run = run.exits(4).says(&[said]);
        assert!(!run.stderr.contains(USER), "{}", run.stderr);
        assert!(!sandbox.exists("bad"));
    }
    let named = ["--format", "leaf", "--user-col", "user"];
    federate(&sandbox, &named).exits(2).says(&["--user-col"]);
}
