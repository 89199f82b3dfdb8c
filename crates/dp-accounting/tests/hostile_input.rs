//! Numbers out of range, counts that overflow, depth without end, files that make no sense: typed
//! errors, and never an epsilon of 0, an answer that is not a number, or a panic.

#![allow(
    clippy::cast_possible_truncation,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests do"
)]

mod random_events;

use dp_accounting::questions::QuestionFile;
use dp_accounting::{
    Accountant, Error, GdpAccountant, PldAccountant, RdpAccountant, Result, SaddlePointAccountant,
    TightestAccountant, ZcdpAccountant,
};
use dp_core::{Adjacency, DpEvent, Relation, Stopping};
use random_events::{ADJACENCIES, Draw, further_forms, one_of_each};

/// What a real parameter may be.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Range {
    Positive,
    NotNegative,
    /// (0, 1].
    Probability,
    /// [0, 1].
    DeltaLike,
    /// (0, 1).
    Open,
    Above(f64),
}

impl Range {
    fn holds(self, x: f64) -> bool {
        x.is_finite()
            && match self {
                Self::Positive => x > 0.0,
                Self::NotNegative => x >= 0.0,
                Self::Probability => x > 0.0 && x <= 1.0,
                Self::DeltaLike => (0.0..=1.0).contains(&x),
                Self::Open => x > 0.0 && x < 1.0,
                Self::Above(low) => x > low,
            }
    }
}

/// Every real parameter of an event, at any depth. A new variant does not compile here.
fn reals(event: &mut DpEvent) -> Vec<(&mut f64, Range)> {
    use Range::{Above, DeltaLike, NotNegative, Open, Positive, Probability};
    match event {
        DpEvent::Gaussian {
            noise_multiplier, ..
        }
        | DpEvent::Laplace { noise_multiplier }
        | DpEvent::RandomAllocation {
            noise_multiplier, ..
        }
        | DpEvent::TreeAggregation {
            noise_multiplier, ..
        } => vec![(noise_multiplier, Positive)],
        DpEvent::DiscreteGaussian { sigma, .. } => vec![(sigma, Positive)],
        DpEvent::DiscreteLaplace { rate, .. } => vec![(rate, Positive)],
        DpEvent::RandomizedResponse {
            noise_probability, ..
        } => vec![(noise_probability, Probability)],
        DpEvent::BoundedRange { epsilon, .. } => vec![(epsilon, Positive)],
        DpEvent::ApproxDp { epsilon, delta, .. } => {
            vec![(epsilon, NotNegative), (delta, DeltaLike)]
        }
        DpEvent::Zcdp { rho, .. } => vec![(rho, Positive)],
        DpEvent::Rdp { order, epsilon, .. } => vec![(order, Above(1.0)), (epsilon, NotNegative)],
        DpEvent::PoissonSampled {
            sampling_probability,
            event,
        } => {
            let mut all = reals(event);
            all.push((sampling_probability, Probability));
            all
        }
        DpEvent::SampledWithoutReplacement { event, .. } | DpEvent::Repeated { event, .. } => {
            reals(event)
        }
        DpEvent::MixtureOfGaussians {
            sigma,
            sensitivities,
            probabilities,
        } => {
            let mut all = vec![(sigma, Positive)];
            all.extend(sensitivities.iter_mut().map(|s| (s, NotNegative)));
            all.extend(probabilities.iter_mut().map(|p| (p, Probability)));
            all
        }
        DpEvent::Composed { events } => events.iter_mut().flat_map(reals).collect(),
        DpEvent::RepeatAndSelect { event, stopping } => {
            let mut all = reals(event);
            match stopping {
                Stopping::TruncatedNegativeBinomial {
                    shape,
                    success_probability,
                } => {
                    all.push((shape, Above(-1.0)));
                    all.push((success_probability, Open));
                }
                Stopping::Logarithmic {
                    success_probability,
                } => all.push((success_probability, Open)),
                Stopping::Poisson { mean } => all.push((mean, Positive)),
            }
            all
        }
        DpEvent::NonPrivate => Vec::new(),
    }
}

