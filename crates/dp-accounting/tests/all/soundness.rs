//! Brackets of different methods overlap, bounds lie above them, and exact values lie inside.
//!
//! Every method's bracket holds the truth, so the largest `lower` of all is at most the smallest
//! `upper`. Random compositions of every kind of event are put to all accountants at once:
//! 30 with all the effort there is by default, and 10,000, every twentieth of them so, by
//!
//! ```text
//! cargo test --release -p dp-accounting --test all -- --ignored soundness::long_
//! ```
//!
//! `exact_values_from_a_file` reads exact values from `soundness_reference.py`, which says how.

use dp_accounting::{
    Accountant, Error, PldAccountant, PrivacyBound, RdpAccountant, SaddlePointAccountant,
    TightestAccountant, ZcdpAccountant,
};
use dp_core::{Adjacency, DpEvent};

use crate::shared::draw::Draw;
use crate::shared::events::{ADJACENCIES, random_bound, random_pair};

/// Relative allowance between two figures computed differently from the same rounded parameters.
const ROUNDING: f64 = 1e-11;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Ask {
    Epsilon(f64),
    Delta(f64),
}

type Composition = Vec<(DpEvent, u64)>;

fn ask<A: Accountant>(
    mut accountant: A,
    composition: &Composition,
    question: Ask,
) -> Option<PrivacyBound> {
    let composed = composition
        .iter()
        .try_for_each(|(event, n)| accountant.compose(event, *n));
    let answer = composed.and_then(|()| match question {
        Ask::Epsilon(delta) => accountant.epsilon(delta),
        Ask::Delta(epsilon) => accountant.delta(epsilon),
    });
    match answer {
        Ok(bound) => Some(bound),
        Err(
            Error::UnsupportedEvent { .. }
            | Error::NotCertified { .. }
            | Error::NoFiniteEpsilon { .. },
        ) => None,
        Err(error) => panic!("{error} for {composition:?} {question:?}"),
    }
}

fn check_shape(bound: &PrivacyBound, question: Ask, case: &str) {
    let ordered = 0.0 <= bound.lower && bound.lower <= bound.value && bound.value <= bound.upper;
    let top = match question {
        Ask::Epsilon(_) => f64::MAX,
        Ask::Delta(_) => 1.0,
    };
    assert!(ordered && bound.upper <= top, "{bound:?} for {case}");
}

/// All answers with their names, the exact methods first.
fn answers(
    composition: &Composition,
    adjacency: Adjacency,
    question: Ask,
    all: bool,
) -> Vec<(&'static str, PrivacyBound)> {
    let mut found = Vec::new();
    let mut keep = |name, bound: Option<PrivacyBound>| {
        if let Some(bound) = bound {
            check_shape(
                &bound,
                question,
                &format!("{name} {adjacency} {composition:?}"),
            );
            found.push((name, bound));
        }
    };
    if all {
        let tightest = ask(TightestAccountant::new(adjacency), composition, question);
        keep("tightest", tightest);
    }
    let rdp = ask(RdpAccountant::new(adjacency), composition, question);
    keep("rdp", rdp);
    let zcdp = ask(ZcdpAccountant::new(adjacency), composition, question);
    keep("zcdp", zcdp);
    let saddle = ask(SaddlePointAccountant::new(adjacency), composition, question);
    keep("saddle-point", saddle);
    let pld = if all {
        ask(PldAccountant::new(adjacency), composition, question)
    } else {
        ask(PldAccountant::quick(adjacency), composition, question)
    };
    keep("pld", pld);
    found
}

/// Events whose exact losses bound all mechanisms but belong to none when composed.
fn is_envelope(event: &DpEvent) -> bool {
    matches!(
        event,
        DpEvent::BoundedRange { .. } | DpEvent::SampledWithoutReplacement { .. }
    )
}

