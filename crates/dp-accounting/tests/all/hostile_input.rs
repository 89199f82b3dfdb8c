//! Numbers out of range, counts that overflow, excessive nesting, and invalid files lead to typed
//! errors, and never to an epsilon of 0, an answer that is not a number, or a panic.

use dp_accounting::questions::{Answer, Quantity, QuestionError, QuestionFile};
use dp_accounting::{
    Accountant, Error, GdpAccountant, PrivacyBound, RdpAccountant, Result, TightestAccountant,
};
use dp_core::{Adjacency, DpEvent, Relation, Stopping};

use crate::shared::accountants::accountants;
use crate::shared::draw::Draw;
use crate::shared::edits::edited;
use crate::shared::events::{ADJACENCIES, every_form};
use crate::shared::refusals::is_explained;

/// Checks that the answer is a bracket of finite numbers in order, or a typed error.
#[track_caller]
fn assert_epsilon(answer: &Result<PrivacyBound>, what: &str) {
    match answer {
        Ok(bound) => {
            let ordered =
                0.0 <= bound.lower && bound.lower <= bound.value && bound.value <= bound.upper;
            assert!(ordered && bound.upper.is_finite(), "{what}: {bound:?}");
        }
        Err(error) => assert_typed(error, what),
    }
}

/// The same for probabilities.
#[track_caller]
fn assert_delta(answer: &Result<PrivacyBound>, what: &str) {
    assert_epsilon(answer, what);
    if let Ok(bound) = answer {
        assert!(bound.upper <= 1.0, "{what}: {bound:?}");
    }
}

/// Checks that the error can be caused by a mechanism or a question and that its message names the
/// cause.
#[track_caller]
fn assert_typed(error: &Error, what: &str) {
    assert!(is_explained(error), "{what}: {error:?}");
}

/// Composes one run and asks for everything; a composition must have a valid answer or a typed
/// error.
fn compose(accountant: &mut dyn Accountant, event: &DpEvent) -> Result<()> {
    accountant.compose(event, 1)?;
    for delta in [1e-9, 0.2] {
        let what = format!("{event:?} at delta {delta}");
        assert_epsilon(&accountant.epsilon(delta), &what);
    }
    for epsilon in [0.0, 2.0] {
        let what = format!("{event:?} at epsilon {epsilon}");
        assert_delta(&accountant.delta(epsilon), &what);
    }
    Ok(())
}

/// The range of a real parameter.
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

/// Every real parameter of an event, at any depth. Adding a variant to `DpEvent` breaks compilation
/// here.
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
    let allocation = |n_selected, n_steps| DpEvent::random_allocation(1.0, n_selected, n_steps);
    vec![
        DpEvent::discrete_gaussian(1.0, 0),
        DpEvent::discrete_laplace(1.0, 0),
        DpEvent::randomized_response(0.5, 0),
        DpEvent::randomized_response(0.5, 1),
        without(0, 10),
        without(11, 10),
        without(0, 0),
        allocation(0, 10),
        allocation(11, 10),
        allocation(0, 0),
        DpEvent::tree_aggregation(1.0, 0),
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
        DpEvent::composed(vec![
            DpEvent::laplace(1.0).repeated(u64::MAX),
            DpEvent::laplace(1.0),
        ]),
        DpEvent::mixture_of_gaussians(1.0, [], []),
        DpEvent::mixture_of_gaussians(1.0, [1.0], [0.5, 0.5]),
        DpEvent::mixture_of_gaussians(1.0, [0.0, 0.0], [0.5, 0.5]),
        DpEvent::mixture_of_gaussians(1.0, [0.0, 1.0], [0.5, 0.4]),
        DpEvent::mixture_of_gaussians(1.0, [0.0, 1.0], [0.5, 0.6]),
    ]
}

fn nested(depth: usize, inner: DpEvent, wrap: impl Fn(DpEvent) -> DpEvent) -> DpEvent {
    (0..depth).fold(inner, |event, _| wrap(event))
}

/// Runs `check` on a stack an eighth of the usual size for threads.
fn on_a_small_stack(check: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    thread.spawn(check).unwrap().join().unwrap();
}

type Wrap = fn(DpEvent) -> DpEvent;

const WRAPS: [Wrap; 5] = [
    |event| event.repeated(1),
    |event| DpEvent::composed(vec![event]),
    |event| event.poisson_sampled(1.0),
    |event| event.sampled_without_replacement(1, 1),
    |event| {
        event.best_of(Stopping::Logarithmic {
            success_probability: 0.5,
        })
    },
];

/// Events at the allowed depth are answered on a small stack, for every way of nesting.
#[test]
fn the_deepest_events_fit_a_small_stack() {
    for wrap in WRAPS {
        for inner in [DpEvent::gaussian(2.0), DpEvent::laplace(3.0)] {
            let event = nested(DpEvent::MAX_DEPTH - 1, inner, wrap);
            on_a_small_stack(move || {
                for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
                    for (name, mut accountant) in accountants(adjacency) {
                        match accountant.compose(&event, 1) {
                            Ok(()) => {
                                assert_epsilon(&accountant.epsilon(1e-6), name);
                                assert_delta(&accountant.delta(1.0), name);
                            }
                            Err(refusal) => assert_typed(&refusal, name),
                        }
                    }
                    costs_what_it_wraps(&event, adjacency);
                }
            });
        }
    }
}