/// Events with one whole-number parameter out of its range.
fn bad_whole_numbers() -> Vec<DpEvent> {
    let gaussian = || Box::new(DpEvent::gaussian(1.0));
    let without = |sample_size, population_size| DpEvent::SampledWithoutReplacement {
        sample_size,
        population_size,
        event: gaussian(),
    };
    let allocation = |n_selected, n_steps| DpEvent::RandomAllocation {
        noise_multiplier: 1.0,
        n_selected,
        n_steps,
    };
    vec![
        DpEvent::DiscreteGaussian {
            sigma: 1.0,
            sensitivity: 0,
        },
        DpEvent::DiscreteLaplace {
            rate: 1.0,
            sensitivity: 0,
        },
        DpEvent::RandomizedResponse {
            noise_probability: 0.5,
            buckets: 0,
        },
        DpEvent::RandomizedResponse {
            noise_probability: 0.5,
            buckets: 1,
        },
        without(0, 10),
        without(11, 10),
        without(0, 0),
        allocation(0, 10),
        allocation(11, 10),
        allocation(0, 0),
        DpEvent::TreeAggregation {
            noise_multiplier: 1.0,
            n_steps: 0,
        },
        DpEvent::gaussian(1.0).repeated(0),
        DpEvent::laplace(1.0).repeated(0),
        DpEvent::sampled_gaussian(1.0, 0.1).repeated(0).repeated(5),
        DpEvent::Composed { events: vec![] },
        DpEvent::Composed { events: vec![] }.repeated(7),
        DpEvent::Composed { events: vec![] }.poisson_sampled(0.5),
        DpEvent::laplace(1.0).repeated(u64::MAX).repeated(2),
        DpEvent::laplace(1.0)
            .repeated(u64::MAX)
            .repeated(u64::MAX)
            .repeated(u64::MAX),
        DpEvent::Composed {
            events: vec![
                DpEvent::laplace(1.0).repeated(u64::MAX),
                DpEvent::laplace(1.0),
            ],
        },
        DpEvent::MixtureOfGaussians {
            sigma: 1.0,
            sensitivities: vec![],
            probabilities: vec![],
        },
        DpEvent::MixtureOfGaussians {
            sigma: 1.0,
            sensitivities: vec![1.0],
            probabilities: vec![0.5, 0.5],
        },
        DpEvent::MixtureOfGaussians {
            sigma: 1.0,
            sensitivities: vec![0.0, 0.0],
            probabilities: vec![0.5, 0.5],
        },
        DpEvent::MixtureOfGaussians {
            sigma: 1.0,
            sensitivities: vec![0.0, 1.0],
            probabilities: vec![0.5, 0.4],
        },
        DpEvent::MixtureOfGaussians {
            sigma: 1.0,
            sensitivities: vec![0.0, 1.0],
            probabilities: vec![0.5, 0.6],
        },
    ]
}

fn accountants(adjacency: Adjacency) -> Vec<Box<dyn Accountant>> {
    vec![
        Box::new(ZcdpAccountant::new(adjacency)),
        Box::new(RdpAccountant::new(adjacency)),
        Box::new(PldAccountant::new(adjacency)),
        Box::new(SaddlePointAccountant::new(adjacency)),
        Box::new(TightestAccountant::new(adjacency)),
    ]
}

/// Composes and asks everything; what is composed must have a sane answer or a typed refusal.
fn compose(accountant: &mut dyn Accountant, event: &DpEvent) -> Result<()> {
    accountant.compose(event, 1)?;
    for delta in [1e-9, 0.2] {
        if let Ok(bound) = accountant.epsilon(delta) {
            let sane = bound.upper >= 0.0 && bound.lower <= bound.upper;
            assert!(sane, "{event:?} {bound:?}");
        }
    }
    for epsilon in [0.0, 2.0] {
        if let Ok(bound) = accountant.delta(epsilon) {
            let sane = (0.0..=1.0).contains(&bound.upper) && bound.lower <= bound.upper;
            assert!(sane, "{event:?} {bound:?}");
        }
    }
    Ok(())
}

