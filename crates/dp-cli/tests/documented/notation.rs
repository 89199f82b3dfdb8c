//! Compares the terms in `docs/notation.md` with the public signatures of the crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::pages::root;

/// The sources of the library crates.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !["tests", "target", "dp-cli", "dp-reproduce"].contains(&&*name) {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                found.push(path);
            }
        }
    }
    found
}

fn all_code() -> String {
    let read = |path: PathBuf| without_comments(&fs::read_to_string(path).unwrap());
    sources().into_iter().map(read).collect()
}

/// Code of every library crate by its name.
pub(crate) fn library_code() -> BTreeMap<String, String> {
    let crates = root().join("crates");
    let mut code = BTreeMap::new();
    let mut paths = sources();
    paths.sort();
    for path in paths {
        let within = path.strip_prefix(&crates).unwrap();
        let name = within.iter().next().unwrap().to_string_lossy().into_owned();
        let text = without_comments(&fs::read_to_string(&path).unwrap());
        code.entry(name).or_insert_with(String::new).push_str(&text);
    }
    code
}

/// Words of public signatures, each with one place where it occurs.
fn public_words() -> BTreeMap<String, String> {
    let mut words = BTreeMap::new();
    for path in sources() {
        add_words(&path, &mut words);
    }
    words
}

fn add_words(path: &Path, words: &mut BTreeMap<String, String>) {
    let text = fs::read_to_string(path).unwrap();
    for signature in signatures(&without_comments(&text)) {
        for word in words_of(&signature) {
            let place = format!("{}: {}", path.display(), signature.trim());
            words.entry(word.to_owned()).or_insert(place);
        }
    }
}

fn words_of(code: &str) -> impl Iterator<Item = &str> {
    let split = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    code.split(split).filter(|word| !word.is_empty())
}

/// The code of a file before its tests, without comments.
fn without_comments(text: &str) -> String {
    let code = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap()
        .lines();
    let code = code.filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| [line, "\n"]).collect()
}

/// From `pub` at the start of a line: functions up to their body, anything else to the end of the line.
fn signatures(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines: Vec<&str> = code.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let line = line.trim_start();
        if !line.starts_with("pub ") {
            continue;
        }
        let is_function = line.split('(').next().unwrap().contains("fn ");
        let rest = if is_function {
            lines[at..].join("\n")
        } else {
            line.to_owned()
        };
        let end = rest.find(['{', ';', '=']).unwrap_or(rest.len());
        found.push(rest[..end].trim().to_owned());
    }
    found
}

/// Words in backticks in a column of the table under `heading`.
fn column(page: &str, heading: &str, column: usize) -> Vec<String> {
    let (_, section) = page.split_once(heading).unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    let cells = rows.filter_map(|row| row.split('|').nth(column + 1));
    let spans = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    spans.map(str::to_owned).collect()
}

#[test]
fn one_name_per_idea() {
    let page = fs::read_to_string(root().join("docs/notation.md")).unwrap();
    let words = public_words();
    assert!(words.len() > 500, "{}", words.len());
    let banned = column(&page, "## Other words for the same", 0);
    assert!(banned.len() > 20);
    for word in banned {
        assert!(!words.contains_key(&word), "`{word}`: {}", words[&word]);
    }
}

#[test]
fn names_of_the_table_exist() {
    let page = fs::read_to_string(root().join("docs/notation.md")).unwrap();
    let code = all_code();
    let words: BTreeSet<&str> = words_of(&code).collect();
    for name in column(&page, "# Notation", 0) {
        assert!(words.contains(&*name), "`{name}` is nowhere in the code");
    }
}

#[test]
fn signatures_are_found() {
    let code = "// pub no\npub fn a(\n    b: c,\n) -> d {\n}\npub struct E {\n    // eta\n    pub f: g,\n    h: i,\n}\npub const J: k = 1;\n";
    let expected = [
        "pub fn a(\n    b: c,\n) -> d",
        "pub struct E",
        "pub f: g,",
        "pub const J: k",
    ];
    assert_eq!(signatures(&without_comments(code)), expected);
}
