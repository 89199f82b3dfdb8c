//! `dp verify`, from the point of view of an auditor.

use dp_accounting::{Certificate, Making};

use crate::support::Sandbox;

#[test]
fn a_fresh_certificate_holds_as_folder_and_as_file() {
    let sandbox = Sandbox::with_model();
    let folder = sandbox.dp(&["verify", "dp-model"]).exits(0);
    folder.prints(&["certificate.json holds"]);
    assert!(
        folder
            .stdout
            .contains("epsilon   1.0000    add or remove one user")
    );
    assert!(
        folder
            .stdout
            .contains("the model is the one that the certificate was issued for\npages such as the model card were compared with manifest.json only")
    );
    let file = sandbox
        .dp(&["verify", "dp-model/certificate.json"])
        .exits(0);
    file.prints(&["model not compared"]);

    let json = sandbox
        .dp(&["verify", "dp-model", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (&json["verified"], &json["private"]),
        (&true.into(), &true.into())
    );
    assert_eq!(json["files_compared"], true);
    assert_eq!(json["n_releases"], 13);
    assert!(json["guarantee"]["epsilon"].as_f64().unwrap() <= 1.0);
}

#[test]
fn a_certificate_stands_without_its_model() {
    let sandbox = Sandbox::with_model();
    sandbox.write("alone.json", sandbox.read("dp-model/certificate.json"));
    sandbox.dp(&["verify", "alone.json"]).exits(0);
}

#[test]
fn one_changed_digit_is_found_wherever_it_is() {
    let sandbox = Sandbox::with_model();
    let whole = sandbox.read("dp-model/certificate.json");
    let digits: Vec<usize> = (0..whole.len())
        .filter(|&at| whole[at].is_ascii_digit())
        .collect();
    for &at in digits.iter().step_by(digits.len() / 60) {
        let mut edited = whole.clone();
        edited[at] = if edited[at] == b'9' {
            b'8'
        } else {
            edited[at] + 1
        };
        sandbox.write("edited.json", &edited);
        let run = sandbox.dp(&["verify", "edited.json"]).exits(6);
        assert_eq!(run.stdout, "", "digit {at} of {}", whole.len());
    }
}

#[test]
fn a_better_epsilon_is_found_by_name() {
    let sandbox = Sandbox::with_model();
    let text = sandbox.text("dp-model/certificate.json");
    let better = text.replacen("\"epsilon\": 1.0,", "\"epsilon\": 0.5,", 1);
    assert_ne!(text, better);
    sandbox.write("better.json", better);
    sandbox
        .dp(&["verify", "better.json"])
        .exits(6)
        .says(&["better.json: the certificate does not hold"]);
}

#[test]
fn what_is_no_certificate_is_refused() {
    let sandbox = Sandbox::with_model();
    let whole = sandbox.read("dp-model/certificate.json");
    sandbox.write("cut.json", &whole[..whole.len() / 2]);
    sandbox.write("binary.json", [0xff, 0xfe, 0x00]);
    for (name, code) in [("cut.json", 6), ("binary.json", 4), ("ratings.csv", 4)] {
        sandbox
            .dp(&["verify", name])
            .exits(code)
            .says(&["not a certificate"]);
    }
    sandbox
        .dp(&["verify", "nowhere.json"])
        .exits(4)
        .says(&["cannot read nowhere.json"]);
    std::fs::create_dir(sandbox.path("empty")).unwrap();
    sandbox
        .dp(&["verify", "empty"])
        .exits(4)
        .says(&["certificate.json"]);
}

#[test]
fn a_newer_certificate_is_refused() {
    let sandbox = Sandbox::with_model();
    let text = sandbox.text("dp-model/certificate.json");
    sandbox.write(
        "newer.json",
        text.replacen("\"schema_version\": 3", "\"schema_version\": 7", 1),
    );
    sandbox
        .dp(&["verify", "newer.json"])
        .exits(6)
        .says(&["schema 7"]);
}

#[test]
fn a_certificate_beside_another_runs_model_is_found() {
    let sandbox = Sandbox::with_model();
    sandbox.train(&["--out", "other"]).exits(0);
    for file in ["item_factors.safetensors", "items.csv"] {
        let kept = sandbox.read(&format!("dp-model/{file}"));
        let mut other = sandbox.read(&format!("other/{file}"));
        other.push(b'\n');
        sandbox.write(&format!("dp-model/{file}"), other);
        let run = sandbox.dp(&["verify", "dp-model"]).exits(6);
        run.says(&[file, "is not the file that the certificate was issued for"]);
        sandbox.write(&format!("dp-model/{file}"), kept);
    }
    sandbox.dp(&["verify", "dp-model"]).exits(0);
    std::fs::remove_file(sandbox.path("dp-model/items.csv")).unwrap();
    sandbox
        .dp(&["verify", "dp-model"])
        .exits(6)
        .says(&["items.csv"]);
}

#[test]
fn a_certificate_that_names_no_model_does_not_vouch_for_the_one_beside_it() {
    let sandbox = Sandbox::with_model();
    let text = sandbox.text("dp-model/certificate.json");
    let mut certificate = dp_accounting::Certificate::from_json(&text).unwrap();
    certificate.artifacts.clear();
    // binding another file recomputes the digest
    let certificate = certificate.with_artifact("other.txt", b"");
    sandbox.write("dp-model/certificate.json", certificate.to_json());
    sandbox.dp(&["verify", "dp-model"]).exits(6);
    sandbox
        .dp(&["verify", "dp-model/certificate.json"])
        .exits(0);
}

#[test]
fn the_ledger_that_paid_is_told_from_another() {
    let sandbox = Sandbox::with_model();
    let paid = ["--out", "paid", "--ledger", "ratings.ledger"];
    sandbox.train(&paid).exits(0);
    let before = sandbox.read("ratings.ledger");
    let run = sandbox
        .dp(&["verify", "paid", "--ledger", "ratings.ledger"])
        .exits(0);
    assert!(
        run.stdout
            .contains("every release was paid for in ratings.ledger")
    );
    let json = sandbox
        .dp(&["verify", "paid", "--ledger", "ratings.ledger", "--json"])
        .exits(0)
        .json();
    assert_eq!(json["ledger_compared"], true);
    assert_eq!(json["statement"]["unit"], "user");
    // the other model was charged to a ledger in memory
    sandbox
        .dp(&["verify", "dp-model", "--ledger", "ratings.ledger"])
        .exits(6)
        .says(&["the ledger does not hold release"]);
    assert_eq!(sandbox.read("ratings.ledger"), before);
    sandbox.write("cut.ledger", &before[..before.len() / 2]);
    sandbox
        .dp(&["verify", "paid", "--ledger", "cut.ledger"])
        .exits(6);
    for missing in ["nowhere.ledger", "ratings.csv"] {
        sandbox
            .dp(&["verify", "paid", "--ledger", missing])
            .exits(5)
            .says(&[missing]);
    }
}

#[test]
fn the_statement_says_what_the_figures_mean() {
    let sandbox = Sandbox::with_model();
    let run = sandbox.dp(&["verify", "dp-model"]).exits(0);
    for part in [
        "what it means",
        "at most 2.72",
        "at most 8.5 %",
        "covered",
        "tuning",
    ] {
        assert!(run.stdout.contains(part), "{part} in {}", run.stdout);
    }
}

#[test]
fn a_model_that_cannot_be_recomputed_here_is_told_from_one_that_differs() {
    let sandbox = Sandbox::with_ratings();
    sandbox.train(&["--publish-releases"]).exits(0);
    let verify = |more: &[&str]| sandbox.dp(&[&["verify", "dp-model"], more].concat());
    let recompute = ["--recompute"];
    verify(&recompute).exits(0);
    let own = Certificate::from_json(&sandbox.text("dp-model/certificate.json")).unwrap();
    let issue = |mut certificate: Certificate, name: &str| {
        certificate.artifacts.retain(|file| file.name != name);
        let bytes = sandbox.read(&format!("dp-model/{name}"));
        sandbox.issue("dp-model", &certificate.with_artifact(name, &bytes));
    };

    // by a version whose last digits differ
    let report = sandbox.text("dp-model/report.json");
    let newer = report.replacen("\"numerics\": ", "\"numerics\": 999", 1);
    assert_ne!(report, newer);
    sandbox.write("dp-model/report.json", newer);
    issue(own.clone(), "report.json");
    verify(&[]).exits(0);
    let says = ["numerics 999", "use that version"];
    verify(&recompute).exits(4).says(&says);
    let json = verify(&["--recompute", "--json"]).exits(4).json();
    assert_eq!(json["recomputed"]["result"], "cannot");
    sandbox.write("dp-model/report.json", report);

    // with other last digits, on this processor and on another one
    let name = "item_factors.safetensors";
    let mut model = sandbox.read(&format!("dp-model/{name}"));
    *model.last_mut().unwrap() ^= 1;
    sandbox.write(&format!("dp-model/{name}"), model);
    issue(own.clone(), name);
    verify(&recompute).exits(6);
    let made = own.made.clone().unwrap();
    let elsewhere = own.with_making(Making {
        instructions: "of another processor".to_owned(),
        ..made
    });
    issue(elsewhere, name);
    verify(&[]).exits(0);
    verify(&recompute).exits(4).says(&["of another processor"]);
}
