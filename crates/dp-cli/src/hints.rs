//! What to do about an error.

use dp_accounting::Error as AccountingError;
use dp_accounting::questions::QuestionError;
use dp_data::{ColumnRole, Expected};

use dp_personal::error::{Error as WorkflowError, Shortfall};
use dp_personal::output::{rounded_down, rounded_up};
use dp_personal::{mechanism, multitask};

use crate::error::Error;

impl Error {
    /// What to do about it, where that is not plain from the message.
    pub(crate) fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Workflow(error) => return hint(error),
            Self::Questions {
                source: QuestionError::Syntax(_),
                ..
            } => {
                "dp account reads cases and events, dp calibrate an event with one parameter \
                 null; docs/command-line.md shows both layouts"
            }
            Self::Broken => {
                "do not launch this configuration; the failed checks of the report say which release \
                 is at fault"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }
}

fn hint(error: &WorkflowError) -> Option<String> {
    let text = match error {
        WorkflowError::AfterPayment { error, .. } => return hint(error),
        WorkflowError::Budget(shortfall) => return Some(shortfall_hint(shortfall)),
        WorkflowError::Accounting(error)
        | WorkflowError::Training(multitask::Error::Accounting(error)) => {
            return accounting_hint(error);
        }
        WorkflowError::Scratch(_) => {
            "--scratch names another folder; ratings take 8 bytes each there, and about as much again while they are read and split"
        }
        WorkflowError::GaussianLedger { ledger, is_new } => {
            let ledger = ledger.display();
            return Some(match is_new {
                true => "leave --ledger-kind gaussian out, or use --ledger-kind mixed".to_owned(),
                false => format!(
                    "`dp ledger upgrade {ledger} --kind mixed --delta D`, with D above the ledger's, makes of it a ledger that counts both and \
                     keeps what was spent"
                ),
            });
        }
        WorkflowError::OtherUsers { .. } => {
            "each data set has a ledger of its own: name the one of these data; where they are the same data and the users were \
             renamed, or most of them left, pass --same-data-set"
        }
        WorkflowError::LedgerCut { .. } => {
            "restore the newest copy of the ledger; where it cannot be found, --same-data-set goes on without what was forgotten, \
             and every guarantee of the ledger is that of what it still counts"
        }
        WorkflowError::Binding { .. } => {
            "what was spent is in the ledger alone; where the files cannot be restored and you are sure that these are its \
             data, --same-data-set binds it to them anew"
        }
        WorkflowError::Certificate {
            source: AccountingError::CertificateSyntax(_),
            ..
        } => "dp verify takes the folder of a run, or the certificate.json in it",
        WorkflowError::Data(dp_data::Error::UnknownColumn { role, .. }) => {
            return column_hint(*role);
        }
        WorkflowError::Data(dp_data::Error::Malformed {
            expected: Expected::Header | Expected::Separator,
            ..
        }) => NO_HEADER,
        WorkflowError::Data(dp_data::Error::Malformed {
            expected: Expected::NoNames,
            ..
        }) => {
            "--header names the columns of a file that has no header: leave it out, and --user-col and the like name columns"
        }
        WorkflowError::Data(dp_data::Error::NotACatalogue { .. }) => {
            "give a list of items that does not come from the data, each item once; where everybody may know every id in the \
             data, dp train and dp tune take --item-ids-are-public instead"
        }
        WorkflowError::Training(multitask::Error::Mechanism(mechanism::Error::Param(_))) => {
            "these settings leave one release too little of the budget, or too much, for \
             its noise to be drawn exactly; change --epsilon, --count-share or --steps"
        }
        WorkflowError::Releases(mechanism::Error::ListOfAnotherRun { .. }) => {
            "--resume goes on with the run that was interrupted: give the same settings, target, public inputs and \
             --ledger, or leave --resume out for a new run, which is paid for anew"
        }
        WorkflowError::Releases(mechanism::Error::NotResumable) => {
            "users who train only when they are asked keep state that no list of releases holds: leave --resume out for a \
             new run, which is paid for anew"
        }
        WorkflowError::Data(dp_data::Error::WithoutParquet { .. }) => {
            "a dp built with `--features parquet` reads it (cargo install --path crates/dp-cli --features parquet); any dp reads \
             the same table as csv"
        }
        WorkflowError::OutputExists { .. } => {
            "choose another folder for the output, or pass --force where the command has it"
        }
        WorkflowError::NotReplaced { .. } => {
            "choose another place for the output, or move elsewhere what is there; a ledger that is gone cannot be made again"
        }
        WorkflowError::ReleasesMissing { .. } => {
            "where the model is not in its --out yet, the same command puts it there once the ledger has all lines again"
        }
        WorkflowError::Recovered { .. } => {
            "to train anew, run again with another --out or with --force"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

const NO_HEADER: &str = "where the file has no header, --header names its columns in order, as in --header user,item,rating (a file \
                         for --history, --rows or --items needs one of its own)";

/// Which flag names a column that is called otherwise.
fn column_hint(role: ColumnRole) -> Option<String> {
    let flag = match role {
        ColumnRole::User => "--user-col names it",
        ColumnRole::Item => "of ratings --item-col names it, and in a table of items it is renamed",
        ColumnRole::Rating => {
            "--rating-col names it (dp federate: --target-col); --feedback implicit needs none, unless --min-rating says which \
             ratings are a yes"
        }
        ColumnRole::Target => "--target-col names it",
        ColumnRole::Feature => {
            "--feature-cols names them; dp predict wants the names of the training data, of ratings those of the \
             model's item-features.csv"
        }
        _ => return None,
    };
    Some(format!("where it is called otherwise, {flag}; {NO_HEADER}"))
}

fn shortfall_hint(shortfall: &Shortfall) -> String {
    if let Some(needed) = shortfall.needed {
        return format!(
            "a mixed ledger of epsilon {} would pay for this run, and this ledger's budget is fixed; a run with a smaller \
             --epsilon, or with fewer releases, may still fit",
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

fn accounting_hint(error: &AccountingError) -> Option<String> {
    Some(match error {
        AccountingError::SamplerAllowance { .. } => {
            "the noise is exact only up to a tiny part of delta, which these settings exhaust; \
             choose a smaller --epsilon or a larger --delta"
                .to_owned()
        }
        AccountingError::LedgerLocked { .. } => {
            "runs on one data set go one after another; start again when the other has ended"
                .to_owned()
        }
        AccountingError::LedgerMissing { .. } => {
            "--new-ledger makes it with the budget of this run, --ledger-epsilon with a larger one for many runs; if the data \
             set has a ledger already, name that one"
                .to_owned()
        }
        AccountingError::LedgerExists { .. } => {
            "leave --new-ledger out to pay from it".to_owned()
        }
        AccountingError::LedgerCutOff { .. } => {
            "restore it from a backup; only if nothing was ever released from this data set, delete the file and make a new \
             one with --new-ledger"
                .to_owned()
        }
        AccountingError::LedgerReplaced { .. } => {
            "a ledger must not lie in a folder that a program synchronises or restores; put the newest version back, the one \
             with the most lines, before the next run"
                .to_owned()
        }
        AccountingError::LedgerCorrupt { .. } => {
            "if it is a ledger, restore it from a backup, since a new one would forget what was spent; if it never was \
             one, name another file"
                .to_owned()
        }
        AccountingError::LedgerClosed { successor, .. } => {
            format!(
                "name the ledger that goes on, {successor}; where there is none, `dp ledger merge` was interrupted: run the same \
                 merge again"
            )
        }
        AccountingError::ScheduleReserved { .. } => {
            "it was made for one run; `dp ledger upgrade` makes a mixed one of it, with a larger total".to_owned()
        }
        AccountingError::LedgerMismatch { field, found, .. } => mismatch_hint(field, found),
        _ => return None,
    })
}

fn mismatch_hint(field: &str, found: &str) -> String {
    match field {
        "data_set" => format!(
            "one ledger counts one data set; if this file is a version of the same data, pass \
             --data-set '{found}'"
        ),
        "epsilon" | "delta" => format!(
            "the budget was fixed when the ledger was made; leave --ledger-{field} out to use it"
        ),
        "kind" => "leave --ledger-kind out to use the ledger as it is; `dp ledger upgrade` makes one of another kind of it"
            .to_owned(),
        _ => "it was made by another version or for other neighbours".to_owned(),
    }
}