#[track_caller]
fn assert_refused(event: &DpEvent) {
    for adjacency in ADJACENCIES {
        for mut accountant in accountants(adjacency) {
            let refused = compose(accountant.as_mut(), event);
            let typed = matches!(
                refused,
                Err(Error::Param(_)
                    | Error::UnsupportedEvent { .. }
                    | Error::NothingComposed
                    | Error::NonPrivateEvent)
            );
            assert!(typed, "{event:?} {adjacency}: {refused:?}");
            assert!(matches!(
                accountant.epsilon(1e-5),
                Err(Error::NothingComposed)
            ));
        }
    }
}

fn every_form() -> Vec<DpEvent> {
    let mut all = one_of_each();
    all.extend(further_forms());
    all
}

#[test]
fn every_real_parameter_has_its_range() {
    const BAD: [f64; 9] = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -1.0,
        -1e-300,
        0.0,
        -0.0,
        1.000_000_000_000_000_2,
        2.0,
    ];
    let mut n_refused = 0;
    for event in every_form() {
        let n = reals(&mut event.clone()).len();
        for i in 0..n {
            for bad in BAD {
                let mut changed = event.clone();
                let allowed = {
                    let mut parameters = reals(&mut changed);
                    let (place, range) = &mut parameters[i];
                    **place = bad;
                    range.holds(bad)
                };
                if !allowed {
                    assert_refused(&changed);
                    n_refused += 1;
                }
            }
        }
    }
    assert!(n_refused > 200, "{n_refused}");
}

#[test]
fn every_whole_number_has_its_range() {
    for event in bad_whole_numbers() {
        assert_refused(&event);
        assert_refused(&DpEvent::Composed {
            events: vec![DpEvent::gaussian(1.0), event],
        });
    }
}

/// Legal and useless: the smallest and largest numbers there are.
#[test]
#[ignore = "minutes: the discretised method at every end of every range"]
fn long_extreme_numbers_give_sane_answers() {
    let extremes = [
        5e-324,
        1e-310,
        1e-200,
        1e-30,
        1e-9,
        1e9,
        1e30,
        1e200,
        f64::MAX,
    ];
    for event in every_form() {
        let n = reals(&mut event.clone()).len();
        for i in 0..n {
            for extreme in extremes {
                let mut changed = event.clone();
                {
                    let mut parameters = reals(&mut changed);
                    *parameters[i].0 = extreme;
                }
                for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
                    for mut accountant in accountants(adjacency) {
                        // Small and refused is fine; what is private enough is never free.
                        let _ = compose(accountant.as_mut(), &changed);
                        if let Ok(bound) = accountant.delta(0.0) {
                            let tiny = bound.upper == 0.0;
                            assert!(!tiny, "{changed:?} {adjacency} {bound:?}");
                        }
                    }
                }
            }
        }
    }
}

