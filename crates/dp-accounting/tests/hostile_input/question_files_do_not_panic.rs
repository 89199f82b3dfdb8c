//! Files of questions from anybody are answered with brackets or typed errors.

use crate::shared::draw::Draw;
use crate::shared::edits::edited;
use dp_accounting::questions::{Answer, Quantity, QuestionError, QuestionFile};

use super::support::assert_typed;

const CASES: &str = r#"{"schema_version":1,"units":"nats","default_orders":[1.5,2,8.5,64],"cases":[
{"id":"a","neighbour":"add_remove","events":[{"mechanism":"gaussian","count":3,"sigma":2.5,"sensitivity":1}],"query":{"kind":"epsilon_at_delta","delta":1e-5}},
{"id":"b","neighbour":"replace_one","events":[{"mechanism":"laplace","count":2,"scale":4,"sensitivity":1},{"mechanism":"randomized_response","count":1,"noise_probability":0.5,"buckets":4}],"query":{"kind":"delta_at_epsilon","epsilon":0.5}},
{"id":"c","neighbour":"add_remove","events":[{"mechanism":"poisson_subsampled_gaussian","count":9,"sigma":1.5,"sensitivity":1,"sampling_probability":0.1}],"query":{"kind":"rdp_at_alpha","alpha":3.5}},
{"id":"d","neighbour":"add_remove","events":[{"mechanism":"gaussian","count":3,"sigma":null,"sensitivity":1}],"query":{"kind":"sigma_for_epsilon_delta","epsilon":1,"delta":1e-5}},
{"id":"e","neighbour":"zero_out","events":[{"mechanism":"binary_tree_gaussian","count":1,"sigma":4,"steps":100}],"query":{"kind":"epsilon_at_delta","delta":1e-6,"formula":"cks2020","accountant":"rdp","orders":"default"}},
{"id":"f","neighbour":"add_remove","events":[{"mechanism":"zcdp","count":1,"rho":0.1},{"mechanism":"rdp_point","count":1,"alpha":4,"rdp":0.1}],"query":{"kind":"epsilon_at_delta","delta":1e-6}},
{"id":"g","neighbour":"add_remove","events":[{"mechanism":"approximate_dp","count":4,"epsilon":0.1,"delta":1e-9}],"query":{"kind":"epsilon_at_delta","delta":1e-6}},
{"id":"h","neighbour":"add_remove","events":[{"mechanism":"discrete_laplace","count":1,"rate":0.5,"sensitivity":1}],"query":{"kind":"delta_at_epsilon","epsilon":0.1}},
{"id":"i","neighbour":"add_remove","events":[{"mechanism":"gaussian","count":null,"sigma":9.5,"sensitivity":1}],"query":{"kind":"max_count_for_epsilon_delta","epsilon":1,"delta":1e-5}}]}"#;

const EVENT: &str = r#"{"adjacency":"replace-record","event":{"mechanism":"composed","events":[
{"mechanism":"gaussian","noise_multiplier":2.0,"replace_factor":"two"},
{"mechanism":"repeated","count":3,"event":{"mechanism":"laplace","noise_multiplier":7.5}}]},"delta":1e-6}"#;

/// Files of one question each, cut from [`CASES`].
fn single_files() -> Vec<String> {
    let (head, rest) = CASES.split_once("\"cases\":[").unwrap();
    let cases = rest.trim_end_matches("]}").split(",\n").map(str::trim);
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
                assert_sane(&answer, text);
                assert!(!case.asked().is_empty(), "answered unasked: {text}");
            }
            Err(refusal) => assert_explained(&refusal, text),
        }
    }
    n
}

fn assert_sane(answer: &Answer, text: &str) {
    let ordered =
        0.0 <= answer.lower && answer.lower <= answer.value && answer.value <= answer.upper;
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
    let mut slowest = (0.0, String::new());
    let mut answered = 0;
    for i in 0..20_000 {
        let bytes = edited(&mut draw, files[i % files.len()].as_bytes(), 3);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let start = std::time::Instant::now();
        answered += answer_all(&text);
        let seconds = start.elapsed().as_secs_f64();
        if seconds > slowest.0 {
            slowest = (seconds, text);
        }
    }
    assert!(answered > 500, "{answered}");
    assert!(slowest.0 < 10.0, "{} s for {}", slowest.0, slowest.1);
    println!("slowest {} s: {}", slowest.0, slowest.1);
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
