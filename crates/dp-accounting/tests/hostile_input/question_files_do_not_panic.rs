//! Files of questions from anybody are answered with brackets or typed errors.

use dp_accounting::questions::{Answer, Quantity, QuestionError, QuestionFile};

use super::support::assert_typed;
use crate::shared::draw::Draw;
use crate::shared::edits::edited;

const CASES: &str = include_str!("../fixtures/questions.json");

const EVENT: &str = include_str!("../fixtures/event-question.json");

/// Files of one question each, cut from [`CASES`].
fn single_files() -> Vec<String> {
    let (head, rest) = CASES.split_once("\"cases\":[").unwrap();
    let cases = rest
        .trim_end()
        .trim_end_matches("]}")
        .split(",\n")
        .map(str::trim);
    let mut files: Vec<String> = cases
        .map(|case| format!("{head}\"cases\":[{case}]}}"))
        .collect();
    files.push(EVENT.to_owned());
    files
}

/// Asks everything in `text`; returns how many answers there were.
fn answer_all(text: &str) -> usize {
    let file = match QuestionFile::from_json(text) {
        Ok(file) => file,
        Err(refusal) => {
            assert_explained(&refusal, text);
            return 0;
        }
    };
    let mut n = 0;
    for case in file.cases() {
        match case.answer() {
            Ok(answer) => {
                n += 1;
                assert_sane(&answer, &case.asked(), text);
            }
            Err(refusal) => assert_explained(&refusal, text),
        }
    }
    n
}

/// A bracket, of probabilities within their range. An epsilon by formula is not clipped at 0.
fn assert_sane(answer: &Answer, asked: &str, text: &str) {
    assert!(!asked.is_empty(), "answered unasked: {text}");
    let formulas = [", mironov2017", ", cks2020", ", asoodeh2020"];
    let by_formula = formulas.iter().any(|name| asked.ends_with(name));
    let least = if by_formula && answer.quantity == Quantity::Epsilon {
        f64::MIN
    } else {
        0.0
    };
    let ordered =
        least <= answer.lower && answer.lower <= answer.value && answer.value <= answer.upper;
    let most = match answer.quantity {
        Quantity::Delta | Quantity::SamplingProbability => 1.0,
        _ => f64::MAX,
    };
    assert!(ordered && answer.upper <= most, "{answer:?} for {text}");
}

/// Why there is no answer; a bracket that is none would be a mistake of the crate.
fn assert_explained(refusal: &QuestionError, text: &str) {
    match refusal {
        QuestionError::Accounting(error) => assert_typed(error, text),
        QuestionError::NoBracket { .. } => panic!("{refusal} for {text}"),
        other => assert!(!other.to_string().is_empty(), "{other:?} for {text}"),
    }
}

#[test]
fn mutated_question_files_do_not_panic() {
    let files = single_files();
    assert_eq!(files.len(), 10);
    for file in &files {
        assert!(answer_all(file) > 0, "{file}");
    }
    let mut draw = Draw(7);
    let mut answered = 0;
    for i in 0..20_000 {
        let bytes = edited(&mut draw, files[i % files.len()].as_bytes(), 3);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        answered += answer_all(&text);
    }
    assert!(answered > 500, "{answered}");
}

/// The rounding error of a large exponent took the upper end far above 1.
#[test]
fn delta_by_formula_is_a_probability() {
    let text = r#"{"schema_version":1,"units":"nats","cases":[{"id":"a","neighbour":"add_remove",
        "events":[{"mechanism":"rdp_point","count":1,"alpha":4,"rdp":1e17}],
        "query":{"kind":"delta_at_epsilon","epsilon":0.5,"formula":"cks2020"}}]}"#;
    assert_eq!(answer_all(text), 1);
}

#[test]
fn deep_json_is_refused() {
    for (open, close) in [("[", "]"), ("{\"event\":", "}"), ("{\"cases\":[", "]}")] {
        let text = open.repeat(100_000) + "1" + &close.repeat(100_000);
        assert!(QuestionFile::from_json(&text).is_err());
        assert!(QuestionFile::from_json(&open.repeat(100_000)).is_err());
    }
    let wrap = "{\"mechanism\":\"repeated\",\"count\":1,\"event\":";
    let inner = "{\"mechanism\":\"gaussian\",\"noise_multiplier\":2.0,\"replace_factor\":\"two\"}";
    let event = wrap.repeat(5_000) + inner + &"}".repeat(5_000);
    let text = format!("{{\"event\":{event},\"delta\":1e-6}}");
    assert!(QuestionFile::from_json(&text).is_err());
}
