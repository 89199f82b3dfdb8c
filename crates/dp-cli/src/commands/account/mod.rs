//! `dp account`: answers to every question of a file, each for itself.

mod json;
mod table;

use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use dp_accounting::questions::{Answer, Case, QuestionError, QuestionFile};

use crate::args::AccountArgs;
use dp_personal::error::Error as WorkflowError;

use crate::error::{Error, Result};
use crate::screen::print;

pub(super) use json::number;
use table::Table;

/// A question with what came of it.
struct Answered<'a> {
    case: &'a Case,
    answer: Result<Answer, String>,
    seconds: f64,
}

pub(crate) fn run(args: &AccountArgs) -> Result<()> {
    let text = read(&args.file)?;
    let file = QuestionFile::from_json(&text).map_err(|source| Error::Questions {
        path: args.file.clone(),
        source,
    })?;
    let answers = if args.json {
        with_json(file.cases())
    } else {
        with_table(file.cases())
    }?;
    let n_failed = answers.iter().filter(|a| a.answer.is_err()).count();
    if n_failed > 0 {
        let n_cases = answers.len();
        return Err(Error::Unanswered { n_failed, n_cases });
    }
    Ok(())
}

/// The text of a file of questions.
pub(super) fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(|e| WorkflowError::read(path, e))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// One object with one line a case, each printed as soon as it is known.
fn with_json(cases: &[Case]) -> Result<Vec<Answered<'_>>> {
    let mut answers = Vec::with_capacity(cases.len());
    print("{\"cases\": [")?;
    for case in cases {
        let separator = if answers.is_empty() { "\n" } else { ",\n" };
        let answered = Answered::of(case);
        print(&format!("{separator}{}", json::object(&answered)))?;
        answers.push(answered);
    }
    print("\n]}\n")?;
    Ok(answers)
}

/// A table whose rows are printed as soon as they are known, and what there is to know about it.
fn with_table(cases: &[Case]) -> Result<Vec<Answered<'_>>> {
    let table = Table::of(cases);
    let mut answers = Vec::with_capacity(cases.len());
    print(&table.head())?;
    for case in cases {
        let answered = Answered::of(case);
        print(&table.row(&answered))?;
        answers.push(answered);
    }
    print(&table::below(&answers))?;
    Ok(answers)
}

impl<'a> Answered<'a> {
    fn of(case: &'a Case) -> Self {
        let start = Instant::now();
        let answer = caught(|| case.answer());
        let seconds = start.elapsed().as_secs_f64();
        Self {
            case,
            answer,
            seconds,
        }
    }
}

/// What `ask` says. Should it panic, which is a mistake in the accountant, the questions after it
/// are still answered.
fn caught(ask: impl FnOnce() -> Result<Answer, QuestionError>) -> Result<Answer, String> {
    match catch_unwind(AssertUnwindSafe(ask)) {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(panic) => Err(format!(
            "the accountant panicked, please report it: {}",
            said(panic.as_ref())
        )),
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_one_case() {
        let n = std::hint::black_box(7);
        for error in [
            caught(|| panic!("seven")).unwrap_err(),
            caught(|| panic!("sev{}n{}", 'e', &n.to_string()[..0])).unwrap_err(),
        ] {
            assert!(error.ends_with("please report it: seven"), "{error}");
        }
    }
}
