//! Pages in separate folders, and files left there by earlier reports.

use std::fs;

use super::{page, trained};
use crate::support::names_in;

#[test]
fn elsewhere_stands_only_what_may_be_published_unless_the_rest_is_asked_for() {
    let sandbox = trained();
    let released = ["report-items.csv", "report.html", "report.md"];
    let args = ["report", "dp-model", "--out", "pages"];
    let run = sandbox.dp(&args).exits(0);
    assert!(!run.stdout.contains("internal"), "{}", run.stdout);
    assert_eq!(names_in(&sandbox.path("pages")), released);
    sandbox.dp(&[&args[..], &["--internal"]].concat()).exits(0);
    let internal = ["internal.html", "internal.md"];
    assert_eq!(names_in(&sandbox.path("pages")), released);
    assert_eq!(names_in(&sandbox.path("pages-internal")), internal);
    // files written by one report do not remain next to the pages of the next
    sandbox.write("pages/notes.txt", "mine");
    sandbox.write("pages-internal/internal.html.1.partial", "1.25");
    sandbox
        .train(&["--out", "seeded", "--insecure-seed", "1"])
        .exits(0);
    sandbox
        .dp(&["report", "seeded", "--out", "pages", "--internal"])
        .exits(0);
    let seeded = ["notes.txt", "report.html", "report.md"];
    assert_eq!(names_in(&sandbox.path("pages")), seeded);
    assert_eq!(names_in(&sandbox.path("pages-internal")), internal);
    sandbox.dp(&args).exits(0);
    assert_eq!(
        names_in(&sandbox.path("pages")),
        ["notes.txt", "report-items.csv", "report.html", "report.md"]
    );
    assert_eq!(names_in(&sandbox.path("pages-internal")), [""; 0]);
}

#[test]
fn pages_of_one_run_do_not_go_to_the_folder_of_another() {
    let sandbox = trained();
    sandbox.train(&["--out", "other"]).exits(0);
    let before = names_in(&sandbox.path("other"));
    sandbox
        .dp(&["report", "dp-model", "--out", "other"])
        .exits(2)
        .says(&["--out other", "another run"]);
    assert_eq!(names_in(&sandbox.path("other")), before);
    // its own folder is treated as if none were given
    sandbox
        .dp(&["report", "other", "--out", "other", "--internal"])
        .exits(0);
    assert!(sandbox.exists("other-internal/internal.html"));
}

#[test]
fn the_short_internal_report_of_a_run_goes_only_after_its_page() {
    let sandbox = trained();
    fs::remove_file(sandbox.path("dp-model-internal/internal.json")).unwrap();
    sandbox.dp(&["report", "dp-model"]).exits(0);
    assert!(page(&sandbox, "internal.md").contains("RMSE"));
    sandbox.write("dp-model-internal/internal.html", "of an earlier report");
    sandbox.dp(&["report", "dp-model"]).exits(0);
    assert!(
        !sandbox.exists("dp-model-internal/internal.html")
            && !sandbox.exists("dp-model-internal/internal.md")
    );
}

#[test]
fn beside_a_private_run_one_that_is_not_private_is_named_and_left_out() {
    let sandbox = trained();
    sandbox
        .train(&["--out", "seeded", "--insecure-seed", "1"])
        .exits(0);
    let released = "it may be shown to anyone";
    sandbox.dp(&["report", "dp-model"]).exits(0);
    assert!(page(&sandbox, "report.html").contains(released));
    for folders in [["dp-model", "seeded"], ["seeded", "dp-model"]] {
        let args = [&["report", "--out", "pages", "--json"][..], &folders].concat();
        let json = sandbox.dp(&args).exits(0).json();
        assert_eq!(json["private"], false);
        let html = sandbox.text("pages/report.html");
        assert!(html.contains("NOT PRIVATE: seeded. The values of these runs"));
        assert!(html.contains("Do not publish this page") && !html.contains(released));
        assert!(!html.contains("<p class=\"kind\">Released</p>"));
        let text = sandbox.text("pages/report.md");
        let row = text.lines().find(|line| line.starts_with("| seeded |"));
        assert!(row.unwrap().ends_with("| \u{2013} |"), "{row:?}");
        assert!(!text.contains("Items above the noise against epsilon"));
        assert_eq!(
            sandbox.exists("pages/report-items.csv"),
            folders[0] == "dp-model"
        );
    }
}
