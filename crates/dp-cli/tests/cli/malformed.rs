//! A table of command lines and files that make no sense. Each ends with the documented exit code
//! and a message that names the argument or the file; nothing panics, nothing is printed as a
//! result, and no file appears, vanishes or changes.

use crate::support::Sandbox;

/// What `TARGET` stands for in a row.
const TARGET: &str = "--epsilon 1 --delta 1e-5";

/// Arguments, exit code, a part of the message.
type Row = (&'static str, i32, &'static str);

const TRAIN: &[Row] = &[
    ("train", 2, "<RATINGS>"),
    ("train ratings.csv", 2, "--epsilon <E>"),
    ("train ratings.csv --epsilon 1", 2, "--delta <D>"),
    (
        "train ratings.csv --epsilon --delta 1e-5",
        2,
        "--epsilon <E>",
    ),
    (
        "train ratings.csv --epsilon NaN --delta 1e-5",
        2,
        "--epsilon is NaN",
    ),
    (
        "train ratings.csv --epsilon -1 --delta 1e-5",
        2,
        "--epsilon is -1",
    ),
    (
        "train ratings.csv --epsilon 1 --delta -1e-5",
        2,
        "--delta is -",
    ),
    (
        "train ratings.csv --epsilon 1e308 --delta 1e-5",
        2,
        "smaller --epsilon",
    ),
    (
        "train ratings.csv --epsilon -1e-320 --delta 1e-5",
        2,
        "--epsilon is -",
    ),
    (
        "train ratings.csv --epsilon 1 --delta 1e-400",
        2,
        "--delta is 0",
    ),
    (
        "train ratings.csv --epsilon 1 --epsilon 2 --delta 1e-5",
        2,
        "--epsilon",
    ),
    ("train ratings.csv TARGET --epsilom 2", 2, "--epsilom"),
    ("train ratings.csv TARGET --dim 1e9", 2, "--dim"),
    (
        "train ratings.csv TARGET --dim 99999999999999999999",
        2,
        "--dim",
    ),
    (
        "train ratings.csv TARGET --steps 4294967296",
        2,
        "--steps is 4294967296",
    ),
    (
        "train ratings.csv TARGET --count-share 1e-30",
        2,
        "--count-share",
    ),
    ("train ratings.csv TARGET --ledger-epsilon 3", 2, "--ledger"),
    ("train ratings.csv TARGET --resume state", 2, "--ledger"),
    (
        "train ratings.csv TARGET --no-split --split-seed 3",
        2,
        "--split-seed",
    ),
    (
        "train ratings.csv TARGET --ledger no/where.ledger",
        2,
        "there is no folder no",
    ),
    (
        "train ratings.csv TARGET --out ..",
        2,
        "--out .. does not name a folder",
    ),
    (
        "train missing.csv TARGET",
        4,
        "missing.csv: cannot be opened",
    ),
    ("train folder TARGET", 4, "folder: cannot be read"),
    (
        "train empty TARGET",
        4,
        "empty: expected at least one record",
    ),
    ("train zeros TARGET", 4, "zeros:1"),
    ("train latin1.csv TARGET", 4, "latin1.csv:2"),
    (
        "train cut.csv.gz TARGET",
        4,
        "cut.csv.gz: the gzip data is damaged or cut short",
    ),
    ("train broken.json TARGET", 4, "broken.json:1"),
    (
        "train model/item_factors.safetensors TARGET",
        4,
        "item_factors.safetensors:1",
    ),
    (
        "train ratings.csv TARGET --items missing.csv",
        4,
        "missing.csv: cannot be opened",
    ),
    (
        "train ratings.csv TARGET --items folder",
        4,
        "folder: cannot be read",
    ),
    (
        "train ratings.csv TARGET --ledger broken.json",
        5,
        "broken.json",
    ),
    ("train ratings.csv TARGET --ledger folder", 5, "folder"),
    ("train ratings.csv TARGET --out model", 7, "model exists"),
    (
        "train ratings.csv TARGET --out ratings.csv",
        7,
        "ratings.csv exists",
    ),
    (
        "train ratings.csv TARGET --out ratings.csv/model",
        7,
        "cannot write ratings.csv",
    ),
    (
        "train ratings.csv TARGET --out ratings.csv --force",
        2,
        "ratings.csv lies in the output folder",
    ),
];

const AUDIT: &[Row] = &[
    ("audit --epsilon --delta 1e-5", 2, "--epsilon"),
    ("audit", 2, "--epsilon <E>"),
    ("audit TARGET --epsilon 2", 2, "--epsilon"),
    ("audit --epsilon inf --delta 1e-5", 2, "--epsilon is inf"),
    ("audit --epsilon 1 --delta 1", 2, "--delta is 1"),
    ("audit --epsilon 1e5 --delta 1e-5", 2, "smaller --epsilon"),
    ("audit TARGET --dim 257", 2, "--dim is 257"),
    ("audit TARGET --canaries 0", 2, "--canaries is 0"),
    ("audit TARGET --canaries 10001", 2, "--canaries is 10001"),
    ("audit TARGET --canaries -5", 2, "--canaries"),
    ("audit TARGET --runs 0", 2, "--runs is 0"),
    ("audit TARGET --runs 1e3", 2, "--runs"),
    ("audit TARGET --runs 18446744073709551615", 2, "--runs is"),
    (
        "audit TARGET --runs 1 --canaries 1",
        2,
        "--canaries times --runs is 1",
    ),
    ("audit TARGET --confidence 1", 2, "--confidence is 1"),
    ("audit TARGET --confidence nan", 2, "--confidence is NaN"),
    ("audit TARGET --items items.csv", 2, "RATINGS"),
    ("audit TARGET --no-split", 2, "RATINGS"),
    ("audit ratings.csv TARGET --ledger l.ledger", 2, "--ledger"),
    (
        "audit missing.csv TARGET",
        4,
        "missing.csv: cannot be opened",
    ),
    ("audit folder TARGET", 4, "folder: cannot be read"),
    ("audit latin1.csv TARGET", 4, "latin1.csv:2"),
    ("audit cut.csv.gz TARGET", 4, "cut.csv.gz: the gzip data"),
    (
        "audit ratings.csv TARGET --rating-col stars",
        4,
        "looked for stars",
    ),
];

