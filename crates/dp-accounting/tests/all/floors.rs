//! Module dependencies: the engines import nothing else from this crate; the books and the
//! questions import the engines and not each other.

use std::fs;
use std::path::{Path, PathBuf};

/// Every source file below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .collect()
}

/// The paths that follow each `crate::` outside comments: one name, or all names between braces.
fn roots(text: &str) -> Vec<String> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code: Vec<&str> = text.lines().filter(is_code).collect();
    let code = code.join("\n");
    let mut roots = Vec::new();
    for after in code.split("crate::").skip(1) {
        let names = match after.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap(),
            None => after
                .split([':', ';', ' ', ',', '(', '<', '>', ')'])
                .next()
                .unwrap(),
        };
        let names = names
            .split(',')
            .map(|name| name.split("::").next().unwrap());
        let names = names.map(|name| name.trim().to_owned());
        roots.extend(names.filter(|name| !name.is_empty()));
    }
    roots
}

fn check(floor: &str, allowed: &[&str]) {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = sources(&src.join(floor));
    assert!(files.len() > 4, "{floor}: hardly any files");
    for file in files {
        for root in roots(&fs::read_to_string(&file).unwrap()) {
            assert!(
                allowed.contains(&root.as_str()),
                "{} imports crate::{root}",
                file.display()
            );
        }
    }
}

#[test]
fn engines_stand_on_nothing_else() {
    check("engines", &["engines", "Error", "Result"]);
}

#[test]
fn questions_stand_on_the_engines() {
    check("questions", &["questions", "engines", "Error", "Result"]);
}

/// The books may use whatever the crate exports except the questions.
#[test]
fn books_ask_no_questions() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in sources(&src.join("books")) {
        let roots = roots(&fs::read_to_string(&file).unwrap());
        assert!(
            roots.iter().all(|root| root != "questions"),
            "{}",
            file.display()
        );
    }
}
