//! A folder in which the program under test runs, and data for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use dp_accounting::Certificate;
use serde_json::Value;
use tempfile::TempDir;

/// The result of one run of `dp`.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Checks the exit code and that nothing panicked; on failure prints the output.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "stdout: {}\nstderr: {}",
            self.stdout, self.stderr
        );
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// Checks that the error message contains each of these.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "no `{part}` in: {}",
                self.stderr
            );
        }
        self
    }

    /// Checks that standard output contains each of these.
    #[track_caller]
    pub(crate) fn prints(&self, parts: &[&str]) {
        for part in parts {
            assert!(
                self.stdout.contains(part),
                "no `{part}` in: {}",
                self.stdout
            );
        }
    }

    /// Parses standard output as exactly one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).expect("standard output is one JSON value")
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("dp ended by itself"),
            stdout: String::from_utf8(output.stdout).expect("output is text"),
            stderr: String::from_utf8(output.stderr).expect("errors are text"),
        }
    }
}

/// A folder in which `dp` runs.
pub(crate) struct Sandbox(TempDir);

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with `ratings.csv`: 40 users, 25 items, 10 ratings each.
    pub(crate) fn with_ratings() -> Self {
        let sandbox = Self::new();
        sandbox.write("ratings.csv", ratings(40, 25, 10));
        sandbox
    }

    /// The same with a model trained on them at epsilon 1 in `dp-model`.
    pub(crate) fn with_model() -> Self {
        let sandbox = Self::with_ratings();
        sandbox.train(&[]).exits(0);
        sandbox
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    /// A file of one JSON value.
    pub(crate) fn value(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).unwrap()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }

    /// Puts a certificate into a folder of released files, and its statement into their list.
    pub(crate) fn issue(&self, folder: &str, certificate: &Certificate) {
        let manifest = format!("{folder}/manifest.json");
        let mut list = self.value(&manifest);
        list["certificate"] = certificate.digest.clone().into();
        let files = list["files"].as_object_mut().unwrap();
        files.remove("certificate.json");
        files.retain(|name, _| self.exists(&format!("{folder}/{name}")));
        for file in &certificate.artifacts {
            files.insert(file.name.clone(), file.sha256.clone().into());
        }
        self.write(&manifest, list.to_string());
        self.write(&format!("{folder}/certificate.json"), certificate.to_json());
    }

    /// Names of everything in the folder, including hidden files, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        names_in(self.0.path())
    }

    /// The program under test. If its arguments name no ledger, each run is counted separately.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.program(crate::BINARY);
        command.env("DP_NO_LEDGER", "1");
        command
    }

    /// A program that runs in the folder.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.current_dir(self.0.path()).stdin(Stdio::null());
        // the environment of whoever runs the tests must not affect them
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("DP_") {
                command.env_remove(name);
            }
        }
        // the ids of generated items are public
        command.env("DP_ITEM_IDS_ARE_PUBLIC", "1");
        command
    }

    /// Runs the program under test with these arguments and environment variables.
    pub(crate) fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Run {
        let mut command = self.command();
        command.args(args).envs(env.iter().copied());
        command.output().unwrap().into()
    }

    /// Runs the program under test with these arguments.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.run_with(args, &[])
    }

    /// Runs `dp` with these arguments, and with `--new-ledger` if they name a ledger that does not
    /// exist: most tests begin with one. [`run`](Self::run) adds nothing.
    pub(crate) fn dp(&self, args: &[&str]) -> Run {
        let named = args.windows(2).find(|pair| pair[0] == "--ledger");
        let is_made = ["--ledger-epsilon", "--new-ledger"]
            .iter()
            .any(|flag| args.contains(flag));
        match named {
            Some(pair) if !is_made && args[0] != "verify" && !self.exists(pair[1]) => {
                self.run(&[args, &["--new-ledger"]].concat())
            }
            _ => self.run(args),
        }
    }

    /// Runs `dp train ratings.csv --epsilon 1 --delta 1e-5` with further arguments.
    pub(crate) fn train(&self, more: &[&str]) -> Run {
        let mut args = vec!["train", "ratings.csv", "--epsilon", "1", "--delta", "1e-5"];
        args.extend(more);
        self.dp(&args)
    }
}

/// Whether a text contains a whole number. Digits of another number, before or after its decimal
/// point, do not count: noisy values contain arbitrary digits.
pub(crate) fn states_number(text: &str, number: usize) -> bool {
    let number = number.to_string();
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '.');
    words.any(|word| word.trim_matches('.') == number)
}

pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Prefix of every user id in [`ratings`]; nothing that is released may contain it.
pub(crate) const USER: &str = "zqx-user-";

/// Ratings as csv, the same for every call: user `u` rates `per_user` neighbours of item `7 u`.
pub(crate) fn ratings(n_users: usize, n_items: usize, per_user: usize) -> String {
    let mut text = "user,item,rating\n".to_owned();
    for user in 0..n_users {
        for step in 0..per_user {
            let item = (7 * user + step) % n_items;
            let rating = 1 + (user * 31 + item * 17) % 5;
            text.push_str(&format!("{USER}{user},item-{item},{rating}\n"));
        }
    }
    text
}

/// The words of a command line.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A catalogue of the items of [`ratings`].
pub(crate) fn catalogue(n_items: usize) -> String {
    let mut text = "item,title\n".to_owned();
    for item in 0..n_items {
        text.push_str(&format!("item-{item},Title {item}\n"));
    }
    text
}
