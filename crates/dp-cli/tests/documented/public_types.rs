//! Checks the requirements of decision 0039 on public types, based on the sources: settings can be
//! written to and read from files and have a starting point, and every public type can be obtained
//! by callers.

use std::collections::{BTreeMap, BTreeSet};

use crate::notation::library_code;

/// A public struct or enum.
struct Type {
    name: String,
    /// Attributes and documentation above it.
    above: String,
    /// From its name to its closing brace or semicolon.
    body: String,
}

/// Suffixes of the names of settings, which a caller fills in.
const SETTINGS: [&str; 5] = ["Params", "Setup", "Columns", "Fractions", "Shares"];

/// Types that are read from files without being settings: releases, certificates and models, whose
/// readers check them and their schema, findings of audits, and guarantees. They may have fields of
/// later versions.
const NOT_SETTINGS: [&str; 31] = [
    "ApproxDp",
    "Artifact",
    "BlackBoxAudit",
    "Bounds",
    "Certificate",
    "Check",
    "Column",
    "EpsilonAudit",
    "FrequencyAudit",
    "Gdp",
    "Guarantee",
    "GuessingGame",
    "Inputs",
    "KeptRound",
    "NoiseWatch",
    "NoisyCounts",
    "Project",
    "RangeAudit",
    "ReleaseAudit",
    "ReleaseRecord",
    "ReleasedOutput",
    "RunAudit",
    "RunSettings",
    "SamplerAudit",
    "SamplingAudit",
    "SensitivityAudit",
    "SharedModel",
    "Status",
    "Task",
    "TaskModels",
    "Zcdp",
];

impl Type {
    /// Whether files contain such a type with named fields.
    fn has_fields_in_files(&self) -> bool {
        let mut lines = self.body.lines();
        let head = lines.next().unwrap_or_default();
        let of_enum = || {
            let mut variants = lines.filter(|line| !line.trim_start().starts_with('#'));
            variants.any(|line| line.contains(['{', '(']))
        };
        let is_enum = head.starts_with("pub enum");
        self.above.contains("Deserialize") && head.ends_with('{') && (!is_enum || of_enum())
    }

    /// Whether an unknown field is an error. Types that are read through a validating type reject
    /// unknown fields themselves, and so do variants whose name is stored outside of them.
    fn refuses_unknown_fields(&self) -> bool {
        let refuses = ["deny_unknown_fields", "try_from"];
        let is_outside = self.body.starts_with("pub enum") && !self.above.contains("tag = ");
        is_outside || refuses.iter().any(|word| self.above.contains(word))
    }

    fn has_default(&self, code: &str) -> bool {
        self.above.contains("Default") || code.contains(&format!("Default for {}", self.name))
    }
}

fn public_types(code: &str) -> Vec<Type> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let rest = line
            .strip_prefix("pub struct ")
            .or(line.strip_prefix("pub enum "));
        let Some(rest) = rest else { continue };
        let is_attribute = |line: &&&str| line.starts_with('#') || line.starts_with([' ', ')']);
        let above = lines[..at].iter().rev().take_while(is_attribute).copied();
        let ends = |line: &str| line.starts_with('}') || line.ends_with(';');
        let length = lines[at..].iter().position(|line| ends(line)).unwrap_or(0);
        found.push(Type {
            name: rest
                .split(|c: char| !c.is_alphanumeric())
                .next()
                .unwrap()
                .to_owned(),
            above: above.collect::<Vec<_>>().join("\n"),
            body: lines[at..=at + length].join("\n"),
        });
    }
    found
}

/// Code of each crate, and its public types.
fn by_crate() -> BTreeMap<String, (String, Vec<Type>)> {
    let with_types = |code: String| {
        let types = public_types(&code);
        (code, types)
    };
    let code = library_code().into_iter();
    code.map(|(name, code)| (name, with_types(code))).collect()
}

/// What a function returns.
fn given(line: &str) -> &str {
    line.split_once("->").unwrap_or_default().1
}