/// The largest lower against the smallest upper.
fn check_overlap(
    composition: &Composition,
    adjacency: Adjacency,
    question: Ask,
    found: &[(&'static str, PrivacyBound)],
) {
    let envelope = composition.iter().any(|(event, _)| is_envelope(event));
    for (low, a) in found {
        for (high, b) in found {
            let exact = ["saddle-point", "pld"];
            let comparable = !envelope || exact.contains(low) == exact.contains(high);
            assert!(
                !comparable || a.lower <= b.upper * (1.0 + ROUNDING) + 1e-300,
                "{low} {} above {high} {}: {question:?} {adjacency} {composition:?}",
                a.lower,
                b.upper
            );
        }
    }
    let Some((_, best)) = found.iter().find(|(name, _)| *name == "tightest") else {
        return;
    };
    // Where the tightest is close enough it stops looking, up to 1e-6 above the best; of a delta
    // that is far from 1, in its logarithm.
    let scale = match question {
        Ask::Epsilon(_) => 1.0,
        Ask::Delta(_) => 1.0 + libm::log(best.upper.max(1e-300)).abs(),
    };
    for (name, bound) in found {
        let allowed = bound.upper * (1.0 + 2e-6 * scale) + 1e-300;
        assert!(
            best.upper <= allowed,
            "tightest {} above {name} {}: {question:?} {adjacency} {composition:?}",
            best.upper,
            bound.upper
        );
    }
}

fn random_composition(draw: &mut Draw, adjacency: Adjacency) -> Composition {
    let pairs_only = draw.chance(0.75);
    let n = draw.whole(1, 4);
    (0..n)
        .map(|_| {
            let event = if pairs_only || draw.chance(0.5) {
                random_pair(draw, adjacency)
            } else {
                random_bound(draw, adjacency)
            };
            let count = match draw.whole(0, 3) {
                0 => 1,
                1 | 2 => draw.log_whole(1, 60),
                _ => draw.log_whole(1, 20_000),
            };
            (event, count)
        })
        .collect()
}

fn random_question(draw: &mut Draw) -> Ask {
    if draw.chance(0.6) {
        let top = if draw.chance(0.5) { 1e-2 } else { 0.5 };
        let bottom = draw.pick(&[1e-6, 1e-12, 1e-100]);
        Ask::Epsilon(draw.log(bottom, top))
    } else {
        Ask::Delta(draw.log(1e-3, 30.0))
    }
}

/// Puts the compositions of these numbers to the accountants; every `stride`-th with all the
/// effort there is and to the tightest, too, and every tenth of those together with its
/// neighbours.
fn run(seed: u64, cases: std::ops::Range<usize>, stride: usize) {
    let (mut answered, mut n) = (0, 0);
    for i in cases {
        n += 1;
        let mut draw = Draw(seed.wrapping_mul(1_000_003).wrapping_add(i as u64));
        let adjacency = draw.pick(&ADJACENCIES);
        let composition = random_composition(&mut draw, adjacency);
        let question = random_question(&mut draw);
        let found = answers(&composition, adjacency, question, i % stride == 0);
        check_overlap(&composition, adjacency, question, &found);
        answered += usize::from(!found.is_empty());
        if i % (10 * stride) == 0 {
            check_monotone(&composition, adjacency, question);
        }
    }
    assert!(answered * 10 > n * 8, "only {answered} of {n} answered");
}

/// One more run of the first event, a looser question: the tightest answers move the right way.
fn check_monotone(composition: &Composition, adjacency: Adjacency, question: Ask) {
    let at = |composition: &Composition, question| {
        ask(TightestAccountant::new(adjacency), composition, question)
    };
    let Some(before) = at(composition, question) else {
        return;
    };
    let looser = match question {
        Ask::Epsilon(delta) => Ask::Epsilon((delta * 1.5).min(0.9)),
        Ask::Delta(epsilon) => Ask::Delta(epsilon * 1.1),
    };
    if let Some(after) = at(composition, looser) {
        assert!(
            after.lower <= before.upper,
            "{before:?} {after:?} {question:?} {composition:?}"
        );
    }
    let mut more = composition.clone();
    more[0].1 += 1;
    if let Some(after) = at(&more, question) {
        assert!(
            before.lower <= after.upper,
            "{before:?} {after:?} {question:?} {composition:?}"
        );
    }
}

#[test]
fn random_compositions_quickly() {
    run(1, 0..30, 1);
}

#[test]
#[ignore = "half an hour: 10,000 compositions through all accountants"]
fn long_random_compositions() {
    let number = |name: &str, otherwise: usize| {
        std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
    };
    let (first, n) = (
        number("SOUNDNESS_FIRST", 0),
        number("SOUNDNESS_CASES", 10_000),
    );
    run(2, first..first + n, 20);
}

/// Two neighbours made of a removal and an addition of a pure mechanism lie within e^(2 epsilon), but
/// the data set between them keeps them from being randomised response of that: with
/// P <= e^epsilon N and so on, P(A) - Q(A) is at most 1 - e^-epsilon. Sampled, the losses end at
/// ln((1 - q + q e^epsilon) / (1 - q + q e^-epsilon)).
#[test]
fn lower_of_a_guarantee_stated_for_removals_is_no_promise_about_replacement() {
    let event = DpEvent::approx_dp(1.0, 0.0, dp_core::Relation::AddRemove);
    let bound = |event: &DpEvent, question| {
        let accountant = TightestAccountant::new(Adjacency::ReplaceRecord);
        ask(accountant, &vec![(event.clone(), 1)], question).unwrap()
    };
    let plain = bound(&event, Ask::Delta(0.0));
    assert!(plain.lower <= -libm::expm1(-1.0), "{plain:?}");
    let q = 0.1;
    let sampled = bound(&event.poisson_sampled(q), Ask::Epsilon(1e-100));
    let most = libm::log1p(q * libm::expm1(1.0)) - libm::log1p(q * libm::expm1(-1.0));
    assert!(sampled.lower <= most * (1.0 + 1e-12), "{sampled:?} {most}");
}

/// Components of the same sensitivity are one component.
#[test]
fn equal_sensitivities_in_a_mixture() {
    let mixture = |sensitivities: &[f64], probabilities: &[f64]| {
        DpEvent::mixture_of_gaussians(1.5, sensitivities.to_vec(), probabilities.to_vec())
    };
    let split = mixture(&[0.0, 0.0, 1.0, 1.0], &[0.25, 0.25, 0.25, 0.25]);
    let joined = mixture(&[0.0, 1.0], &[0.5, 0.5]);
    for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
        for (n, question) in [
            (1, Ask::Delta(0.5)),
            (3, Ask::Epsilon(1e-5)),
            (3, Ask::Delta(0.0)),
        ] {
            let one = answers(&vec![(split.clone(), n)], adjacency, question, true);
            let other = answers(&vec![(joined.clone(), n)], adjacency, question, true);
            for (a, b) in one.iter().zip(&other) {
                assert!(
                    a.1.lower <= b.1.upper && b.1.lower <= a.1.upper,
                    "{a:?} {b:?}"
                );
                assert!((a.1.upper / b.1.upper - 1.0).abs() < 1e-4, "{a:?} {b:?}");
            }
        }
    }
}

#[derive(serde::Deserialize)]
struct Reference {
    replace: bool,
    events: Composition,
    epsilon: f64,
    delta: String,
    uncertainty: f64,
}

#[test]
#[ignore = "needs the output of soundness_reference.py"]
fn exact_values_from_a_file() {
    let path = std::env::var("SOUNDNESS_FILE").unwrap();
    // Without the methods that the tightest chooses from, which take seconds.
    let quick = std::env::var_os("SOUNDNESS_QUICK").is_some();
    let (mut failures, mut n) = (0, 0);
    let mut widest = std::collections::BTreeMap::<&str, (f64, String, usize)>::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let case: Reference = serde_json::from_str(line).unwrap();
        let truth: f64 = case.delta.parse().unwrap();
        let adjacency = if case.replace {
            Adjacency::ReplaceRecord
        } else {
            Adjacency::AddRemoveRecord
        };
        n += 1;
        if n % 10 == 0 {
            println!("{n} cases so far, {failures} violations");
        }
        let slack = case.uncertainty + 2e-16;
        let mut questions = vec![(Ask::Delta(case.epsilon), truth)];
        if truth < 1.0 - 1e-12 {
            questions.push((Ask::Epsilon(truth), case.epsilon));
        }
        for (question, value) in questions {
            // For an epsilon the reference is the delta asked for, right to `slack`; epsilon moves
            // by less than that relative to itself unless it is tiny.
            let slack_of_value = match question {
                Ask::Delta(_) => slack,
                Ask::Epsilon(_) => 1e-14 + slack / case.epsilon.min(1.0),
            };
            for (name, a) in &answers(&case.events, adjacency, question, !quick) {
                if a.upper < value * (1.0 - slack_of_value) {
                    failures += 1;
                    let short = 1.0 - a.upper / value;
                    println!(
                        "UPPER {name} {} short by {short:e} {question:?}: {line}",
                        a.upper
                    );
                }
                if a.lower > value * (1.0 + slack_of_value) {
                    failures += 1;
                    let over = a.lower / value - 1.0;
                    println!(
                        "LOWER {name} {} over by {over:e} {question:?}: {line}",
                        a.lower
                    );
                }
                let width = (a.upper - a.lower) / value;
                let entry = widest.entry(name).or_insert((0.0, String::new(), 0));
                entry.2 += 1;
                if width > entry.0 {
                    (entry.0, entry.1) = (width, format!("{question:?} {line}"));
                }
            }
        }
    }
    for (name, (width, line, count)) in &widest {
        println!("{name}: {count} answers, widest {width:e} for {line}");
    }
    println!("{n} cases");
    assert!(n > 0 && failures == 0, "{failures} violations in {n} cases");
}