/// Every answer to the largest guarantees and the least noise is finite, or a typed error.
#[test]
fn the_costliest_events_have_finite_answers_or_none() {
    let relation = Relation::AddRemove;
    let of = |x: f64| {
        [
            DpEvent::Zcdp { rho: x, relation },
            DpEvent::ApproxDp {
                epsilon: x,
                delta: 1e-9,
                relation,
            },
            DpEvent::ApproxDp {
                epsilon: x,
                delta: 0.0,
                relation,
            },
            DpEvent::Rdp {
                order: 2.0,
                epsilon: x,
                relation,
            },
            DpEvent::BoundedRange {
                epsilon: x,
                relation,
            },
            DpEvent::gaussian(1.0 / x),
            DpEvent::laplace(1.0 / x),
            DpEvent::gaussian(1e-300),
            DpEvent::gaussian(1e-153),
        ]
    };
    for x in [f64::MAX, 1e300] {
        for event in of(x) {
            for count in [1, u64::MAX] {
                for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
                    for mut accountant in accountants(adjacency) {
                        if accountant.compose(&event, count).is_err() {
                            continue;
                        }
                        for delta in [1e-300, 0.2] {
                            if let Ok(bound) = accountant.epsilon(delta) {
                                let finite = bound.upper.is_finite() && bound.value.is_finite();
                                assert!(finite, "{event:?} {count} {adjacency} {bound:?}");
                            }
                        }
                        if let Ok(bound) = accountant.delta(1.0) {
                            assert!((0.0..=1.0).contains(&bound.upper), "{event:?} {bound:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn counts_that_overflow_change_nothing() {
    for adjacency in ADJACENCIES {
        for mut accountant in accountants(adjacency) {
            let event = DpEvent::sampled_gaussian(10.0, 0.01);
            if accountant.compose(&event, u64::MAX).is_err() {
                continue;
            }
            let again = accountant.compose(&event, 1);
            assert!(matches!(again, Err(Error::Param(_))), "{again:?}");
            if let Ok(bound) = accountant.epsilon(1e-5) {
                assert!(bound.upper > 1.0, "{bound:?}");
            }
        }
    }
}

fn nested(depth: usize, inner: DpEvent, wrap: impl Fn(DpEvent) -> DpEvent) -> DpEvent {
    (0..depth).fold(inner, |event, _| wrap(event))
}

/// Runs `check` on a stack an eighth of what threads are given.
fn on_a_small_stack(check: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    thread.spawn(check).unwrap().join().unwrap();
}

type Wrap = fn(DpEvent) -> DpEvent;

const WRAPS: [Wrap; 5] = [
    |event| event.repeated(1),
    |event| DpEvent::Composed {
        events: vec![event],
    },
    |event| event.poisson_sampled(1.0),
    |event| DpEvent::SampledWithoutReplacement {
        sample_size: 1,
        population_size: 1,
        event: Box::new(event),
    },
    |event| DpEvent::RepeatAndSelect {
        event: Box::new(event),
        stopping: Stopping::Logarithmic {
            success_probability: 0.5,
        },
    },
];

/// What is allowed is answered on a small stack, every way of nesting at its deepest.
#[test]
fn the_deepest_events_fit_a_small_stack() {
    for wrap in WRAPS {
        for inner in [DpEvent::gaussian(2.0), DpEvent::laplace(3.0)] {
            let event = nested(DpEvent::MAX_DEPTH - 1, inner, wrap);
            on_a_small_stack(move || {
                for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
                    for mut accountant in accountants(adjacency) {
                        if accountant.compose(&event, 1).is_ok() {
                            let _ = accountant.epsilon(1e-6);
                            if let Ok(bound) = accountant.delta(1.0) {
                                assert!((0.0..=1.0).contains(&bound.upper), "{bound:?}");
                            }
                        }
                    }
                    let _ = dp_accounting::gdp::mu_squared(&event, adjacency);
                }
            });
        }
    }
}

/// Ten thousand samples of samples overflowed the stack.
#[test]
fn deep_events_do_not_overflow_the_stack() {
    for wrap in WRAPS {
        for depth in [DpEvent::MAX_DEPTH, 1_000, 20_000] {
            // Built and dropped here, on a large stack: dropping a box drops what is in it.
            let build = move || {
                let event = std::sync::Arc::new(nested(depth, DpEvent::gaussian(2.0), wrap));
                let shared = std::sync::Arc::clone(&event);
                on_a_small_stack(move || refused_for_depth(&shared));
            };
            let thread = std::thread::Builder::new().stack_size(64 << 20);
            thread.spawn(build).unwrap().join().unwrap();
        }
    }
}

fn refused_for_depth(event: &DpEvent) {
    let adjacency = Adjacency::AddRemoveUser;
    let refusal = |result: Result<()>| match result {
        Err(Error::Param(error)) => assert_eq!(error.name, "depth"),
        other => panic!("{other:?}"),
    };
    for mut accountant in accountants(adjacency) {
        refusal(accountant.compose(event, 1));
    }
    refusal(GdpAccountant::new(adjacency).compose(event, 1));
    refusal(dp_accounting::gdp::mu_squared(event, adjacency).map(|_| ()));
}

#[test]
fn deep_selection_ends() {
    let stopping = Stopping::Logarithmic {
        success_probability: 0.5,
    };
    let event = nested(40, DpEvent::laplace(10.0), |event| {
        DpEvent::RepeatAndSelect {
            event: Box::new(event),
            stopping,
        }
    });
    let mut accountant = RdpAccountant::new(Adjacency::AddRemoveUser);
    if accountant.compose(&event, 1).is_ok() {
        let _ = accountant
            .delta(1.0)
            .map(|bound| assert!(bound.upper > 0.0));
    }
}

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

/// What is spliced in.
const TOKENS: [&str; 26] = [
    "2",
    "0.5",
    "1e-3",
    "40",
    "0",
    "-1",
    "1e999",
    "-1e-999",
    "NaN",
    "Infinity",
    "-Infinity",
    "null",
    "\"\"",
    "[]",
    "{}",
    "1e308",
    "5e-324",
    "18446744073709551615",
    "1.0000000000000002",
    "true",
    ",",
    "\\",
    "\"",
    "}",
    "]",
    "\u{0}",
];

fn mutated(draw: &mut Draw, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..draw.whole(1, 3) {
        let at = draw.bits() as usize % bytes.len();
        match draw.whole(0, 5) {
            0 => bytes[at] = draw.bits() as u8,
            1 => {
                bytes.remove(at);
            }
            2 => bytes.insert(at, draw.pick(b"0123456789eE.-+{}[]\",:\\nuNI ")),
            3 => {
                let end = (at + draw.whole(1, 60) as usize).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = draw.bits() as usize % bytes.len();
                bytes.splice(to..to, piece);
            }
            _ => {
                // A number is replaced by something else.
                let start = (at..bytes.len()).find(|&i| bytes[i].is_ascii_digit());
                if let Some(start) = start {
                    let len = bytes[start..]
                        .iter()
                        .take_while(|b| b.is_ascii_digit() || b".eE-+".contains(b))
                        .count();
                    let token = draw.pick(&TOKENS);
                    bytes.splice(start..start + len, token.bytes());
                }
            }
        }
        if bytes.is_empty() {
            bytes.push(b' ');
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

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

fn answer_all(text: &str) -> usize {
    let Ok(file) = QuestionFile::from_json(text) else {
        return 0;
    };
    let mut n = 0;
    for case in file.cases() {
        let _ = case.asked();
        if let Ok(answer) = case.answer() {
            n += 1;
            let sane = answer.lower <= answer.value && answer.value <= answer.upper;
            assert!(sane && !answer.upper.is_nan(), "{answer:?} for {text}");
        }
    }
    n
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
        let text = mutated(&mut draw, &files[i % files.len()]);
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

#[test]
fn guarantees_of_the_wrong_relation_are_refused() {
    for event in [
        DpEvent::ApproxDp {
            epsilon: 1.0,
            delta: 1e-9,
            relation: Relation::Replace,
        },
        DpEvent::Zcdp {
            rho: 1.0,
            relation: Relation::Replace,
        },
        DpEvent::Rdp {
            order: 2.0,
            epsilon: 1.0,
            relation: Relation::Replace,
        },
        DpEvent::BoundedRange {
            epsilon: 1.0,
            relation: Relation::Replace,
        },
        DpEvent::RandomizedResponse {
            noise_probability: 0.5,
            buckets: 3,
        },
    ] {
        for adjacency in [Adjacency::AddRemoveUser, Adjacency::AddRemoveRecord] {
            let mut accountant = TightestAccountant::new(adjacency);
            let refused = accountant.compose(&event, 1);
            assert!(
                matches!(refused, Err(Error::UnsupportedEvent { .. })),
                "{event:?}"
            );
        }
    }
}
