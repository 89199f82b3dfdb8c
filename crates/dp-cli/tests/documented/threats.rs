//! Checks that the tests named in `docs/threats.md` exist.

use std::fs;
use std::path::{Path, PathBuf};

use crate::markdown::spans;
use crate::pages::root;

/// Crate and path of every test named in a text.
fn named(text: &str) -> Vec<(String, String)> {
    let of_crate = |span: &String| {
        let (name, path) = span.split_once(' ')?;
        let is_test = name.starts_with("dp-") && path.contains("::") && !path.contains(' ');
        is_test.then(|| (name.to_owned(), path.to_owned()))
    };
    spans(text).iter().filter_map(of_crate).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Whether the crate has a test with this path: a function below `#[test]` in the file of the
/// module, or in the `tests` within it.
fn exists(of_crate: &str, path: &str) -> bool {
    let mut modules: Vec<&str> = path.split("::").collect();
    let name = modules.pop().unwrap_or_default();
    let files = |modules: &[&str]| {
        let file = PathBuf::from_iter(modules);
        [file.with_extension("rs"), file.join("mod.rs")]
    };
    let mut places = files(&modules).to_vec();
    if let Some(("tests", within)) = modules.split_last().map(|(last, rest)| (*last, rest)) {
        places.extend(files(within));
    }
    let mut all = Vec::new();
    for part in ["src", "tests"] {
        sources(&root().join("crates").join(of_crate).join(part), &mut all);
    }
    let of_module = all
        .iter()
        .filter(|file| places.iter().any(|place| file.ends_with(place)));
    let head = format!("fn {name}(");
    of_module
        .map(|file| fs::read_to_string(file).unwrap())
        .any(|code| {
            let above = code.split_once(&head).map(|(above, _)| above);
            let attributes = above.and_then(|above| above.rsplit("\n\n").next());
            attributes.is_some_and(|attributes| attributes.contains("#[test]"))
        })
}

#[test]
fn every_threat_names_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/threats.md")).unwrap();
    let missing: Vec<_> = named(&page)
        .into_iter()
        .filter(|(of_crate, path)| !exists(of_crate, path))
        .collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.contains("| shown by |"));
    let mut n_rows = 0;
    for row in rows {
        assert!(!named(row).is_empty(), "no test shows it: {row}");
        n_rows += 1;
    }
    assert!(n_rows > 30, "{n_rows}");
}

#[test]
fn tests_that_do_not_exist_are_missed() {
    let text = "`dp-cli publish::x`, `cargo test -p dp-cli a::b` and `dp-mechanism grid::tests::y`";
    let expected = [("dp-cli", "publish::x"), ("dp-mechanism", "grid::tests::y")];
    assert_eq!(
        named(text),
        expected.map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
    let test = "exactly_the_released_files_are_copied_and_verify_where_they_are";
    assert!(exists("dp-cli", &format!("publish::{test}")));
    for wrong in ["publish::x", &format!("verify::{test}"), "support::new"] {
        assert!(!exists("dp-cli", wrong), "{wrong}");
    }
    assert!(!exists("dp-core", &format!("publish::{test}")));
}
