//! Question files: what is rejected, and that an invalid case does not affect the others.

use dp_accounting::questions::{Answer, EventQuestion, QuestionError, QuestionFile};
use dp_accounting::{Error, Method};
use dp_core::Adjacency;

const GAUSSIAN: &str = r#"{"mechanism":"gaussian","count":1,"sigma":1.0,"sensitivity":1}"#;
const SAMPLED: &str = r#"{"mechanism":"poisson_subsampled_gaussian","count":10,"sigma":1.0,
    "sensitivity":1,"sampling_probability":0.1}"#;
const EPSILON: &str = r#"{"kind":"epsilon_at_delta","delta":1e-5}"#;

fn file(cases: &[String]) -> String {
    let cases = cases.join(",");
    format!(r#"{{"schema_version":1,"units":"nats","cases":[{cases}]}}"#)
}

fn case(events: &str, query: &str) -> String {
    format!(r#"{{"id":"x","neighbour":"add_remove","events":[{events}],"query":{query}}}"#)
}

fn ask(case: &str) -> Result<Answer, QuestionError> {
    let file = QuestionFile::from_json(&file(&[case.to_owned()])).unwrap();
    assert_eq!(file.cases().len(), 1);
    file.cases()[0].answer()
}

#[track_caller]
fn assert_epsilon(answer: Answer, expected: f64) {
    assert!(answer.lower <= expected && expected <= answer.upper);
    assert!(answer.relative_width() < 1e-9, "{answer:?}");
}

#[test]
fn a_bad_case_spoils_no_other() {
    let good = case(GAUSSIAN, EPSILON);
    let bad = case(&GAUSSIAN.replace("1.0", "NaN"), EPSILON);
    let text = file(&[bad, good.clone(), "7".to_owned(), "{}".to_owned(), good]);
    let file = QuestionFile::from_json(&text).unwrap();
    let answers: Vec<_> = file.cases().iter().map(|case| case.answer().ok()).collect();
    let answered: Vec<bool> = answers.iter().map(Option::is_some).collect();
    assert_eq!(answered, [false, true, false, false, true]);
    assert_epsilon(answers[1].unwrap(), 4.377_178_095_681_224_5);
    assert_eq!(answers[1].unwrap().method, Method::Gdp);
    let ids: Vec<_> = file.cases().iter().map(|case| case.id()).collect();
    assert_eq!(ids, ["x", "x", "#3", "#4", "x"]);
}

#[test]
fn every_number_out_of_range_is_an_error() {
    let bad_reals = [
        "0",
        "-1",
        "-0.0",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "\"1\"",
        "true",
    ];
    let events = [
        (GAUSSIAN, "\"sigma\":1.0"),
        (GAUSSIAN, "\"sensitivity\":1"),
        (SAMPLED, "\"sigma\":1.0"),
        (SAMPLED, "\"sensitivity\":1"),
        (SAMPLED, "\"sampling_probability\":0.1"),
    ];
    for (event, field) in events {
        assert!(event.contains(field));
        let (name, _) = field.split_once(':').unwrap();
        for bad in bad_reals {
            let text = event.replace(field, &format!("{name}:{bad}"));
            assert!(ask(&case(&text, EPSILON)).is_err(), "{text}");
        }
    }
    let above = SAMPLED.replace("0.1", "1.0000000001");
    assert!(ask(&case(&above, EPSILON)).is_err());
    for count in ["0", "-1", "0.5", "NaN", "1e30", "null"] {
        let text = GAUSSIAN.replace("\"count\":1", &format!("\"count\":{count}"));
        assert!(ask(&case(&text, EPSILON)).is_err(), "{text}");
    }
}

#[test]
fn targets_out_of_range_are_errors() {
    for delta in ["0", "1", "-1e-5", "NaN", "null", "1e999"] {
        let query = EPSILON.replace("1e-5", delta);
        assert!(ask(&case(GAUSSIAN, &query)).is_err(), "{query}");
    }
    for epsilon in ["-1", "NaN", "Infinity", "null"] {
        let query = format!(r#"{{"kind":"delta_at_epsilon","epsilon":{epsilon}}}"#);
        assert!(ask(&case(GAUSSIAN, &query)).is_err(), "{query}");
    }
    for alpha in ["1", "0", "-2", "NaN", "Infinity", "null"] {
        let query = format!(r#"{{"kind":"rdp_at_alpha","alpha":{alpha}}}"#);
        assert!(ask(&case(GAUSSIAN, &query)).is_err(), "{query}");
    }
}

#[test]
fn what_is_missing_superfluous_or_unknown_is_named() {
    let swap = |from: &str, to: &str| case(GAUSSIAN, EPSILON).replace(from, to);
    for (text, said) in [
        (swap("\"sigma\":1.0,", ""), "missing field `sigma`"),
        (swap("\"count\":1,", ""), "missing field `count`"),
        (swap("\"sigma\"", "\"scale\""), "unknown field `scale`"),
        (swap("\"sigma\"", "\"x\":1,\"sigma\""), "unknown field `x`"),
        (
            swap("\"sigma\"", "\"sigma\":9,\"sigma\""),
            "duplicate field `sigma`",
        ),
        (swap("gaussian", "gausian"), "unknown variant `gausian`"),
        (
            swap("add_remove", "add-remove"),
            "unknown variant `add-remove`",
        ),
        (
            swap("epsilon_at_delta", "epsilon"),
            "unknown variant `epsilon`",
        ),
        (
            swap("\"delta\"", "\"rho\":1,\"delta\""),
            "unknown field `rho`",
        ),
        (swap("\"query\"", "\"question\""), "missing field `query`"),
    ] {
        let error = ask(&text).unwrap_err();
        assert!(matches!(error, QuestionError::Syntax(_)), "{error:?}");
        assert!(error.to_string().contains(said), "{error} for {text}");
    }
}

#[test]
fn nothing_composed_and_too_much_composed_are_errors() {
    let nothing = ask(&case("", EPSILON)).unwrap_err();
    assert!(matches!(
        nothing,
        QuestionError::Accounting(Error::NothingComposed)
    ));
    let full = SAMPLED.replace("\"count\":10", "\"count\":18446744073709551615");
    let overflow = ask(&case(&format!("{full},{SAMPLED}"), EPSILON)).unwrap_err();
    assert!(
        matches!(overflow, QuestionError::Accounting(Error::Param(_))),
        "{overflow:?}"
    );
}

#[test]
fn a_null_must_be_what_is_asked_for_and_the_only_one() {
    let null = GAUSSIAN.replace("1.0", "null");
    let sigma = r#"{"kind":"sigma_for_epsilon_delta","epsilon":1,"delta":1e-5}"#;
    let count = r#"{"kind":"max_count_for_epsilon_delta","epsilon":1,"delta":1e-5}"#;
    let error = |events: &str, query: &str| ask(&case(events, query)).unwrap_err();
    assert!(matches!(
        error(&null, EPSILON),
        QuestionError::NotAsked { .. }
    ));
    assert!(matches!(
        error(&null, count),
        QuestionError::NotAsked { .. }
    ));
    assert!(matches!(
        error(GAUSSIAN, sigma),
        QuestionError::Unknowns { found: 0, .. }
    ));
    let two = format!("{null},{null}");
    assert!(matches!(
        error(&two, sigma),
        QuestionError::Unknowns { found: 2, .. }
    ));
    let beside = format!("{null},{}", GAUSSIAN.replace("1.0", "-1"));
    assert!(matches!(
        error(&beside, sigma),
        QuestionError::Accounting(Error::Param(_))
    ));
}

#[test]
fn a_file_that_is_none_is_one_error() {
    for text in [
        "",
        "[]",
        "{}",
        "nonsense",
        "{\"schema_version\":1}",
        "{\"cases\":[]}",
    ] {
        let error = QuestionFile::from_json(text).unwrap_err();
        assert!(
            matches!(error, QuestionError::Syntax(_)),
            "{text}: {error:?}"
        );
    }
    let newer = file(&[]).replace("\"schema_version\":1", "\"schema_version\":2");
    let error = QuestionFile::from_json(&newer).unwrap_err();
    assert!(matches!(error, QuestionError::Schema { found: 2 }));
    let bits = QuestionFile::from_json(&file(&[]).replace("nats", "bits")).unwrap_err();
    assert!(matches!(bits, QuestionError::Units { .. }));
    let whole = file(&[case(GAUSSIAN, EPSILON)]);
    for end in 0..whole.len() {
        assert!(QuestionFile::from_json(&whole[..end]).is_err());
    }
}

#[test]
fn amplification_needs_add_remove_and_is_exact() {
    let event = r#"{"mechanism":"poisson_subsampled_approximate_dp","count":1,"epsilon":1.0,
        "delta":1e-5,"sampling_probability":0.01}"#;
    let query = r#"{"kind":"amplified_epsilon"}"#;
    let amplified = |epsilon: &str| ask(&case(&event.replace("1.0,", epsilon), query));
    // ln(1 + (e - 1)/100) and ln(1 + (e^1000 - 1)/100) = 1000 - ln 100, to 20 digits.
    assert_epsilon(amplified("1.0,").unwrap(), 0.017_036_863_236_176_546_3);
    assert_epsilon(amplified("1000,").unwrap(), 995.394_829_814_011_908_63);
    assert_epsilon(amplified("0,").unwrap(), 0.0);
    // If the record is not in the sample, two data sets that differ by its replacement agree. But a
    // guarantee for replacement only says nothing about having it or not having it.
    let replace = case(event, query).replace("add_remove", "replace_one");
    assert!(matches!(
        ask(&replace),
        Err(QuestionError::WrongMechanism { .. })
    ));
    let composed = case(&event.replace("\"count\":1", "\"count\":2"), query);
    assert!(matches!(
        ask(&composed),
        Err(QuestionError::WrongMechanism { .. })
    ));
}

#[test]
fn an_event_file_is_answered_for_both_neighbours() {
    let text = r#"{"adjacency":"replace-user","delta":1e-5,
        "event":{"mechanism":"gaussian","noise_multiplier":2,"replace_factor":"two"}}"#;
    let file = QuestionFile::from_json(text).unwrap();
    let ids: Vec<_> = file.cases().iter().map(|case| case.id()).collect();
    assert_eq!(ids, ["replace-user", "add-remove-user"]);
    assert_epsilon(file.cases()[0].answer().unwrap(), 4.377_178_095_681_224_5);
    assert!(file.cases()[1].answer().unwrap().upper < 2.3);
    assert_eq!(file.cases()[0].asked(), "epsilon at delta 1e-5");
}

#[test]
fn an_event_file_asks_one_thing() {
    let event = r#""event":{"mechanism":"gaussian","noise_multiplier":2,"replace_factor":"two"}"#;
    let null = event.replace('2', "null");
    for (members, good) in [
        (format!(r#"{{{event},"delta":1e-5}}"#), true),
        (format!(r#"{{{event},"epsilon":1}}"#), true),
        (format!(r#"{{{null},"epsilon":1,"delta":1e-5}}"#), true),
        (format!(r#"{{{event},"epsilon":1,"delta":1e-5}}"#), false),
        (format!("{{{event}}}"), false),
        (format!(r#"{{{null},"delta":1e-5}}"#), false),
        (format!(r#"{{{event},"delta":NaN}}"#), false),
        (format!(r#"{{{event},"delta":1e-5,"x":1}}"#), false),
        (
            format!(r#"{{{},"delta":1e-5}}"#, event.replace("gaussian", "gauss")),
            false,
        ),
        (
            format!(r#"{{{},"delta":1e-5}}"#, event.replace("\"two\"", "null")),
            false,
        ),
    ] {
        let question = EventQuestion::from_json(&members);
        assert_eq!(question.is_ok(), good, "{members}: {question:?}");
    }
    let question = EventQuestion::from_json(&format!(r#"{{{event},"delta":1e-5}}"#)).unwrap();
    assert_eq!(question.adjacency(), Adjacency::AddRemoveUser);
    assert!(matches!(question.solve(), Err(QuestionError::Unclear)));
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    let open = r#"{"mechanism":"repeated","count":1,"event":"#.repeat(5000);
    let leaf = r#"{"mechanism":"laplace","noise_multiplier":1}"#;
    let text = format!(
        r#"{{"delta":1e-5,"event":{open}{leaf}{}}}"#,
        "}".repeat(5000)
    );
    assert!(QuestionFile::from_json(&text).is_err());
}
