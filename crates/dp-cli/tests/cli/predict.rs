//! `dp predict`: users fit their own models locally; nothing is spent and nothing is written.

use crate::personalize::{personalize, sandbox};
use crate::support::{Run, Sandbox, words};

const HISTORY: &str = "target,a,b,c,d,e,f\n\
    1.5,1,0,0,0.1,-0.3,0.2\n-0.5,-1,0,0,0.4,0.2,-0.1\n1.5,0,1,0,-0.2,0.3,0\n-0.5,0,0,1,0.3,0.1,0.3\n\
    0.5,0.5,0,0.5,-0.4,-0.2,0.1\n2.5,1,1,0,0.1,0.2,-0.3\n";

fn with_model(more: &[&str]) -> Sandbox {
    let sandbox = sandbox();
    let args = ["--epsilon", "10", "--ledger", "l.ledger", "--no-split"];
    personalize(&sandbox, &[&args[..], more].concat()).exits(0);
    sandbox.write("me.csv", HISTORY);
    sandbox
}

fn predict(sandbox: &Sandbox, more: &[&str]) -> Run {
    let args = ["predict", "--model", "dp-model", "--history", "me.csv"];
    sandbox.dp(&[&args[..], more].concat())
}

#[test]
fn somebody_new_is_folded_in_without_spending() {
    let sandbox = with_model(&[]);
    let (ledger, names) = (sandbox.read("l.ledger"), sandbox.names());
    sandbox.write("new.csv", "f,e,d,c,b,a\n0,0,0,0,1,1\n0,0,0,1,-1,-1\n");
    let rows = ["--rows", "new.csv", "--json"];
    let json = predict(&sandbox, &rows).exits(0).json();
    assert_eq!(json["provenance"], "private");
    let predicted: Vec<f64> = json["predictions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row[1].as_f64().unwrap())
        .collect();
    // level .5 and slope 1 along a + b - c
    assert!(
        (predicted[0] - 2.5).abs() < 0.5 && (predicted[1] + 2.5).abs() < 0.7,
        "{predicted:?}"
    );
    assert_eq!(sandbox.read("l.ledger"), ledger);
    assert_eq!(
        sandbox.names(),
        [&names[..], &["new.csv".to_owned()]].concat()
    );
    assert_eq!(predict(&sandbox, &rows).exits(0).json(), json);
}

#[test]
fn a_model_without_a_certificate_that_covers_it_is_refused() {
    let sandbox = with_model(&[]);
    let whole = sandbox.read("dp-model/certificate.json");
    sandbox.write("dp-model/certificate.json", &whole[..whole.len() / 2]);
    predict(&sandbox, &[])
        .exits(6)
        .says(&["dp-model/certificate.json: the certificate does not hold"]);
    std::fs::remove_file(sandbox.path("dp-model/certificate.json")).unwrap();
    predict(&sandbox, &[])
        .exits(4)
        .says(&["dp-model: holds a model without its certificate.json"]);
}

/// Rows that name no user are of the only one whose history it is, and of a stranger otherwise.
#[test]
fn rows_without_users_are_of_the_only_user() {
    let sandbox = with_model(&[]);
    sandbox.write("new.csv", "a,b,c,d,e,f\n1,1,0,0,0,0\n-1,-1,1,0,0,0\n");
    let rows = ["--rows", "new.csv", "--json"];
    let values = |sandbox: &Sandbox| -> Vec<f64> {
        let json = predict(sandbox, &rows).exits(0).json();
        let rows = json["predictions"].as_array().unwrap();
        rows.iter().map(|row| row[1].as_f64().unwrap()).collect()
    };
    let of_only = values(&sandbox);
    let named = |second: &str| {
        let with_users = HISTORY.replace("target,", "user,target,");
        let lines = with_users.replace("\n1.5", "\nann,1.5");
        let lines = lines
            .replace("\n0.5", "\nann,0.5")
            .replace("\n2.5", "\nann,2.5");
        lines.replace("\n-0.5", &format!("\n{second},-0.5"))
    };
    sandbox.write("me.csv", named("ann"));
    assert_eq!(values(&sandbox), of_only);
    sandbox.write("me.csv", named("bob"));
    let of_strangers = values(&sandbox);
    assert!(
        (of_strangers[0] - of_strangers[1]).abs() < 1.0,
        "{of_strangers:?}"
    );
    assert!((of_only[0] - of_only[1]).abs() > 3.0, "{of_only:?}");
}

/// The history as four rows of ann and two of bob, with this user column.
fn of_ann_and_bob(column: &str) -> String {
    let owners = [
        ("1.5", "ann"),
        ("-0.5", "bob"),
        ("0.5", "ann"),
        ("2.5", "ann"),
    ];
    let named = HISTORY.replace("target,", &format!("{column},target,"));
    owners.iter().fold(named, |history, (target, owner)| {
        history.replace(&format!("\n{target}"), &format!("\n{owner},{target}"))
    })
}

#[test]
fn rows_come_back_in_their_order_with_their_users() {
    let sandbox = with_model(&[]);
    sandbox.write("me.csv", of_ann_and_bob("user"));
    sandbox.write(
        "new.csv",
        "user,a,b,c,d,e,f\nbob,1,0,0,0,0,0\nann,1,0,0,0,0,0\nnobody,1,0,0,0,0,0\nbob,0,0,0,0,0,0\n",
    );
    let run = predict(&sandbox, &["--rows", "new.csv"]).exits(0);
    let users: Vec<&str> = run
        .stdout
        .lines()
        .map(|line| line.split(',').next().unwrap())
        .collect();
    assert_eq!(users, ["user", "bob", "ann", "nobody", "bob"]);
    let line = |at: usize| run.stdout.lines().nth(at).unwrap().to_owned();
    // without rows there is nothing but the middle
    assert_eq!(line(3), "nobody,0");
    assert_ne!(line(1).strip_prefix("bob"), line(2).strip_prefix("ann"));
    let coefficients = predict(&sandbox, &[]).exits(0).stdout;
    assert!(
        coefficients.starts_with("user,rows,level,a,b,c,d,e,f\nann,4,"),
        "{coefficients}"
    );
}

#[test]
fn users_are_told_apart_by_the_column_of_training() {
    let sandbox = with_model(&[]);
    let rows = sandbox.text("data.csv").replacen("user", "Patient", 1);
    sandbox.write("data.csv", rows);
    let named = words("--user-col Patient --force --epsilon 10 --no-split");
    personalize(&sandbox, &named).exits(0);
    sandbox.write("me.csv", of_ann_and_bob("Patient"));
    sandbox.write("new.csv", "a,b,c,d,e,f,Patient\n1,0,0,0,0,0,bob\n");
    let named = predict(&sandbox, &words("--rows new.csv --user-col Patient"));
    let unnamed = predict(&sandbox, &words("--rows new.csv")).exits(0);
    assert!(unnamed.stdout.contains("bob,") && !unnamed.stderr.contains("warning"));
    assert_eq!(unnamed.stdout, named.exits(0).stdout);
    sandbox.write("me.csv", HISTORY); // of one user, without the column
    predict(&sandbox, &[]).exits(0).prints(&["\n,6,"]);
    let more = "a,b,c,d,e,f,Patient\n1,0,0,0,0,0,bob\n1,0,0,0,0,0,ann\n";
    sandbox.write("new.csv", more);
    let pooled = predict(&sandbox, &words("--rows new.csv")).exits(0);
    pooled.says(&["the history names no users", "predicts for all 2 users"]);
}

#[test]
fn ranges_and_classes_of_the_model_are_used() {
    let sandbox = with_model(&["--target-range", "-1,1", "--feature-range", "-2,2"]);
    sandbox.write("new.csv", "a,b,c,d,e,f\n900,900,-900,0,0,0\n");
    let rows = ["--rows", "new.csv"];
    let run = predict(&sandbox, &rows).exits(0);
    assert_eq!(run.stdout, "user,target\n,1\n");
    let classes = ["--task", "classification", "--out", "cls"];
    personalize(&sandbox, &[&classes[..], &["--threshold", "0"]].concat()).exits(0);
    let args = words("predict --model cls --history me.csv --rows new.csv --json");
    let probability = sandbox.dp(&args).exits(0).json()["predictions"][0][1]
        .as_f64()
        .unwrap();
    assert!((0.0..=1.0).contains(&probability));
}

#[test]
fn both_classes_of_a_user_count_alike_where_they_are_to() {
    let sandbox = with_model(&[]);
    let classes = ["--task", "classification", "--threshold", "2"];
    personalize(&sandbox, &[&classes[..], &["--out", "cls"]].concat()).exits(0);
    // the user has one target above it
    let (yes, no) = (1.0_f64, 5.0);
    sandbox.write("new.csv", "a,b,c,d,e,f\n0.1,0,0,0,0,0\n");
    let log_odds = |model: &str, more: &str| {
        let args = format!("predict --model {model} --history me.csv --rows new.csv --json {more}");
        let run = sandbox.dp(&words(&args)).exits(0).json();
        let p = run["predictions"][0][1].as_f64().unwrap();
        (p / (1.0 - p)).ln()
    };
    let alike = log_odds("cls", "");
    let same = |a: f64, b: f64| a.to_bits() == b.to_bits();
    assert!(same(log_odds("cls", "--class-weight none"), alike));
    let found = log_odds("cls", "--class-weight balanced") - alike;
    let expected = (no / yes).ln();
    assert!((found - expected).abs() < 1e-9, "{found}, {expected}");
    // a user with rows of one class alone keeps the odds
    sandbox.write("me.csv", HISTORY.replace("\n2.5", "\n1.5"));
    let balanced = log_odds("cls", "--class-weight balanced");
    assert!(same(balanced, log_odds("cls", "")));
    predict(&sandbox, &["--class-weight", "balanced"])
        .exits(2)
        .says(&["class-weight", "number"]);
}

#[test]
fn models_and_rows_that_cannot_be_used_are_refused() {
    let sandbox = with_model(&[]);
    sandbox.write("new.csv", "a,b,c,d,e,f\nnan,0,0,0,0,0\n");
    predict(&sandbox, &["--rows", "new.csv"])
        .exits(4)
        .says(&["new.csv", "NaN"]);
    sandbox.write("new.csv", "a,b,c,d,e\n0,0,0,0,0\n");
    predict(&sandbox, &["--rows", "new.csv"])
        .exits(4)
        .says(&["feature"]);
    predict(&sandbox, &["--user-col", "who"])
        .exits(4)
        .says(&["who"]);
    sandbox.write("me.csv", "a,b,c,d,e,f\n0,0,0,0,0,0\n");
    predict(&sandbox, &[]).exits(4).says(&["target"]);
    sandbox.write("me.csv", HISTORY);
    let name = "dp-model/subspace.safetensors";
    let whole = sandbox.read(name);
    for length in [0, 8, 40, whole.len() / 2, whole.len() - 1] {
        sandbox.write(name, &whole[..length]);
        predict(&sandbox, &[]).exits(4).says(&[name]);
    }
    let text = String::from_utf8_lossy(&whole).into_owned();
    for (from, to) in [
        (r#"schema_version\":4"#, r#"schema_version\":7"#),
        (r#"rank\":1"#, r#"rank\":2"#),
        (r#"sparse\":0"#, r#"sparse\":7"#),
    ] {
        let at = text
            .find(from)
            .unwrap_or_else(|| panic!("{from} in the header"));
        let mut bytes = whole.clone();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        sandbox.write(name, bytes);
        predict(&sandbox, &[]).exits(4).says(&[name]);
    }
    std::fs::remove_file(sandbox.path(name)).unwrap();
    predict(&sandbox, &[]).exits(4).says(&["holds neither"]);
}

#[test]
fn a_seeded_model_warns() {
    let sandbox = sandbox();
    personalize(&sandbox, &["--insecure-seed", "1"]).exits(0);
    sandbox.write("me.csv", HISTORY);
    predict(&sandbox, &[]).exits(0).says(&["not private"]);
}

#[test]
fn users_weigh_unless_penalties_are_given_and_older_readers_are_told() {
    let header = |more: &[&str]| {
        let sandbox = with_model(more);
        predict(&sandbox, &[]).exits(0);
        let bytes = sandbox.read("dp-model/subspace.safetensors");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let weighed = header(&[]);
    assert!(weighed.contains(r#"schema_version\":4"#) && weighed.contains(r#"l2_penalties\":[]"#));
    let given = header(&["--l2-penalty", "0.1,1"]);
    assert!(
        given.contains(r#"schema_version\":1"#) && given.contains(r#"l2_penalties\":[0.1,1.0]"#)
    );
}

/// With a range of the target, users' levels are released: who has no rows gets their mean, and who has one is near it.
#[test]
fn users_with_no_row_or_one_are_near_the_mean_of_users() {
    let sandbox = Sandbox::new();
    let mut data = "user,a,b,target\n".to_owned();
    for user in 0..400_u32 {
        for row in 0..6_u32 {
            let at = |k: u32| f64::from((user * 7 + row * k + k * k) % 19) / 9.0 - 1.0;
            let target = 70.0 + f64::from(user % 5) + 3.0 * at(3) + 8.0 * at(11);
            data += &format!("u{user},{},{},{target}\n", at(3), at(5));
        }
    }
    sandbox.write("data.csv", data);
    let line = "personalize data.csv --rank 1 --epsilon 5 --delta 1e-6 --no-ledger --no-split --target-range 0,100";
    sandbox.dp(&words(line)).exits(0);
    sandbox.write("me.csv", "user,a,b,target\nann,0,0,95\n");
    sandbox.write("new.csv", "user,a,b\nann,0,0\nnobody,0,0\n");
    let line = "predict --model dp-model --history me.csv --rows new.csv";
    let answer = sandbox.dp(&words(line)).exits(0).stdout;
    let answers: Vec<f64> = answer
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap().parse().unwrap())
        .collect();
    // the mean is 72; its noise has a standard deviation of about one percent of the half range
    assert!((answers[1] - 72.0).abs() < 5.0, "{answers:?}");
    // most of the variance is within users, so one row moves the level by less than half
    assert!(answers[0] > answers[1] && answers[0] < 84.0, "{answers:?}");
    let report = sandbox.text("dp-model/report.md");
    for title in ["Variance that features explain", "Variance between users"] {
        assert!(report.contains(title), "{report}");
    }
    sandbox.dp(&words("verify dp-model")).exits(0);
}
