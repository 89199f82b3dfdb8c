//! `dp publish`, and folders that hold more than may be published.

use std::fs;

use crate::support::{Sandbox, names_in, words};
use crate::{federate, personalize};

const PUBLISHED: [&str; 8] = [
    "certificate.json",
    "item_factors.safetensors",
    "items.csv",
    "manifest.json",
    "model-card.json",
    "model-card.md",
    "report.json",
    "report.md",
];

#[test]
fn exactly_the_released_files_are_copied_and_verify_where_they_are() {
    let sandbox = Sandbox::with_model();
    let run = sandbox.dp(&["publish", "dp-model", "site/model"]).exits(0);
    for name in PUBLISHED {
        run.prints(&[&format!("site/model/{name}\n")]);
        let copy = sandbox.read(&format!("site/model/{name}"));
        assert_eq!(copy, sandbox.read(&format!("dp-model/{name}")), "{name}");
    }
    assert_eq!(run.stderr, "");
    assert_eq!(names_in(&sandbox.path("site/model")), PUBLISHED);
    assert_eq!(names_in(&sandbox.path("site")), ["model"]);
    sandbox.dp(&["verify", "site/model"]).exits(0);
    // pages of dp report are released too
    sandbox.dp(&["report", "dp-model"]).exits(0);
    sandbox.dp(&["verify", "dp-model"]).exits(0);
    let found = words("publish dp-model pages --json");
    let found = sandbox.dp(&found).exits(0).json();
    assert_eq!(found["files"].as_array().unwrap().len(), 10);
    assert_eq!(found["left_out"], serde_json::json!([]));
    sandbox.dp(&["verify", "pages"]).exits(0);
    assert!(sandbox.exists("pages/report.html") && !sandbox.exists("pages-internal"));
}

#[test]
fn a_folder_with_a_file_that_is_not_released_fails_and_its_copy_does_not_have_it() {
    let sandbox = Sandbox::with_model();
    for name in ["internal.md", "users.csv", ".hidden"] {
        let path = format!("dp-model/{name}");
        sandbox.write(&path, "| users | 40 |");
        sandbox.dp(&["verify", "dp-model"]).exits(6).says(&[
            &format!("{path} is not covered by the certificate"),
            "dp publish",
        ]);
        let publish = ["publish", "dp-model", "to-publish", "--force"];
        sandbox
            .dp(&publish)
            .exits(0)
            .says(&[&format!("{path}: left out")]);
        assert_eq!(names_in(&sandbox.path("to-publish")), PUBLISHED);
        sandbox.dp(&["verify", "to-publish"]).exits(0);
        fs::remove_file(sandbox.path(&path)).unwrap();
    }
    // not even where the list of files names it
    sandbox.write("dp-model/internal.md", "| users | 40 |");
    let list = sandbox.text("dp-model/manifest.json");
    let hash = list.split("\"report.md\": \"").nth(1).unwrap();
    let hash = hash.split('"').next().unwrap();
    let named = list.replace(
        "\"report.md\"",
        &format!("\"internal.md\": \"{hash}\", \"report.md\""),
    );
    sandbox.write("dp-model/manifest.json", named);
    for command in [&["verify", "dp-model"][..], &["publish", "dp-model", "x"]] {
        sandbox.dp(command).exits(6).says(&["internal.md"]);
    }
    assert!(!sandbox.exists("x"));
    sandbox.write("dp-model/manifest.json", &list);
    fs::remove_file(sandbox.path("dp-model/internal.md")).unwrap();
    fs::create_dir(sandbox.path("dp-model/folder")).unwrap();
    sandbox
        .dp(&["verify", "dp-model"])
        .exits(6)
        .says(&["folder"]);
}

#[test]
fn a_released_file_that_was_changed_or_is_missing_is_found() {
    let sandbox = Sandbox::with_model();
    let publish = ["publish", "dp-model", "to-publish"];
    for name in ["report.md", "report.json", "items.csv", "model-card.json"] {
        let path = format!("dp-model/{name}");
        let whole = sandbox.read(&path);
        sandbox.write(&path, [&whole[..], b"RMSE 0.9\n"].concat());
        for command in [&["verify", "dp-model"][..], &publish] {
            sandbox.dp(command).exits(6).says(&[&path]);
        }
        fs::remove_file(sandbox.path(&path)).unwrap();
        for command in [&["verify", "dp-model"][..], &publish] {
            sandbox.dp(command).exits(6).says(&[&path]);
        }
        sandbox.write(&path, whole);
    }
    assert!(!sandbox.exists("to-publish") && !sandbox.exists(".to-publish.partial"));
    // the list of another run
    sandbox.train(&["--out", "other"]).exits(0);
    let list = sandbox.read("dp-model/manifest.json");
    sandbox.write(
        "dp-model/manifest.json",
        sandbox.read("other/manifest.json"),
    );
    sandbox
        .dp(&["verify", "dp-model"])
        .exits(6)
        .says(&["manifest.json", "another certificate"]);
    sandbox.write("dp-model/manifest.json", list);
    sandbox.dp(&publish).exits(0);
}

#[test]
fn without_its_list_of_files_a_folder_does_not_pass() {
    let sandbox = Sandbox::with_model();
    fs::remove_file(sandbox.path("dp-model/manifest.json")).unwrap();
    let private = sandbox.read("dp-model-internal/internal.md");
    sandbox.write("dp-model/report.md", private);
    for command in [&["verify", "dp-model"][..], &["publish", "dp-model", "x"]] {
        sandbox.dp(command).exits(6).says(&["manifest.json"]);
    }
    assert!(!sandbox.exists("x"));
}

