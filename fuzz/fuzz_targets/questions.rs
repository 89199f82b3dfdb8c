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
                assert!(!case.asked().is_empty(), "answered unasked");
                assert!(answer.lower >= 0.0 && answer.upper.is_finite());
                assert!(answer.lower <= answer.value && answer.value <= answer.upper);
            }
            Err(refusal) => {
                let mistake = matches!(refusal, QuestionError::NoBracket { .. });
                assert!(!mistake && !refusal.to_string().is_empty(), "{refusal:?}");
            }
        }
    }
});
