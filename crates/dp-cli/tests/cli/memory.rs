//! `dp train --memory`: ratings that stay on disk.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::input_files::gzip;
use crate::support::{Sandbox, names_in, words};

/// Records of 3,000 users in an order that scatters them, of which memory is said to hold a part: some repeated, some no numbers.
fn many_ratings() -> String {
    let mut text = "user,item,rating\n".to_owned();
    for step in 0..90_000_usize {
        let user = step * 7_919 % 3_000;
        let item = (step / 6_000 * 7 + user) % 120; // each pair twice
        let rating = match step % 1_000 {
            0 => "nan".to_owned(),
            _ => (1 + (user * 31 + item * 17) % 5).to_string(),
        };
        text.push_str(&format!("user-{user},item-{item},{rating}\n"));
    }
    text
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", many_ratings());
    fs::create_dir(sandbox.path("disk")).unwrap();
    sandbox
}

const ON_DISK: [&str; 4] = ["--memory", "1MB", "--scratch", "disk"];

/// Trains as the flags say: what is printed, and the released files. Without times and what follows from the names of releases, which are
/// random.
fn trained(sandbox: &Sandbox, command: &str, more: &[&str]) -> (Value, Vec<(String, Vec<u8>)>) {
    let mut args = words(command);
    args.extend(words(
        "--epsilon 1 --delta 1e-5 --insecure-seed 7 --json --show-internal --force",
    ));
    args.extend(more);
    let mut json = sandbox.dp(&args).exits(0).json();
    json["internal"]["seconds"] = Value::Null;
    without_names(&mut json);
    let files = names_in(&sandbox.path("dp-model")).into_iter();
    let named = [
        "manifest.json",
        "model-card.json",
        "model-card.md",
        "report.md",
    ];
    let files = files.filter(|name| !named.contains(&name.as_str()));
    let files = files.map(|name| {
        let path = format!("dp-model/{name}");
        if name != "certificate.json" {
            return (name, sandbox.read(&path));
        }
        let mut certificate = sandbox.value(&path);
        without_names(&mut certificate);
        (name, certificate.to_string().into_bytes())
    });
    (json, files.collect())
}

fn without_names(value: &mut Value) {
    match value {
        Value::Object(all) => {
            all.retain(|key, _| {
                !["release_id", "entry_hash", "digest", "certificate"].contains(&key.as_str())
            });
            all.values_mut().for_each(without_names);
        }
        Value::Array(all) => all.iter_mut().for_each(without_names),
        _ => {}
    }
}

#[test]
#[ignore = "heavy: part of CI"]
fn heavy_ratings_on_disk_give_the_same_files_as_in_memory() {
    let sandbox = sandbox();
    let mut factors = Vec::new();
    let items = (0..120).map(|item| format!("item-{item},genre {}\n", item % 7));
    sandbox.write(
        "items.csv",
        "item,genre\n".to_owned() + &items.collect::<String>(),
    );
    for command in [
        "train ratings.csv --steps 2 --dim 4",
        "train ratings.csv --steps 2 --dim 4 --no-split",
        "train ratings.csv --steps 1 --dim 3 --method adadpals",
        "train ratings.csv --steps 1 --method biases --no-split",
        "train ratings.csv --steps 2 --dim 4 --release-metrics 0.1",
        "train ratings.csv --steps 2 --dim 4 --feedback implicit --min-rating 3",
        "train ratings.csv --feedback implicit --method popularity --no-split",
        "train ratings.csv --steps 2 --method am-ssp --items items.csv",
        "tune ratings.csv --steps 2 --try dim=3 --try dim=1",
    ] {
        let (expected, files) = trained(&sandbox, command, &[]);
        let (found, found_files) = trained(&sandbox, command, &ON_DISK);
        assert_eq!(found, expected, "{command}");
        for ((name, bytes), (found_name, found_bytes)) in files.iter().zip(&found_files) {
            assert!(
                (name, bytes) == (found_name, found_bytes),
                "{name}: {command}"
            );
        }
        assert_eq!(files.len(), found_files.len());
        factors.extend(
            files
                .into_iter()
                .find(|(name, _)| name == "item_factors.safetensors"),
        );
    }
    assert!(names_in(&sandbox.path("disk")).is_empty());
    // beside the model where no folder is named, and from gzip
    sandbox.write("ratings.csv.gz", gzip(&many_ratings()));
    let args = "train ratings.csv.gz --epsilon 1 --delta 1e-5 --insecure-seed 7 --steps 2 --dim 4 --memory 2MB --out new/folder/model";
    sandbox.dp(&words(args)).exits(0);
    let found = sandbox.read("new/folder/model/item_factors.safetensors");
    assert!(found == factors[0].1);
}

