//! Answers as a table: one line a question, then why some have no answer, notes, and a summary.

use std::collections::BTreeMap;

use dp_accounting::questions::Case;

use super::Answered;
use crate::commands::answers::{bracket, duration, figure};

/// Ids longer than this are cut; the messages below the table have them whole.
const LONGEST_ID: usize = 48;

/// The longest figure is that of a tiny delta, as in `1.234567e-300`.
const FIGURE: usize = 13;

const BRACKET: usize = 9;

/// Longest name of a method.
const METHOD: usize = 12;

const TIME: usize = 7;

/// The columns: as wide as the questions need, which is known before any is answered.
pub(super) struct Table {
    id: usize,
    question: usize,
}

impl Table {
    pub(super) fn of(cases: &[Case]) -> Self {
        let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
        let mut ids = cases.iter().map(|case| length(&shown_id(case)));
        let mut questions = cases.iter().map(|case| length(&case.asked()));
        Self {
            id: widest(&mut ids).max(2),
            question: widest(&mut questions).max(8),
        }
    }

    /// Names of the columns over a rule.
    pub(super) fn head(&self) -> String {
        let names = self.line(["id", "question", "answer", "bracket", "method", "time"]);
        let widths = [self.id, self.question, FIGURE, BRACKET, METHOD, TIME];
        let rules = widths.map(|width| "-".repeat(width));
        format!("{names}{}", self.line(rules.each_ref().map(String::as_str)))
    }

    pub(super) fn row(&self, answered: &Answered<'_>) -> String {
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

/// The id on one line of bounded length, whatever the file calls a case.
fn shown_id(case: &Case) -> String {
    let id = printable(case.id());
    if length(&id) <= LONGEST_ID {
        return id;
    }
    let mut cut: String = id.chars().take(LONGEST_ID - 1).collect();
    cut.push('…');
    cut
}

/// Without characters that move the cursor.
fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(shown).collect()
}

/// Reasons of what has no answer, each note once, and the summary.
pub(super) fn below(answers: &[Answered<'_>]) -> String {
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

#[cfg(test)]
mod tests {
    use dp_accounting::questions::QuestionFile;

    use super::*;

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