/// What a public field holds, or a buffer that a contribution works with.
fn held(line: &str) -> &str {
    let line = line.trim_start();
    let field = line
        .strip_prefix("pub ")
        .and_then(|rest| rest.split_once(": "));
    let scratch = line.strip_prefix("type Scratch").map(|rest| ("", rest));
    field.or(scratch).unwrap_or_default().1
}

/// Whether the type's own functions return one.
fn is_built(name: &str, code: &str) -> bool {
    let mut inside = false;
    code.lines().any(|line| {
        if line.starts_with("impl") {
            let head = line.split(" for ").last().unwrap_or_default();
            inside = head
                .split(|c: char| !c.is_alphanumeric())
                .any(|word| word == name);
        }
        inside && line.contains("-> ") && line.contains("Self")
    })
}

/// Whether the first line of a struct leaves all fields of a tuple public.
fn is_open_head(line: &str) -> bool {
    let fields = line.split_once('(').map(|(_, fields)| fields);
    fields.is_none_or(|fields| {
        fields
            .split(',')
            .all(|field| field.trim_start().starts_with("pub "))
    })
}

#[test]
fn settings_go_to_files_and_can_be_begun_with() {
    let (mut without_files, mut without_start) = (Vec::new(), Vec::new());
    let mut n_found = 0;
    for (of_crate, (code, types)) in by_crate() {
        let is_setting = |found: &&Type| SETTINGS.iter().any(|end| found.name.ends_with(end));
        for found in types.iter().filter(is_setting) {
            n_found += 1;
            let name = format!("{of_crate}: {}", found.name);
            let in_files = ["Serialize", "Deserialize"];
            if !in_files.iter().all(|word| found.above.contains(word)) {
                without_files.push(name.clone());
            }
            if !(found.has_default(&code) || is_built(&found.name, &code)) {
                without_start.push(name);
            }
        }
    }
    assert!(n_found > 20, "{n_found}");
    let none: [String; 0] = [];
    assert_eq!(without_files, none, "settings that do not go to files");
    assert_eq!(without_start, none, "settings without default and builder");
}

#[test]
fn fields_that_nobody_knows_are_refused() {
    let (mut lenient, mut not_settings, mut n_found) = (Vec::new(), Vec::new(), 0);
    for (of_crate, (_, types)) in by_crate() {
        for found in types.iter().filter(|found| found.has_fields_in_files()) {
            n_found += 1;
            if found.refuses_unknown_fields() {
                continue;
            }
            if NOT_SETTINGS.contains(&&*found.name) {
                not_settings.push(found.name.clone());
            } else {
                lenient.push(format!("{of_crate}: {}", found.name));
            }
        }
    }
    assert!(n_found > 90, "{n_found}");
    let none: [String; 0] = [];
    assert_eq!(lenient, none, "read with fields that nobody knows");
    not_settings.sort();
    assert_eq!(not_settings, NOT_SETTINGS, "no longer an exception");
}

#[test]
fn every_public_struct_can_be_come_by() {
    let all = by_crate();
    let lines = all.values().flat_map(|(code, _)| code.lines());
    let at_hand: BTreeSet<&str> = lines
        .flat_map(|line| [given(line), held(line)])
        .flat_map(|of| of.split(|c: char| !c.is_alphanumeric()))
        .collect();
    let mut hidden = Vec::new();
    for (of_crate, (own, types)) in &all {
        for found in types
            .iter()
            .filter(|found| found.body.starts_with("pub struct"))
        {
            let name = &found.name;
            let fields = found
                .body
                .lines()
                .skip(1)
                .filter(|line| line.contains(": ") && !line.trim().starts_with('#'));
            let open = fields
                .clone()
                .all(|line| line.trim_start().starts_with("pub "))
                && found.body.lines().next().is_some_and(is_open_head);
            if !(open
                || found.has_default(own)
                || at_hand.contains(name.as_str())
                || is_built(name, own))
            {
                hidden.push(format!("{of_crate}: {name}"));
            }
        }
    }
    let none: [String; 0] = [];
    assert_eq!(hidden, none, "public, and nobody can come by one");
}