const QUESTIONS: &[Row] = &[
    ("account", 2, "<FILE>"),
    ("account missing.json", 4, "missing.json"),
    ("account folder", 4, "folder"),
    ("account empty", 4, "empty"),
    ("account zeros", 4, "zeros"),
    ("account latin1.csv", 4, "latin1.csv"),
    ("account broken.json", 4, "broken.json"),
    ("account deep.json", 4, "deep.json"),
    ("account list.json", 4, "list.json"),
    ("account text-for-number.json", 4, "text-for-number.json"),
    ("account beyond-f64.json", 4, "beyond-f64.json"),
    ("account no-cases.json --json --json", 2, "--json"),
    ("account cut.csv.gz", 4, "cut.csv.gz"),
    ("calibrate", 2, "--epsilon"),
    ("calibrate TARGET --steps nan", 2, "--steps"),
    (
        "calibrate TARGET --steps 10 --sampling-probability 2",
        2,
        "--sampling-probability",
    ),
    (
        "calibrate TARGET --steps 0 --sampling-probability 0.5",
        2,
        "--steps",
    ),
    (
        "calibrate TARGET --steps 10 --noise-multiplier -1",
        2,
        "--noise-multiplier",
    ),
    ("calibrate TARGET --steps 10", 2, "--"),
    (
        "calibrate TARGET --steps 10 --sampling-probability 1 --noise-multiplier 3",
        2,
        "--",
    ),
    ("calibrate TARGET --adjacency everyone", 2, "everyone"),
    ("calibrate deep.json --steps 3", 2, "--steps"),
    ("calibrate deep.json", 4, "deep.json"),
    ("calibrate text-for-number.json", 4, "text-for-number.json"),
    ("calibrate folder", 4, "folder"),
];

const MODELS: &[Row] = &[
    ("verify", 2, "<CERTIFICATE>"),
    ("verify missing.json", 4, "missing.json"),
    ("verify folder", 4, "certificate.json"),
    ("verify empty", 6, "empty"),
    ("verify broken.json", 6, "broken.json"),
    ("verify deep.json", 6, "deep.json"),
    ("verify list.json", 6, "list.json"),
    ("verify cut.csv.gz", 6, "cut.csv.gz"),
    ("verify model --ledger missing.ledger", 5, "missing.ledger"),
    ("verify model --ledger folder", 5, "folder"),
    ("verify model --ledger broken.json", 5, "broken.json"),
    ("verify model model", 2, "model"),
    ("recommend --model model", 2, "--history"),
    ("recommend --model missing --history mine.csv", 4, "missing"),
    (
        "recommend --model ratings.csv --history mine.csv",
        4,
        "ratings.csv",
    ),
    ("recommend --model folder --history mine.csv", 4, "folder"),
    (
        "recommend --model model --history missing.csv",
        4,
        "missing.csv: cannot be opened",
    ),
    ("recommend --model model --history folder", 4, "folder"),
    (
        "recommend --model model --history latin1.csv",
        4,
        "latin1.csv",
    ),
    (
        "recommend --model model --history cut.csv.gz",
        4,
        "cut.csv.gz",
    ),
    (
        "recommend --model model --history mine.csv -k 0",
        2,
        "-k is 0",
    ),
    ("recommend --model model --history mine.csv -k 1.5", 2, "-k"),
    ("demo --data-seed -1", 2, "--data-seed"),
    ("demo --out ratings.csv", 7, "ratings.csv exists"),
    ("", 2, "Usage"),
    ("trian ratings.csv", 2, "trian"),
];

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
    let event = |noise: &str, epsilon: &str| {
        format!(
            "{{\"adjacency\": \"add-remove-user\", \"delta\": 1e-5{epsilon}, \"event\": \
             {{\"mechanism\": \"gaussian\", \"noise_multiplier\": {noise}, \"replace_factor\": \"two\"}}}}"
        )
    };
    sandbox.write("text-for-number.json", event("\"3\"", ""));
    sandbox.write("beyond-f64.json", event("1e999", ""));
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
fn check(rows: &[Row]) {
    let sandbox = sandbox();
    let before = contents(&sandbox);
    let mut wrong = Vec::new();
    for &(line, code, part) in rows {
        let line = line.replace("TARGET", TARGET);
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
    check(TRAIN);
}

#[test]
fn of_audits() {
    check(AUDIT);
}

#[test]
fn of_questions() {
    check(QUESTIONS);
}

#[test]
fn of_models() {
    check(MODELS);
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
