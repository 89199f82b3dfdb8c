//! Every corner is answered or refused, in bounded time, and all brackets overlap.

use dp_accounting::{Error, PrivacyBound, Result};
use dp_core::{Adjacency, DpEvent};

use super::grid::{DELTAS, EPSILONS, STEPS, events_at_the_ends};
use super::patience::{PATIENCE, cpu_seconds};
use crate::shared::accountants::accountants;
use crate::shared::draw::Draw;

#[derive(Debug, Clone, Copy)]
enum Ask {
    Epsilon(f64),
    Delta(f64),
}

type Slow = (f64, String);

fn check(bound: &Result<PrivacyBound>, question: Ask, case: &str) {
    match bound {
        Ok(bound) => {
            let ordered =
                0.0 <= bound.lower && bound.lower <= bound.value && bound.value <= bound.upper;
            let most = match question {
                Ask::Epsilon(_) => f64::MAX,
                Ask::Delta(_) => 1.0,
            };
            assert!(ordered && bound.upper <= most, "{case}: {bound:?}");
        }
        Err(
            Error::UnsupportedEvent { .. }
            | Error::NotCertified { .. }
            | Error::NoFiniteEpsilon { .. },
        ) => {}
        Err(error) => panic!("{case}: {error}"),
    }
}

/// Puts one question to every accountant; all brackets must overlap.
fn ask_all(event: &DpEvent, count: u64, adjacency: Adjacency, question: Ask, slow: &mut Vec<Slow>) {
    let (mut lower, mut upper) = (0.0_f64, f64::INFINITY);
    let case = format!("{count} {event:?} {adjacency} {question:?}");
    for (name, mut accountant) in accountants(adjacency) {
        let start = cpu_seconds();
        let answer = accountant
            .compose(event, count)
            .and_then(|()| match question {
                Ask::Epsilon(delta) => accountant.epsilon(delta),
                Ask::Delta(epsilon) => accountant.delta(epsilon),
            });
        let seconds = cpu_seconds() - start;
        if seconds > 0.3 {
            slow.push((seconds, format!("{name} {case}")));
        }
        assert!(seconds < PATIENCE, "{name} {case}: {seconds} s");
        if let Err(Error::Param(error)) = &answer {
            // The costs of all steps together may leave the range of numbers.
            assert!(
                ["mu_squared", "rho", "epsilon"].contains(&error.name),
                "{case}: {error}"
            );
            continue;
        }
        check(&answer, question, &format!("{name} {case}"));
        if let Ok(bound) = answer {
            lower = lower.max(bound.lower);
            upper = upper.min(bound.upper);
        }
    }
    // Envelopes are told apart in soundness.rs.
    let envelope = format!("{event:?}");
    if !envelope.contains("BoundedRange") && !envelope.contains("WithoutReplacement") {
        assert!(
            lower <= upper * (1.0 + 1e-11) + 1e-300,
            "{case}: {lower} {upper}"
        );
    }
}

/// Every event once in this many of its combinations with steps and questions.
fn corners(stride: u64) -> Vec<Slow> {
    let mut slow = Vec::new();
    let mut draw = Draw(stride);
    let questions = (DELTAS.map(Ask::Epsilon).into_iter()).chain(EPSILONS.map(Ask::Delta));
    let questions: Vec<Ask> = questions.collect();
    for event in events_at_the_ends() {
        for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
            for count in STEPS {
                for question in &questions {
                    if draw.whole(1, stride) == 1 {
                        ask_all(&event, count, adjacency, *question, &mut slow);
                    }
                }
            }
        }
    }
    slow.sort_by(|a, b| b.0.total_cmp(&a.0));
    slow
}

#[test]
fn corners_are_answered_or_refused() {
    let slow = corners(800);
    for (seconds, case) in slow.iter().take(5) {
        println!("{seconds:.2} s {case}");
    }
}

#[test]
#[ignore = "an hour: every combination"]
fn long_every_corner() {
    let stride = std::env::var("EXTREMES_STRIDE").map_or(1, |text| text.parse().unwrap());
    let slow = corners(stride);
    let over = slow.iter().filter(|(seconds, _)| *seconds > 2.0).count();
    println!("{} calls above 0.3 s, {over} above 2 s", slow.len());
    for (seconds, case) in slow.iter().take(40) {
        println!("{seconds:.2} s {case}");
    }
}