#[test]
fn what_a_run_needs_while_it_goes_on_does_not_belong_in_a_finished_folder() {
    let sandbox = Sandbox::with_model();
    for name in [
        ".paid",
        ".released",
        "held.json",
        "run.json",
        ".lock",
        ".moving",
    ] {
        let path = format!("dp-model/{name}");
        sandbox.write(&path, "| users | 40 |");
        let verified = sandbox.dp(&["verify", "dp-model"]).exits(6);
        verified.says(&[&format!("{path} is not covered by the certificate")]);
        fs::remove_file(sandbox.path(&path)).unwrap();
    }
    sandbox.dp(&["verify", "dp-model"]).exits(0);
}

#[test]
fn what_is_there_is_replaced_only_when_asked_or_empty() {
    let sandbox = Sandbox::with_model();
    fs::create_dir(sandbox.path("empty")).unwrap();
    sandbox.dp(&["publish", "dp-model", "empty"]).exits(0);
    assert_eq!(names_in(&sandbox.path("empty")), PUBLISHED);
    fs::create_dir(sandbox.path("full")).unwrap();
    sandbox.write("full/notes.txt", "mine");
    sandbox
        .dp(&["publish", "dp-model", "full"])
        .exits(7)
        .says(&["full exists", "--force"]);
    assert_eq!(names_in(&sandbox.path("full")), ["notes.txt"]);
    fs::create_dir(sandbox.path("full-internal")).unwrap();
    let forced = ["publish", "dp-model", "full", "--force"];
    let refused = sandbox.dp(&forced).exits(7);
    refused.says(&["full is not replaced"]);
    sandbox.write("full/certificate.json", "{}");
    sandbox.dp(&forced).exits(0);
    assert_eq!(names_in(&sandbox.path("full")), PUBLISHED);
    assert!(sandbox.exists("full-internal"), "not of the copy");
    for dest in [
        "dp-model",
        "dp-model/copy",
        "dp-model/new/copy",
        "new/../dp-model/new/copy",
        "dp-model-internal/new/copy",
        ".",
    ] {
        sandbox
            .dp(&["publish", "dp-model", dest, "--force"])
            .exits(2)
            .says(&["DEST"]);
    }
    sandbox.dp(&["verify", "dp-model"]).exits(0);
}

#[test]
fn a_model_without_privacy_is_not_published() {
    let sandbox = Sandbox::with_ratings();
    sandbox.train(&["--insecure-seed", "1"]).exits(0);
    sandbox
        .dp(&["publish", "dp-model", "copy"])
        .exits(6)
        .says(&["promises no privacy", "nothing was published"]);
    assert!(!sandbox.exists("copy"));
}

#[test]
fn models_of_every_command_are_published_without_what_they_measured() {
    let groups = personalize::sandbox();
    personalize::personalize(&groups, &["--publish-releases"]).exits(0);
    let shared = federate::sandbox();
    federate::federate(&shared, &[]).exits(0);
    for (sandbox, model) in [
        (groups, "subspace.safetensors"),
        (shared, "shared.safetensors"),
    ] {
        sandbox.dp(&["publish", "dp-model", "copy"]).exits(0);
        sandbox.dp(&["verify", "copy"]).exits(0);
        let names = names_in(&sandbox.path("copy"));
        assert_eq!(names, names_in(&sandbox.path("dp-model")));
        assert!(names.iter().any(|name| name == model));
        assert!(names.iter().all(|name| !name.starts_with("internal")));
    }
}

#[test]
fn a_copy_that_exists_is_told_without_flags_that_the_command_lacks() {
    let sandbox = Sandbox::with_model();
    sandbox.dp(&["publish", "dp-model", "copy"]).exits(0);
    let run = sandbox.dp(&["publish", "dp-model", "copy"]).exits(7);
    assert!(!run.stderr.contains("--out"), "{}", run.stderr);
    run.says(&["choose another folder for the output, or pass --force"]);
}

#[test]
fn a_list_that_was_edited_publishes_nothing_of_its_own() {
    let sandbox = Sandbox::with_model();
    sandbox.dp(&["report", "dp-model"]).exits(0);
    let list = sandbox.value("dp-model/manifest.json");
    let listed = |name: &str, text: &str| {
        let mut list = list.clone();
        list["files"][name] = dp_accounting::sha256_hex(text.as_bytes()).into();
        sandbox.write("dp-model/manifest.json", list.to_string());
        sandbox.write(&format!("dp-model/{name}"), text);
    };
    // pages follow from the certificate, whatever they say
    for name in [
        "model-card.md",
        "report.md",
        "report.html",
        "report-items.csv",
    ] {
        let own = sandbox.read(&format!("dp-model/{name}"));
        listed(name, "RMSE 0.9 for zqx-user-7");
        sandbox
            .dp(&["publish", "dp-model", "copy", "--force"])
            .exits(0);
        assert!(!sandbox.text(&format!("copy/{name}")).contains("zqx-user-7"));
        sandbox.dp(&["verify", "copy"]).exits(0);
        sandbox.write(&format!("dp-model/{name}"), own);
    }
    // nothing else has the name of a file of a model
    listed("notes.txt", "zqx-user-7");
    for command in [&["verify", "dp-model"][..], &["publish", "dp-model", "x"]] {
        sandbox
            .dp(command)
            .exits(6)
            .says(&["notes.txt", "no file of a model"]);
    }
    assert!(!sandbox.exists("x"));
}
