//! A table of command lines and files that make no sense. Each ends with the documented exit code
//! and a message that names the argument or the file; nothing panics, nothing is printed as a
//! result, and no file appears, vanishes or changes.

use crate::support::Sandbox;

/// Arguments, exit code and a part of the message, by section.
const TABLE: &str = include_str!("malformed.txt");

/// What `TARGET` stands for in a row.
const TARGET: &str = "--epsilon 1 --delta 1e-5";

struct Row {
    line: String,
    code: i32,
    part: &'static str,
}

fn rows(section: &str) -> Vec<Row> {
    let (_, rest) = TABLE.split_once(&format!("\n[{section}]\n")).unwrap();
    let rows = rest.lines().take_while(|line| !line.is_empty());
    rows.map(|row| {
        let cells: Vec<&'static str> = row.split(" | ").map(str::trim).collect();
        let [line, code, part] = cells[..] else {
            panic!("not a row: {row}");
        };
        Row {
            line: line.replace("TARGET", TARGET),
            code: code.parse().unwrap(),
            part,
        }
    })
    .collect()
}

/// A model, its ratings, and files that are nothing of the kind.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_model();
    // so that a row which is accepted by mistake leaves a folder
    std::fs::rename(sandbox.path("dp-model"), sandbox.path("model")).unwrap();
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox.write("empty", "");
    sandbox.write("zeros", [0; 4096]);
    sandbox.write("latin1.csv", b"user,item,rating\nann,item-1,\xe9\n");
    let gzip = crate::input_files::gzip(&crate::support::ratings(40, 25, 10));
    sandbox.write("cut.csv.gz", &gzip[..gzip.len() / 2]);
    sandbox.write("mine.csv", "item,rating\nitem-1,5\n");
    sandbox.write("broken.json", "{\"cases\": [{\"id\": ");
    sandbox.write("deep.json", "[".repeat(100_000));
    sandbox.write("list.json", "[1, 2, 3]");
    sandbox.write(
        "no-cases.json",
        "{\"schema_version\": 1, \"units\": \"nats\", \"cases\": []}",
    );
    let event = |event: &str| {
        format!("{{\"adjacency\": \"add-remove-user\", \"delta\": 1e-5, \"event\": {event}}}")
    };
    let gaussian = |noise: &str| {
        event(&format!(
            "{{\"mechanism\": \"gaussian\", \"noise_multiplier\": {noise}, \"replace_factor\": \"two\"}}"
        ))
    };
    sandbox.write("text-for-number.json", gaussian("\"3\""));
    sandbox.write("beyond-f64.json", gaussian("1e999"));
    let level = "{\"mechanism\": \"repeated\", \"count\": 1, \"event\": ";
    let nested = level.repeat(5000) + "null" + &"}".repeat(5000);
    sandbox.write("nested.json", event(&nested));
    sandbox
}

/// Every file below the folder with its content.
fn contents(sandbox: &Sandbox) -> Vec<(std::path::PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut folders = vec![sandbox.path("")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.push((path.clone(), std::fs::read(path).ok()));
        }
    }
    found.sort();
    found
}

#[track_caller]
fn check(section: &str) {
    let sandbox = sandbox();
    let before = contents(&sandbox);
    let mut wrong = Vec::new();
    for Row { line, code, part } in rows(section) {
        let run = sandbox.dp(&line.split_whitespace().collect::<Vec<_>>());
        let told = run.stderr.contains(part) && !run.stderr.contains("panicked");
        let clean = run.stdout.is_empty() && contents(&sandbox) == before;
        if run.code != code || !told || !clean {
            wrong.push(format!(
                "dp {line}\n  expected {code} and `{part}`, found {} (clean: {clean})\n{}{}",
                run.code, run.stderr, run.stdout
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn of_training() {
    check("train");
}

#[test]
fn of_audits() {
    check("audit");
}

#[test]
fn of_questions() {
    check("questions");
}

#[test]
fn of_models() {
    check("models");
}

/// A name that is no UTF-8 is shown with a mark in its place; a file of that name is read.
#[test]
#[cfg(unix)]
fn file_names_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let sandbox = Sandbox::with_ratings();
    let name = OsStr::from_bytes(b"r\xff.csv");
    let train = || {
        let mut command = sandbox.command();
        command.arg("train").arg(name).args(TARGET.split(' '));
        crate::support::Run::from(command.output().unwrap())
    };
    train().exits(4).says(&["r\u{fffd}.csv: cannot be opened"]);
    std::fs::copy(sandbox.path("ratings.csv"), sandbox.path("").join(name)).unwrap();
    train().exits(0);
    let mut command = sandbox.command();
    command
        .args(["audit", "--epsilon"])
        .arg(OsStr::from_bytes(b"\xff"));
    let run = crate::support::Run::from(command.output().unwrap());
    run.exits(2).says(&["--epsilon"]);
}
