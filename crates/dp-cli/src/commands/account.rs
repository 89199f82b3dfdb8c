//! `dp account`: answers every question of a file independently.

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use dp_accounting::questions::{Answer, Case, Quantity, QuestionError, QuestionFile};
use dp_personal::error::Error as WorkflowError;
use serde_json::{Value, json};

use crate::args::AccountArgs;
use crate::commands::answers::{bracket, duration, figure};
use crate::error::{Error, Result};
use crate::screen::print;

/// A question with its result.
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

/// Reads a question file.
pub(super) fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(|e| WorkflowError::read(path, e))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// One object with one line per case, each printed as soon as it is known.
fn with_json(cases: &[Case]) -> Result<Vec<Answered<'_>>> {
    let mut answers = Vec::with_capacity(cases.len());
    print("{\"cases\": [")?;
    for case in cases {
        let separator = if answers.is_empty() { "\n" } else { ",\n" };
        let answered = Answered::of(case);
        print(&format!("{separator}{}", object(&answered)))?;
        answers.push(answered);
    }
    print("\n]}\n")?;
    Ok(answers)
}

/// A table whose rows are printed as soon as they are known, followed by notes.
fn with_table(cases: &[Case]) -> Result<Vec<Answered<'_>>> {
    let table = Table::of(cases);
    let mut answers = Vec::with_capacity(cases.len());
    print(&table.head())?;
    for case in cases {
        let answered = Answered::of(case);
        print(&table.row(&answered))?;
        answers.push(answered);
    }
    print(&below(&answers))?;
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

/// The result of `ask`. If it panics, which is a bug in the accountant, the following questions are
/// still answered.
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

/// Ids longer than this are truncated; the messages below the table show them in full.
const LONGEST_ID: usize = 48;

/// The longest number is that of a tiny delta, as in `1.234567e-300`.
const FIGURE: usize = 13;

const BRACKET: usize = 9;

/// Longest name of a method.
const METHOD: usize = 12;

const TIME: usize = 7;

/// The columns, as wide as the questions need, which is known before any is answered.
struct Table {
    id: usize,
    question: usize,
}

impl Table {
    fn of(cases: &[Case]) -> Self {
        let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
        let mut ids = cases.iter().map(|case| length(&shown_id(case)));
        let mut questions = cases.iter().map(|case| length(&case.asked()));
        Self {
            id: widest(&mut ids).max(2),
            question: widest(&mut questions).max(8),
        }
    }

    /// Names of the columns above a rule.
    fn head(&self) -> String {
        let names = self.line(["id", "question", "answer", "bracket", "method", "time"]);
        let widths = [self.id, self.question, FIGURE, BRACKET, METHOD, TIME];
        let rules = widths.map(|width| "-".repeat(width));
        format!("{names}{}", self.line(rules.each_ref().map(String::as_str)))
    }

    fn row(&self, answered: &Answered<'_>) -> String {
        let (id, asked) = (shown_id(answered.case), answered.case.asked());
        let time = duration(answered.seconds);
        match &answered.answer {
            Ok(answer) => self.line([
                &id,
                &asked,
                &figure(answer),
                &bracket(answer),
                answer.method.name(),
                &time,
            ]),
            Err(_) => self.line([&id, &asked, "no answer", "", "", &time]),
        }
    }

