//! `dp account`: answers to every question of a file, each for itself.

use std::fs;
use std::path::Path;
use std::time::Instant;

use dp_accounting::questions::{Answer, Case, Quantity, QuestionError, QuestionFile};
use serde_json::{Value, json};

use crate::args::AccountArgs;
use crate::error::{Error, Result};
use crate::output::{self, bracket, figure};

/// A question with what came of it.
struct Answered<'a> {
    case: &'a Case,
    answer: Result<Answer, QuestionError>,
    seconds: f64,
}

pub(crate) fn run(args: &AccountArgs) -> Result<()> {
    let text = read(&args.file)?;
    let file = QuestionFile::from_json(&text).map_err(|source| Error::Questions {
        path: args.file.clone(),
        source,
    })?;
    let answers: Vec<Answered<'_>> = file.cases().iter().map(answered).collect();
    if args.json {
        let cases: Vec<Value> = answers.iter().map(as_json).collect();
        output::print_json(&json!({ "cases": cases }))?;
    } else {
        output::print(&table(&answers))?;
    }
    let n_failed = answers.iter().filter(|a| a.answer.is_err()).count();
    if n_failed > 0 {
        let n_cases = answers.len();
        return Err(Error::Unanswered { n_failed, n_cases });
    }
    Ok(())
}

/// The text of a file of questions.
pub(super) fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(|e| Error::read(path, e))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn answered(case: &Case) -> Answered<'_> {
    let start = Instant::now();
    let answer = case.answer();
    let seconds = start.elapsed().as_secs_f64();
    Answered {
        case,
        answer,
        seconds,
    }
}

fn as_json(answered: &Answered<'_>) -> Value {
    let (id, seconds) = (answered.case.id(), answered.seconds);
    match &answered.answer {
        Ok(answer) => {
            let mut object = json!({
                "id": id,
                "value": number(answer.quantity, answer.value),
                "lower": number(answer.quantity, answer.lower),
                "upper": number(answer.quantity, answer.upper),
                "method": answer.method,
                "seconds": seconds,
            });
            if let Some(note) = answer.note {
                object["note"] = note.into();
            }
            object
        }
        Err(error) => json!({ "id": id, "error": error.to_string(), "seconds": seconds }),
    }
}

/// Counts as whole numbers, everything else as it is.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are whole, not negative, and the cast saturates"
)]
pub(super) fn number(quantity: Quantity, value: f64) -> Value {
    match quantity {
        Quantity::Count => (value as u64).into(),
        _ => value.into(),
    }
}

/// One line a question; below it what there is to know about some of them.
fn table(answers: &[Answered<'_>]) -> String {
    let rows: Vec<[String; 5]> = answers
        .iter()
        .filter_map(|answered| Some((answered, answered.answer.as_ref().ok()?)))
        .map(|(answered, answer)| {
            [
                answered.case.id().to_owned(),
                answered.case.asked(),
                figure(answer),
                bracket(answer),
                answer.method.to_string(),
            ]
        })
        .collect();
    let head = ["id", "question", "answer", "bracket", "method"].map(str::to_owned);
    let width = |column: usize| {
        let lengths = rows
            .iter()
            .chain([&head])
            .map(|r| r[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let widths: [usize; 4] = [width(0), width(1), width(2), width(3)];
    let mut lines = Vec::new();
    if !rows.is_empty() {
        lines.push(line(&head, widths));
        lines.extend(rows.iter().map(|row| line(row, widths)));
    }
    lines.extend(remarks(answers));
    lines.join("\n") + "\n"
}

fn line(row: &[String; 5], [id, question, answer, bracket]: [usize; 4]) -> String {
    let [a, b, c, d, e] = row;
    format!("{a:<id$}  {b:<question$}  {c:>answer$}  {d:>bracket$}  {e}")
}

/// Why questions have no answer, and each note once.
fn remarks(answers: &[Answered<'_>]) -> Vec<String> {
    let failed = answers.iter().filter_map(|answered| {
        let error = answered.answer.as_ref().err()?;
        Some(format!("{}: no answer: {error}", answered.case.id()))
    });
    let mut notes: Vec<String> = answers
        .iter()
        .filter_map(|answered| answered.answer.as_ref().ok()?.note)
        .map(|note| format!("note: {note}"))
        .collect();
    notes.dedup();
    let mut lines: Vec<String> = failed.chain(notes).collect();
    if !lines.is_empty() && lines.len() < 2 * answers.len() {
        lines.insert(0, String::new());
    }
    lines
}