/// None of [`WRAPS`] repeats or samples anything, so a Gaussian event costs as much as its core.
fn costs_what_it_wraps(event: &DpEvent, adjacency: Adjacency) {
    match dp_accounting::gdp::mu_squared(event, adjacency) {
        Ok(found) => {
            let core = dp_accounting::gdp::mu_squared(&DpEvent::gaussian(2.0), adjacency).unwrap();
            let ratio = found / core;
            assert!((1.0..1.0 + 1e-12).contains(&ratio), "{found} {core}");
        }
        Err(refusal) => {
            let unsupported = matches!(refusal, Error::UnsupportedEvent { .. });
            assert!(unsupported, "{refusal:?}");
            assert_typed(&refusal, "gdp");
        }
    }
}

/// Regression test: ten thousand nested samples overflowed the stack.
#[test]
fn deep_events_do_not_overflow_the_stack() {
    for wrap in WRAPS {
        for depth in [DpEvent::MAX_DEPTH, 1_000, 20_000] {
            // Built and dropped here, on a large stack, because dropping a box drops its contents
            // recursively.
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
    for (_, mut accountant) in accountants(adjacency) {
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
    let event = nested(40, DpEvent::laplace(10.0), |event| event.best_of(stopping));
    let mut accountant = RdpAccountant::new(Adjacency::AddRemoveUser);
    accountant.compose(&event, 1).unwrap();
    let delta = accountant.delta(1.0);
    assert_delta(&delta, "40 selections");
    assert!(delta.unwrap().upper > 0.0);
}

#[track_caller]
fn assert_refused(event: &DpEvent) {
    for adjacency in ADJACENCIES {
        for (name, mut accountant) in accountants(adjacency) {
            let what = format!("{name} {event:?} {adjacency}");
            let Err(refusal) = compose(accountant.as_mut(), event) else {
                panic!("{what} was composed");
            };
            assert_typed(&refusal, &what);
            assert!(matches!(
                accountant.epsilon(1e-5),
                Err(Error::NothingComposed)
            ));
        }
    }
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
        assert_refused(&DpEvent::composed(vec![DpEvent::gaussian(1.0), event]));
    }
}

#[test]
fn guarantees_of_the_wrong_relation_are_refused() {
    for event in [
        DpEvent::approx_dp(1.0, 1e-9, Relation::Replace),
        DpEvent::zcdp(1.0, Relation::Replace),
        DpEvent::rdp(2.0, 1.0, Relation::Replace),
        DpEvent::bounded_range(1.0, Relation::Replace),
        DpEvent::randomized_response(0.5, 3),
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

/// Valid but useless: the smallest and largest numbers there are.
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
                    for (name, mut accountant) in accountants(adjacency) {
                        let what = format!("{name} {changed:?} {adjacency}");
                        // small values may be rejected; an event that is accepted is never free
                        if let Err(refusal) = compose(accountant.as_mut(), &changed) {
                            assert_typed(&refusal, &what);
                        }
                        if let Ok(bound) = accountant.delta(0.0) {
                            assert!(bound.upper > 0.0, "{what}: {bound:?}");
                        }
                    }
                }
            }
        }
    }
}

/// Every answer to the largest guarantees and the smallest noise is finite, or a typed error.
#[test]
fn the_costliest_events_have_finite_answers_or_none() {
    let relation = Relation::AddRemove;
    let of = |x: f64| {
        [
            DpEvent::Zcdp { rho: x, relation },
            DpEvent::approx_dp(x, 1e-9, relation),
            DpEvent::approx_dp(x, 0.0, relation),
            DpEvent::rdp(2.0, x, relation),
            DpEvent::bounded_range(x, relation),
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
                    for (name, mut accountant) in accountants(adjacency) {
                        let what = format!("{name} {event:?} {count} {adjacency}");
                        if let Err(refusal) = accountant.compose(&event, count) {
                            assert_typed(&refusal, &what);
                            continue;
                        }
                        for delta in [1e-300, 0.2] {
                            assert_epsilon(&accountant.epsilon(delta), &what);
                        }
                        assert_delta(&accountant.delta(1.0), &what);
                    }
                }
            }
        }
    }
}

#[test]
fn counts_that_overflow_change_nothing() {
    for adjacency in ADJACENCIES {
        for (name, mut accountant) in accountants(adjacency) {
            let event = DpEvent::sampled_gaussian(10.0, 0.01);
            if let Err(refusal) = accountant.compose(&event, u64::MAX) {
                assert_typed(&refusal, name);
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

/// Asks everything in `text`; returns the number of answers.
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

/// Checks that the bracket is valid, and for probabilities within [0, 1]. An epsilon by formula is
/// not clipped at 0.
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

/// Checks the reason why there is no answer; an invalid bracket would be a bug in the crate.
fn assert_explained(refusal: &QuestionError, text: &str) {
    match refusal {
        QuestionError::Accounting(error) => assert_typed(error, text),
        QuestionError::NoBracket { .. } => panic!("{refusal} for {text}"),
        other => assert!(!other.to_string().is_empty(), "{other:?} for {text}"),
    }
}

fn mutated_question_files(n: usize) {
    let files = single_files();
    assert_eq!(files.len(), 10);
    for file in &files {
        assert!(answer_all(file) > 0, "{file}");
    }
    let mut draw = Draw(7);
    let mut answered = 0;
    for i in 0..n {
        let bytes = edited(&mut draw, files[i % files.len()].as_bytes(), 3);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        answered += answer_all(&text);
    }
    assert!(answered > n / 40, "{answered}");
}

#[test]
fn mutated_question_files_do_not_panic() {
    mutated_question_files(4_000);
}

#[test]
#[ignore = "long form: a minute"]
fn long_mutated_question_files_do_not_panic() {
    mutated_question_files(100_000);
}

/// Regression test: the rounding error of a large exponent moved the upper end far above 1.
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
