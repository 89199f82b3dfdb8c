//! `limits` end to end, on generated ratings.

use crate::support::{Sandbox, words};

#[test]
fn bounds_are_below_what_could_be_done_and_above_no_privacy() {
    let sandbox = Sandbox::new();
    let mut text = "user,item,rating\n".to_owned();
    for user in 0..300 {
        for item in (0..10).map(|step| (7 * user + step) % 25) {
            let rating = 1 + (user * 31 + item * 17) % 3 + item % 3;
            text.push_str(&format!("u{user},i{item},{rating}\n"));
        }
    }
    sandbox.write("ratings.csv", text);
    let args = words("limits --data . --seeds 2 --quick --json --plot limits.svg");
    let found = sandbox.run(&args).exits(0).json();
    let rows = found["rows"].as_array().unwrap();
    let mean = |method: &str| {
        let row = rows.iter().find(|row| row["method"] == method);
        row.unwrap_or_else(|| panic!("no {method}"))["mean"]
            .as_f64()
            .unwrap()
    };
    let computed = [
        "no privacy",
        "bound, any mechanism",
        "bound, noise that no user changes",
        "one sum",
        "one sum, counts paid for",
    ];
    let means = computed.map(mean);
    assert!(means.is_sorted_by(|a, b| a < b), "{means:?}");
    let seeds = |method: &str| {
        let row = rows.iter().find(|row| row["method"] == method).unwrap();
        row["n_seeds"].as_u64()
    };
    assert_eq!(seeds("dp train --method biases"), Some(2));
    assert_eq!(seeds("one sum, measured"), Some(2));
    assert!(sandbox.text("limits.svg").contains("bound, any mechanism"));
}
