//! Tables of invalid command lines and files. Each must end with the documented exit code and a
//! message that names the argument or the file and states what was expected. Nothing panics,
//! nothing is printed as a result, and no file is created, removed or changed.

mod files;
mod table;

use crate::support::{Run, Sandbox};
use table::{TARGET, check};

#[test]
fn of_training() {
    check(&files::with_model(), include_str!("train.txt"));
}

#[test]
fn of_ratings_and_items() {
    check(&files::with_model(), include_str!("ratings.txt"));
}

#[test]
fn of_models() {
    check(&files::with_models(), include_str!("models.txt"));
}

#[test]
fn of_settings() {
    check(&files::with_model(), include_str!("settings.txt"));
}

#[test]
fn of_audits() {
    check(&files::with_model(), include_str!("audit.txt"));
}

#[test]
fn of_interrupted_runs() {
    check(&files::interrupted(), include_str!("resume.txt"));
}

#[test]
fn of_questions() {
    check(&files::plain(), include_str!("questions.txt"));
}

#[test]
fn of_groups() {
    check(&files::with_groups(), include_str!("groups.txt"));
}

#[test]
fn of_the_other_commands() {
    check(&files::plain(), include_str!("others.txt"));
}

/// A name that is not UTF-8 is shown with a replacement character; a file with that name is read.
#[test]
#[cfg(unix)]
fn file_names_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let sandbox = Sandbox::with_ratings();
    let name = OsStr::from_bytes(b"r\xff.csv");
    let train = || {
        let mut command = sandbox.command();
        command.arg("train").arg(name).args(TARGET.split(' '));
        Run::from(command.output().unwrap())
    };
    train().exits(4).says(&["r\u{fffd}.csv: cannot be opened"]);
    std::fs::copy(sandbox.path("ratings.csv"), sandbox.path("").join(name)).unwrap();
    train().exits(0);
    let mut command = sandbox.command();
    command
        .args(["audit", "--epsilon"])
        .arg(OsStr::from_bytes(b"\xff"));
    Run::from(command.output().unwrap())
        .exits(2)
        .says(&["--epsilon"]);
    let mut command = sandbox.command();
    command
        .args(["verify", "dp-model"])
        .env("DP_LEDGER", OsStr::from_bytes(b"\xff"));
    let run = Run::from(command.output().unwrap());
    run.exits(2)
        .says(&["DP_LEDGER of the environment is not text"]);
}

/// A file that may not be read or a folder that may not be written is distinguished from one that
/// does not exist.
#[test]
#[cfg(unix)]
fn permissions_are_told() {
    use std::os::unix::fs::PermissionsExt;

    let sandbox = Sandbox::with_ratings();
    let lock = |name: &str, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(sandbox.path(name), mode).unwrap();
    };
    std::fs::create_dir(sandbox.path("shut")).unwrap();
    lock("shut", 0o500);
    if std::fs::write(sandbox.path("shut/probe"), "").is_ok() {
        return; // the user who runs the tests may write everywhere
    }
    sandbox
        .train(&["--out", "shut/model"])
        .exits(7)
        .says(&["cannot write shut", "denied"]);
    let ledger = sandbox.train(&["--ledger", "shut/l.ledger"]);
    ledger.exits(5).says(&["shut/l.ledger", "denied"]);
    lock("ratings.csv", 0o000);
    sandbox
        .train(&[])
        .exits(4)
        .says(&["ratings.csv: cannot be opened", "denied"]);
    lock("shut", 0o700);
    assert_eq!(sandbox.names(), ["ratings.csv", "shut"]);
}