#[test]
fn malformed_rows_are_the_same_errors() {
    let sandbox = sandbox();
    for (text, line) in [
        (
            many_ratings() + "user-1,item-1,four\n",
            "ratings.csv:90002:3",
        ),
        (many_ratings() + "user-1,item-1\n", "ratings.csv:90002"),
        ("user,item,rating\n".to_owned(), "at least one record"),
        ("user,rating\na,1\n".to_owned(), "item column not found"),
    ] {
        sandbox.write("ratings.csv", text);
        let in_memory = sandbox.train(&[]).exits(4).says(&[line]);
        let on_disk = sandbox.train(&ON_DISK).exits(4);
        assert_eq!(on_disk.stderr, in_memory.stderr);
    }
    assert!(names_in(&sandbox.path("disk")).is_empty());
}

#[test]
fn what_cannot_be_on_disk_is_refused_before_anything_is_paid() {
    let sandbox = sandbox();
    let ledger = ["--ledger", "l.ledger", "--ledger-epsilon", "1"];
    let refused = |more: &[&str], code: i32, said: &[&str]| {
        sandbox
            .train(&[&ledger[..], more].concat())
            .exits(code)
            .says(said);
        assert!(!sandbox.exists("l.ledger") && !sandbox.exists("dp-model"));
    };
    for size in ["lots", "4XB", "nanGB"] {
        refused(&["--memory", size], 2, &["--memory", "500MB or 4GB"]);
    }
    refused(&["--memory", "10kB"], 2, &["memory", "1 MB or more"]);
    refused(&["--scratch", "disk"], 2, &["--memory"]);
    refused(
        &["--memory", "1MB", "--scratch", "missing"],
        7,
        &["missing"],
    );
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_an_error_before_anything_is_paid() {
    let sandbox = sandbox();
    let more = [&ON_DISK[..], &words("--ledger l.ledger --ledger-epsilon 1")].concat();
    let run = crate::output_folder::train_with_little_space(&sandbox, "200", &more);
    run.exits(7).says(&["scratch file", "--scratch"]);
    let paid = dp_accounting::Ledger::audit(sandbox.path("l.ledger"));
    assert!(paid.is_err() || paid.unwrap().releases.is_empty());
    assert!(!sandbox.exists("dp-model") && names_in(&sandbox.path("disk")).is_empty());
}

/// Files without a name are listed as deleted. One has a name for a moment after it was made, and is empty then.
#[cfg(target_os = "linux")]
#[test]
fn a_killed_run_leaves_no_records() {
    let sandbox = sandbox();
    let no_records = || {
        let files = fs::read_dir(sandbox.path("disk")).unwrap();
        let lengths = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len()));
        lengths.sum::<u64>() == 0
    };
    for round in 0..3 {
        let mut command = sandbox.command();
        let args = "train ratings.csv --epsilon 1 --delta 1e-5 --steps 300 --dim 3 --method adadpals --no-split";
        let mut child = command.args(words(args)).args(ON_DISK).spawn().unwrap();
        let folder = format!("/proc/{}", child.id());
        let maps = || fs::read_to_string(format!("{folder}/maps")).unwrap_or_default();
        let is_open = || {
            let open = fs::read_dir(format!("{folder}/fd")).into_iter().flatten();
            open.filter_map(|file| fs::read_link(file.ok()?.path()).ok())
                .any(|file| file.to_string_lossy().contains("dp-scratch"))
        };
        let give_up = Instant::now() + Duration::from_secs(60);
        // while records are collected, and while they are trained on
        while Instant::now() < give_up
            && !(if round == 0 {
                is_open()
            } else {
                maps().contains("dp-scratch")
            })
        {}
        assert!(no_records());
        assert!(Instant::now() < give_up, "no file was seen");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(no_records());
    }
}
