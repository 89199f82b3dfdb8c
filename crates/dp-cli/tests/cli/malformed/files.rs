//! The files used in the tables.

use std::fs;
use std::path::Path;

use super::table::{TARGET, cells};
use crate::input_files::gzip;
use crate::support::{Sandbox, ratings, words};

/// Files that no command expects, and valid ratings.
pub(super) fn plain() -> Sandbox {
    let sandbox = Sandbox::with_ratings();
    fs::create_dir(sandbox.path("folder")).unwrap();
    for cells in include_str!("files.txt")
        .lines()
        .filter(|line| line.contains('|') && !line.starts_with('#'))
    {
        let (name, content) = cells.split_once('|').unwrap();
        sandbox.write(
            name.trim(),
            bytes(content.strip_prefix(' ').unwrap_or_default()),
        );
    }
    let gzip = gzip(&ratings(40, 25, 10));
    sandbox.write("cut.csv.gz", &gzip[..gzip.len() / 2]);
    let level = "{\"mechanism\": \"repeated\", \"count\": 1, \"event\": ";
    let nested = level.repeat(5000) + "null" + &"}".repeat(5000);
    sandbox.write(
        "nested.json",
        format!("{{\"adjacency\": \"add-remove-user\", \"delta\": 1e-5, \"event\": {nested}}}"),
    );
    sandbox
}

/// Expands `\n`, `\t` and `\xHH`, repeated if ` * N` follows.
fn bytes(text: &str) -> Vec<u8> {
    if let Some((part, times)) = text.rsplit_once(" * ") {
        return bytes(part).repeat(times.parse().unwrap());
    }
    let mut pieces = text.split('\\');
    let mut found = pieces.next().unwrap().as_bytes().to_vec();
    for piece in pieces {
        let (kind, rest) = piece.split_at(1);
        match kind {
            "n" => found.push(b'\n'),
            "t" => found.push(b'\t'),
            "x" => found.push(u8::from_str_radix(&rest[..2], 16).unwrap()),
            other => panic!("\\{other} in {text}"),
        }
        found.extend_from_slice(&rest.as_bytes()[if kind == "x" { 2 } else { 0 }..]);
    }
    found
}

/// With a model and its ledger, intact and damaged.
pub(super) fn with_model() -> Sandbox {
    let sandbox = plain();
    fs::create_dir(sandbox.path("book")).unwrap();
    let ledger = ["--ledger", "book/l.ledger", "--ledger-epsilon", "1.5"];
    let more = ["--items", "all-items.csv", "--out", "model"];
    sandbox.write("all-items.csv", crate::support::catalogue(25));
    sandbox.train(&[&ledger[..], &more].concat()).exits(0);
    damage(&sandbox, &["model", "book"]);
    sandbox
}

/// With a model of every kind.
pub(super) fn with_models() -> Sandbox {
    let sandbox = with_model();
    sandbox
        .train(&["--out", "seeded", "--insecure-seed", "1"])
        .exits(0);
    sandbox
        .train(&["--out", "other", "--ledger", "other.ledger"])
        .exits(0);
    let items = (0..25).map(|item| format!("item-{item},{}\n", ["War", "Art"][item % 2]));
    sandbox.write(
        "genres.csv",
        "item,genres\n".to_owned() + &items.collect::<String>(),
    );
    let featured = words("--items genres.csv --method am-ssp --out featured");
    sandbox.train(&featured).exits(0);
    damage(&sandbox, &["featured"]);
    sandbox
}

/// With interrupted runs whose lists of releases were damaged afterwards.
pub(super) fn interrupted() -> Sandbox {
    let sandbox = crate::resume::killed();
    let whole = sandbox.read(crate::resume::LIST);
    let header = whole.iter().position(|&byte| byte == b'\n').unwrap();
    let mut flipped = whole.clone();
    flipped[header + 400] ^= 1;
    let newer = replaced(&whole, "\"schema_version\":2 => \"schema_version\":9");
    let forged = replaced(&whole, "\"insecure\":false => \"insecure\":true");
    for (out, list) in [
        ("flipped", &flipped[..]),
        ("newer", &newer),
        ("forged", &forged),
        ("other", b"my notes\nand more of them\n"),
    ] {
        let folder = format!(".{out}.partial");
        fs::create_dir(sandbox.path(&folder)).unwrap();
        sandbox.write(&format!("{folder}/.lock"), "");
        sandbox.write(&format!("{folder}/releases.list"), list);
    }
    sandbox
}

/// With models of labelled rows.
pub(super) fn with_groups() -> Sandbox {
    let sandbox = plain();
    let rows = (0..480_u32).map(|row| {
        let [a, b, c] = [3, 5, 7].map(|k| f64::from(row * k % 11) / 10.0 - 0.5);
        let y = f64::from(row / 8 % 5) + a + b - c;
        format!("u{},{y},{a},{b},{c}\n", row / 8)
    });
    sandbox.write(
        "rows.csv",
        "user,y,a,b,c\n".to_owned() + &rows.collect::<String>(),
    );
    for command in [
        "personalize rows.csv --rank 1 --out personal",
        "federate rows.csv --alpha-grid 1 --rounds 3 --out shared",
    ] {
        let line = format!("{command} {}", TARGET);
        sandbox.dp(&line.split(' ').collect::<Vec<_>>()).exits(0);
    }
    damage(&sandbox, &["personal", "shared"]);
    sandbox
}

/// Copies of these folders, each with one damaged file.
fn damage(sandbox: &Sandbox, folders: &[&str]) {
    for cells in cells(include_str!("damage.txt")) {
        let [copy, folder, file, how] = cells[..] else {
            panic!("not a row: {cells:?}");
        };
        if folders.contains(&folder) {
            for kind in ["", "-internal"] {
                let (from, to) = (format!("{folder}{kind}"), format!("{copy}{kind}"));
                if !sandbox.exists(&from) {
                    continue;
                }
                fs::create_dir(sandbox.path(&to)).unwrap();
                for entry in fs::read_dir(sandbox.path(&from)).unwrap() {
                    let path = entry.unwrap().path();
                    fs::copy(&path, sandbox.path(&to).join(path.file_name().unwrap())).unwrap();
                }
            }
            let kind = if file.starts_with("internal") {
                "-internal"
            } else {
                ""
            };
            spoil(&sandbox.path(&format!("{copy}{kind}")).join(file), how);
        }
    }
}

fn spoil(path: &Path, how: &str) {
    let whole = fs::read(path).unwrap();
    let bytes = match how {
        "cut" => whole[..whole.len() / 2].to_vec(),
        "empty" => Vec::new(),
        // a length of the header that would not fit into memory
        "huge" => [&[0xff; 8], &whole[8..]].concat(),
        "nan" => [&whole[..whole.len() - 8], &f64::NAN.to_le_bytes()].concat(),
        "gone" => return fs::remove_file(path).unwrap(),
        "folder" => {
            fs::remove_file(path).unwrap();
            return fs::create_dir(path).unwrap();
        }
        _ => match how.strip_prefix("+ ") {
            Some(tail) => [&whole[..], &bytes(tail)].concat(),
            None => replaced(&whole, how),
        },
    };
    fs::write(path, bytes).unwrap();
}

/// `OLD => NEW`, replaced at its first occurrence.
fn replaced(whole: &[u8], how: &str) -> Vec<u8> {
    let (old, new) = how.split_once(" => ").unwrap();
    let at = whole
        .windows(old.len())
        .position(|part| part == old.as_bytes());
    let at = at.unwrap_or_else(|| panic!("no {old}"));
    [&whole[..at], new.as_bytes(), &whole[at + old.len()..]].concat()
}
