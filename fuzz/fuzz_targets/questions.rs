//! Files of questions from anybody: each case is an error or a bracket of finite numbers, never a
//! panic.

#![no_main]

use dp_accounting::questions::QuestionFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(file) = QuestionFile::from_json(text) else {
        return;
    };
    for case in file.cases() {
        let _ = case.asked();
        if let Ok(answer) = case.answer() {
            assert!(answer.lower.is_finite() && answer.upper.is_finite());
            assert!(answer.lower <= answer.value && answer.value <= answer.upper);
        }
    }
});
