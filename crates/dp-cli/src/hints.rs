//! Hints on how to resolve an error.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dp_accounting::Error as AccountingError;
use dp_accounting::questions::QuestionError;
use dp_data::{ColumnRole, Expected};

use dp_personal::error::{Error as WorkflowError, Shortfall};
use dp_personal::output::{rounded_down, rounded_up};
use dp_personal::{mechanism, multitask};

use crate::args::own_flag;
use crate::error::Error;

impl Error {
    /// What to do about an error of this command, if this is not clear from the message.
    pub(crate) fn hint(&self, command: &str) -> Option<String> {
        let text = match self {
            Self::Workflow(error) => return hint(error, command),
            Self::Questions {
                source: QuestionError::Syntax(_),
                ..
            } => {
                "dp account reads question files and event files, dp calibrate reads an event file with one parameter \
                 set to null; docs/reference/dp-account.md shows both layouts"
            }
            Self::Broken => {
                "do not launch this configuration; the failed checks in the report show which release \
                 is at fault"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }
}

fn hint(error: &WorkflowError, command: &str) -> Option<String> {
    let text = match error {
        WorkflowError::AfterPayment { error, .. } => return hint(error, command),
        WorkflowError::Unmeasured { .. } if command.starts_with("nightly") => {
            "make the same night again: it costs nothing more, and writes them"
        }
        WorkflowError::Unmeasured { .. } => {
            "do not train again, which would cost as much again: there is nothing to resume. For models of `dp train` and `dp tune`, `dp evaluate --save` measures them on the records that the run held out; nothing measures others again"
        }
        WorkflowError::Budget(shortfall) => return Some(shortfall_hint(shortfall)),
        WorkflowError::Accounting(error)
        | WorkflowError::Training(multitask::Error::Accounting(error)) => {
            return accounting_hint(error, command);
        }
        WorkflowError::Scratch(_) => {
            "use --scratch to name another folder; each rating takes 8 bytes there, and about twice that while the data is read and split"
        }
        WorkflowError::GaussianLedger { ledger, is_new } => {
            let ledger = ledger.display();
            return Some(match is_new {
                true => "omit --ledger-kind gaussian, or use --ledger-kind mixed".to_owned(),
                false => format!(
                    "run `dp ledger upgrade {ledger} --kind mixed --delta D`, with D above the ledger's delta, to convert it into a ledger that counts both and \
                     keeps what was spent"
                ),
            });
        }
        WorkflowError::OtherUsers { .. } => {
            "each data set has its own ledger: name the one for these data; if this is the same data and the users were \
             renamed, or most of them left, pass --same-data-set"
        }
        WorkflowError::LedgerCut { .. } => {
            "restore the newest copy of the ledger, with its .key and .users files; if it is lost, `dp ledger accept-rollback` lets runs use this one: the ledger and \
             later certificates then say that the missing payments are not counted"
        }
        WorkflowError::Binding { .. } => {
            "the ledger itself records what was spent; if the other files cannot be restored and you are sure that these are its \
             data, --same-data-set binds the ledger to them again"
        }
        WorkflowError::Data(dp_data::Error::UnknownColumn {
            role, can_be_named, ..
        }) => {
            return Some(match *can_be_named {
                true => column_hint(*role, command),
                false => match own_flag(command, "item_col") {
                    Some(flag) => format!(
                        "rename the column in the header of this file; {flag} names a column of the ratings, not of this table of items"
                    ),
                    None => "rename the column in the header of this file".to_owned(),
                },
            });
        }
        WorkflowError::Data(dp_data::Error::Malformed {
            expected: Expected::Header | Expected::Separator,
            ..
        }) => {
            return Some(match own_flag(command, "header") {
                Some(flag) => format!(
                    "{}; other tables need a header of their own",
                    no_header(&flag, command)
                ),
                None => "the table needs a header".to_owned(),
            });
        }
        WorkflowError::Data(dp_data::Error::Malformed {
            expected: Expected::NoNames,
            ..
        }) => {
            "--header names the columns of a file without a header: omit it, and use --user-col, --item-col and --rating-col to name columns"
        }
        WorkflowError::Data(dp_data::Error::Malformed {
            expected: Expected::Number(ColumnRole::Feature),
            ..
        }) => {
            let flag = own_flag(command, "feature_cols")?;
            return Some(format!(
                "all columns but user and target are features unless {flag} names those to use; text cannot be one"
            ));
        }
        WorkflowError::Data(dp_data::Error::Malformed {
            expected: Expected::OneUser,
            ..
        }) if command == "recommend" => {
            "for a table of many users, --user-col names the column of their ids"
        }
        WorkflowError::Data(dp_data::Error::NotACatalogue { .. }) => {
            "give a list of items that does not come from the data, with each item once; if every id in the data may be public, \
             dp train and dp tune accept --item-ids-are-public instead"
        }
        WorkflowError::Training(multitask::Error::Mechanism(mechanism::Error::Param(_))) => {
            "these settings give one release too small or too large a share of the budget for \
             its noise to be drawn exactly; change --epsilon, --count-share or --steps"
        }
        WorkflowError::Releases(mechanism::Error::ListOfAnotherRun { .. }) => {
            "--resume continues the interrupted run: give the same settings, target, public inputs and \
             --ledger, or omit --resume to start a new run, which is paid for again"
        }
        WorkflowError::Releases(mechanism::Error::NotResumable) => {
            "with sampled users, the users keep state that the list of releases does not hold: omit --resume to start a \
             new run, which is paid for again"
        }
        WorkflowError::Data(dp_data::Error::WithoutParquet { .. }) => {
            "build dp with `--features parquet` to read it (cargo install --path crates/dp-cli --features parquet), or convert \
             the table to csv"
        }
        WorkflowError::OutputExists { .. } => {
            "choose another folder for the output, or pass --force where the command has it"
        }
        WorkflowError::NotReplaced { .. } => {
            "choose another output folder, or move what is there elsewhere; a lost ledger cannot be recreated"
        }
        WorkflowError::ReleasesMissing { .. } => {
            "if the model is not in its --out yet, the same command moves it there once the ledger has all its lines again"
        }
        WorkflowError::Recovered { .. } => {
            "to train a new model, run again with another --out or with --force"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

fn no_header(flag: &str, command: &str) -> String {
    let names = match own_flag(command, "item_col") {
        Some(_) => "user,item,rating",
        None => "user,x1,x2,y",
    };
    format!("if the file has no header, {flag} names its columns in order, as in {flag} {names}")
}

/// How a command is told of a column whose name differs from the usual ones.
fn column_hint(role: ColumnRole, command: &str) -> String {
    let own = |setting: &str| own_flag(command, setting);
    let flag = match role {
        ColumnRole::User => own("user_col"),
        ColumnRole::Item => own("item_col"),
        ColumnRole::Rating => own("rating_col").or_else(|| own("target_col")),
        ColumnRole::Target => own("target_col"),
        ColumnRole::Feature => own("feature_cols"),
        _ => None,
    };
    let mut text = match (flag, role) {
        (Some(flag), _) => format!("if it has another name, give it with {flag}"),
        (None, ColumnRole::Feature | ColumnRole::Target) if command == "nightly run-rows" => {
            "the file needs the columns that `dp nightly init-rows` was given, under the same names".to_owned()
        }
        (None, ColumnRole::Feature) => "the file needs the columns that the model was trained on, under the same names; for ratings those in the model's \
             item-features.csv"
            .to_owned(),
        (None, _) => "if it has another name, rename it in the file".to_owned(),
    };
    if role == ColumnRole::Rating && own("feedback").is_some() {
        text += ", or, where a record only says that a user has an item, give --feedback implicit without --min-rating";
    }
    if let Some(flag) = own("header") {
        text += "; ";
        text += &no_header(&flag, command);
    }
    text
}

fn shortfall_hint(shortfall: &Shortfall) -> String {
    if let Some(needed) = shortfall.needed {
        return format!(
            "a mixed ledger with epsilon {} could pay for this run, but this ledger's budget is fixed; a run with a smaller \
             --epsilon or with fewer releases may still fit",
            rounded_up(needed)
        );
    }
    if shortfall.left > 0.0 {
        let left = rounded_down(shortfall.left);
        return format!(
            "a run with --epsilon {left} still fits; a spent budget does not come back"
        );
    }
    "nothing more can be released from this data; a spent budget does not come back".to_owned()
}

fn accounting_hint(error: &AccountingError, command: &str) -> Option<String> {
    Some(match error {
        AccountingError::SamplerAllowance { .. } => {
            let epsilon = own_flag(command, "lifetime_epsilon");
            format!(
                "exact noise sampling uses up a tiny part of delta, and these settings need more than that; \
                 choose a smaller {} or a larger --delta",
                epsilon.as_deref().unwrap_or("--epsilon")
            )
        }
        AccountingError::LedgerLocked { .. } => {
            "only one run at a time can use a ledger; start again when the other run has ended"
                .to_owned()
        }
        AccountingError::LedgerMissing { .. } => {
            "--new-ledger creates it with the budget of this run, --ledger-epsilon with a larger one for many runs; if the data \
             set has a ledger already, name that one"
                .to_owned()
        }
        AccountingError::LedgerExists { .. } => {
            "omit --new-ledger to pay from it".to_owned()
        }
        AccountingError::LedgerCutOff { .. } => {
            "restore it from a backup; only if nothing was ever released from this data set, delete the file and create a new \
             one with --new-ledger"
                .to_owned()
        }
        AccountingError::LedgerReplaced { .. } => {
            "do not keep a ledger in a folder that a program synchronises or restores; before the next run, put back the newest version, the one \
             with the most lines"
                .to_owned()
        }
        AccountingError::LedgerCorrupt { .. } => {
            "if it is a ledger, restore it from a backup, since a new one would not know what was spent; if it never was \
             one, name another file"
                .to_owned()
        }
        AccountingError::Io { path, source } if source.kind() == ErrorKind::IsADirectory => match ledger_in(path) {
            Some(ledger) => format!("the ledger in this folder is {}", ledger.display()),
            None => "name the ledger's file; in the state of `dp nightly` it is `ledger`".to_owned(),
        },
        AccountingError::LedgerClosed { successor, .. } => {
            format!(
                "use the ledger that replaced it, {successor}; if there is none, `dp ledger merge` was interrupted: run the same \
                 merge again"
            )
        }
        AccountingError::ScheduleReserved { .. } => {
            "it was made for one run; `dp ledger upgrade` converts it into a mixed ledger with a larger total".to_owned()
        }
        AccountingError::LedgerMismatch { field, found, .. } => mismatch_hint(field, found),
        _ => return None,
    })
}

/// The ledger of a folder by its name: that of a nightly state, or the only one there.
fn ledger_in(folder: &Path) -> Option<PathBuf> {
    let of_state = folder.join("ledger");
    if of_state.is_file() {
        return Some(of_state);
    }
    let files = fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    let is_ledger = |path: &PathBuf| path.extension() == Some(OsStr::new("ledger"));
    let mut ledgers = files.filter(|path| is_ledger(path) && path.is_file());
    ledgers.next().filter(|_| ledgers.next().is_none())
}

fn mismatch_hint(field: &str, found: &str) -> String {
    match field {
        "data_set" => format!(
            "check the name of the data file. One ledger counts one data set: if this file is a newer version of the \
             same data, pass --data-set '{found}'"
        ),
        "epsilon" | "delta" => format!(
            "the budget was fixed when the ledger was made; omit --ledger-{field} to use it"
        ),
        "kind" => "omit --ledger-kind to use the ledger as it is; `dp ledger upgrade` converts it to another kind"
            .to_owned(),
        _ => "it was made by another version or for another adjacency".to_owned(),
    }
}
