//! Files of questions from anybody: each case is an error or a bracket of finite numbers, never a
//! panic.

#![no_main]

use dp_accounting::questions::{QuestionError, QuestionFile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(file) = QuestionFile::from_json(text) else {
        return;
    };
    for case in file.cases() {
        match case.answer() {
            Ok(answer) => {
                let asked = case.asked();
                assert!(!asked.is_empty(), "answered unasked");
                // formulas are not clipped
                let by_formula = [", mironov2017", ", cks2020", ", asoodeh2020"];
                let may_be_negative = by_formula.iter().any(|name| asked.ends_with(name));
                assert!(answer.lower >= 0.0 || may_be_negative);
                assert!(answer.lower.is_finite() && answer.upper.is_finite());
                assert!(answer.lower <= answer.value && answer.value <= answer.upper);
            }
            Err(refusal) => {
                let mistake = matches!(refusal, QuestionError::NoBracket { .. });
                assert!(!mistake && !refusal.to_string().is_empty(), "{refusal:?}");
            }
        }
    }
});