    fn line(&self, [id, question, answer, bracket, method, time]: [&str; 6]) -> String {
        let Self {
            id: id_width,
            question: question_width,
        } = self;
        format!(
            "{id:<id_width$}  {question:<question_width$}  {answer:>FIGURE$}  {bracket:>BRACKET$}  \
             {method:<METHOD$}  {time:>TIME$}\n"
        )
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// The id on one line of bounded length, whatever name the file gives the case.
fn shown_id(case: &Case) -> String {
    let id = printable(case.id());
    if length(&id) <= LONGEST_ID {
        return id;
    }
    let mut cut: String = id.chars().take(LONGEST_ID - 1).collect();
    cut.push('…');
    cut
}

/// Removes characters that move the cursor.
fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(shown).collect()
}

/// The reasons for missing answers, each note once, and the summary.
fn below(answers: &[Answered<'_>]) -> String {
    let mut blocks = vec![failures(answers), notes(answers), vec![summary(answers)]];
    blocks.retain(|block| !block.is_empty());
    let text = blocks.iter().map(|block| block.join("\n") + "\n");
    text.map(|block| format!("\n{block}")).collect()
}

fn failures(answers: &[Answered<'_>]) -> Vec<String> {
    let failed = answers.iter().filter_map(|answered| {
        let reason = printable(answered.answer.as_ref().err()?);
        let id = printable(answered.case.id());
        Some(format!("{id}: no answer: {reason}"))
    });
    failed.collect()
}

fn notes(answers: &[Answered<'_>]) -> Vec<String> {
    let mut ids: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for answered in answers {
        if let Some(note) = answered.answer.as_ref().ok().and_then(|answer| answer.note) {
            ids.entry(note).or_default().push(shown_id(answered.case));
        }
    }
    let line = |(note, ids): (&str, Vec<String>)| format!("note: {note} ({})", ids.join(", "));
    ids.into_iter().map(line).collect()
}

fn summary(answers: &[Answered<'_>]) -> String {
    let n_failed = answers.iter().filter(|a| a.answer.is_err()).count();
    let n_answered = answers.len() - n_failed;
    // an empty sum is -0
    let total = duration(0.0 + answers.iter().map(|a| a.seconds).sum::<f64>());
    let mut text = format!("{n_answered} answered, {n_failed} failed, {total} in total");
    let slowest = (answers.iter()).max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    if let Some(Answered { case, seconds, .. }) = slowest {
        text += &format!("; slowest {}, {}", shown_id(case), duration(*seconds));
    }
    text
}

/// One case: its values, or why there are none.
fn object(answered: &Answered<'_>) -> Value {
    let (id, seconds) = (answered.case.id(), answered.seconds);
    match &answered.answer {
        Ok(answer) => {
            let figure = |value| number(answer.quantity, value);
            let mut object = json!({
                "id": id,
                "value": figure(answer.value),
                "lower": figure(answer.lower),
                "upper": figure(answer.upper),
                "method": answer.method,
                "seconds": seconds,
            });
            if let Some(note) = answer.note {
                object["note"] = note.into();
            }
            object
        }
        Err(error) => json!({ "id": id, "error": error, "seconds": seconds }),
    }
}

/// Formats counts as whole numbers, everything else unchanged.
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

    fn file(id: &str) -> QuestionFile {
        let id = serde_json::to_string(id).unwrap();
        let text = format!(r#"{{"schema_version": 1, "cases": [{{"id": {id}}}]}}"#);
        QuestionFile::from_json(&text).unwrap()
    }

    #[test]
    fn an_id_is_one_line_of_bounded_length() {
        for (id, shown) in [
            ("tree-1", "tree-1".to_owned()),
            ("\u{1b}[2Jgone\n", "?[2Jgone?".to_owned()),
            (&"é".repeat(48), "é".repeat(48)),
            (&"é".repeat(49), "é".repeat(47) + "…"),
        ] {
            assert_eq!(shown_id(&file(id).cases()[0]), shown);
        }
    }

    #[test]
    fn rows_align_with_the_head() {
        let file = file("ö");
        let case = &file.cases()[0];
        let answered = Answered {
            case,
            answer: Err("why\nnot".to_owned()),
            seconds: 0.25,
        };
        let table = Table::of(file.cases());
        let row = table.row(&answered);
        for line in table.head().lines() {
            assert_eq!(length(line), length(row.trim_end_matches('\n')));
        }
        assert!(row.ends_with(" 250 ms\n"), "{row}");
        let below = below(&[answered]);
        let expected =
            "\nö: no answer: why?not\n\n0 answered, 1 failed, 250 ms in total; slowest ö, 250 ms\n";
        assert_eq!(below, expected);
    }

    #[test]
    fn nothing_asked_is_nothing_answered() {
        assert_eq!(below(&[]), "\n0 answered, 0 failed, 0 µs in total\n");
    }
}
