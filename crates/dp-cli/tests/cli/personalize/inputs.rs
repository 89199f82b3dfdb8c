//! Other files, other column names, held-out users.

use std::io::Write as _;

use super::{N_USERS, SUBSPACE, personalize, samples, sandbox};
use crate::support::{Sandbox, words};

#[test]
fn users_that_are_held_out_do_not_touch_the_subspace() {
    let sandbox = sandbox();
    let args = ["--insecure-seed", "7", "--held-out-users", "0.3"];
    personalize(&sandbox, &args).exits(0);
    let before = sandbox.read(SUBSPACE);
    let table = sandbox.text("dp-model-internal/internal-users.csv");
    let held_out = |line: &str| line.split(',').nth(1) == Some("1");
    let ids: Vec<&str> = table
        .lines()
        .filter(|line| held_out(line))
        .filter_map(|line| line.split(',').next())
        .collect();
    assert!(ids.len() > 40, "{}", ids.len());
    let text = samples(N_USERS);
    let turned = text.lines().map(|line| {
        let (user, rest) = line.split_once(',').unwrap();
        match rest.split_once(',') {
            Some((_, features)) if ids.contains(&user) => format!("{user},9,{features}\n"),
            _ => format!("{line}\n"),
        }
    });
    sandbox.write("data.csv", turned.collect::<String>());
    personalize(&sandbox, &[&args[..], &["--force"]].concat()).exits(0);
    assert_eq!(sandbox.read(SUBSPACE), before);
    sandbox.write("data.csv", samples(N_USERS - 150));
    personalize(&sandbox, &[&args[..], &["--force"]].concat()).exits(0);
    assert_ne!(sandbox.read(SUBSPACE), before);
}

#[test]
fn packed_files_other_names_and_no_held_out_rows() {
    let sandbox = Sandbox::new();
    let text = samples(40).replace("user,target,a,", "clinic,days,note,");
    let file = std::fs::File::create(sandbox.path("data.csv")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap();
    let names = words("--user-col clinic --target-col days --feature-cols b,c,d");
    let args = words("--no-split --method projectors --rank 2 --json --show-internal");
    let json = personalize(&sandbox, &[&names[..], &args].concat())
        .exits(0)
        .json();
    assert_eq!(
        (&json["n_features"], &json["steps"]),
        (&3.into(), &0.into())
    );
    assert!(json["internal"]["trained_on"][0]["over_rows"].is_null());
    let report = sandbox.text("dp-model/report.md");
    assert!(
        report.contains("* target: days") && report.contains("| b |"),
        "{report}"
    );
}

#[test]
fn an_output_folder_that_holds_the_data_is_not_replaced() {
    let sandbox = sandbox();
    personalize(&sandbox, &["--out", ".", "--force"]).exits(2);
    personalize(&sandbox, &[]).exits(0);
    personalize(&sandbox, &[])
        .exits(7)
        .says(&["dp-model exists"]);
    personalize(&sandbox, &["--force"]).exits(0);
}
