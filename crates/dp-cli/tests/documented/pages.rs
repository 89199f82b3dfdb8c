//! Runs the commands of a page.

use std::path::{Path, PathBuf};

use crate::input_files;
use crate::markdown::{self, Step};
use crate::shell::Shell;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a page's commands in order. `expected` lists commands with an exit code other than 0,
/// identified by a part of them. Returns what they print.
#[track_caller]
pub(crate) fn run(page: &str, expected: &[(&str, i32)]) -> String {
    run_in_order(&[page], expected)
}

/// The same for several pages, each of which continues in the folder of the previous one.
#[track_caller]
pub(crate) fn run_in_order(pages: &[&str], expected: &[(&str, i32)]) -> String {
    let shell = Shell::new(&root());
    let printed = pages.iter().map(|page| run_in(&shell, page, expected));
    printed.collect()
}

#[track_caller]
fn run_in(shell: &Shell, page: &str, expected: &[(&str, i32)]) -> String {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    input_files::files(shell, page);
    let mut printed = String::new();
    let mut n_run = 0;
    for step in markdown::steps(&text) {
        match step {
            Step::File { name, content } => shell.write(&name, &content),
            Step::Run(line) => {
                let code = expected
                    .iter()
                    .find(|(part, _)| line.contains(part))
                    .map_or(0, |&(_, code)| code);
                let ran = shell.run(&line);
                assert_eq!(
                    ran.code, code,
                    "{page}: {line}\n{}\n{}",
                    ran.stdout, ran.stderr
                );
                printed += &ran.stdout;
                n_run += 1;
            }
        }
    }
    assert!(n_run > 0, "{page} prints no command");
    printed
}
