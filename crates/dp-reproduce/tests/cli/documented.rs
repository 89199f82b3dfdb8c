//! Runs every command of the pages about reproductions as printed, with `--quick` and one seed.

use crate::pages;

#[test]
#[ignore = "heavy: part of CI"]
fn heavy_reproductions() {
    pages::run("docs/reproductions.md", &[]);
}

#[test]
fn readme() {
    pages::run("crates/dp-reproduce/README.md", &[]);
}

#[test]
fn researchers() {
    pages::run("docs/roles/researcher.md", &[]);
}

#[test]
#[ignore = "heavy: part of CI"]
fn heavy_results() {
    pages::run("docs/results.md", &[]);
}
