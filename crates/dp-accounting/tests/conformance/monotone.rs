//! Less noise, more steps and harder questions never come out cheaper.

use dp_accounting::PrivacyBound;
use dp_core::DpEvent;

use super::subject::{SOME, Subject, account, answered, answers};
use crate::shared::events::every_form;

/// `cheap` may not come out above `dear`, as far as their brackets tell.
#[track_caller]
fn assert_at_most(cheap: Option<PrivacyBound>, dear: Option<PrivacyBound>, what: &str) {
    let (Some(cheap), Some(dear)) = (cheap, dear) else {
        return;
    };
    let width = (dear.upper - dear.lower).min(1e-3 * dear.upper);
    let bracket = if dear.lower > 0.0 {
        width
    } else {
        1e-11 * dear.upper
    };
    // Beyond the largest loss nothing is left but rounding.
    let allowed = dear.upper + bracket + 1e-14;
    assert!(
        cheap.upper <= allowed && cheap.lower <= dear.upper,
        "{what}: {cheap:?} {dear:?}"
    );
}

pub(super) fn monotone_in_the_question_to<A: Subject>() {
    for event in every_form() {
        for adjacency in SOME {
            let Some(accountant) = account::<A>(&[(&event, 3)], adjacency) else {
                continue;
            };
            let deltas = [1e-100, 1e-20, 1e-9, 1e-5, 1.0001e-5, 1e-2, 0.3];
            for pair in deltas.windows(2) {
                let [low, high] = [pair[0], pair[1]].map(|d| answered(accountant.epsilon_at(d)));
                assert_at_most(high, low, &format!("{event:?} {pair:?}"));
            }
            let epsilons = [0.0, 1e-6, 0.1, 0.5, 0.5001, 3.0, 20.0];
            for pair in epsilons.windows(2) {
                let [low, high] = [pair[0], pair[1]].map(|e| answered(accountant.delta_at(e)));
                assert_at_most(high, low, &format!("{event:?} {pair:?}"));
            }
        }
    }
}

/// Each row rises in cost.
fn rising_rows() -> Vec<Vec<(DpEvent, u64)>> {
    let noise = [30.0, 3.0, 2.9, 1.0];
    let q = [1e-4, 0.01, 0.0101, 0.3, 0.9, 1.0];
    let steps = [1, 2, 10, 11, 1000];
    let once = |events: Vec<DpEvent>| events.into_iter().map(|event| (event, 5)).collect();
    vec![
        once(noise.map(DpEvent::gaussian).to_vec()),
        once(noise.map(DpEvent::gaussian_psd).to_vec()),
        once(noise.map(DpEvent::laplace).to_vec()),
        once(noise.map(|z| DpEvent::sampled_gaussian(z, 0.05)).to_vec()),
        once(q.map(|q| DpEvent::sampled_gaussian(2.0, q)).to_vec()),
        once(q.map(|q| DpEvent::laplace(3.0).poisson_sampled(q)).to_vec()),
        once(
            noise
                .map(|sigma| DpEvent::discrete_gaussian(sigma, 1))
                .to_vec(),
        ),
        once(
            noise
                .map(|z| DpEvent::discrete_laplace(1.0 / z, 3))
                .to_vec(),
        ),
        once(
            [1.0, 0.9, 0.5, 0.1]
                .map(|noise_probability| DpEvent::randomized_response(noise_probability, 4))
                .to_vec(),
        ),
        once(
            noise
                .map(|noise_multiplier| DpEvent::tree_aggregation(noise_multiplier, 100))
                .to_vec(),
        ),
        steps.map(|n| (DpEvent::gaussian(20.0), n)).to_vec(),
        steps.map(|n| (DpEvent::laplace(40.0), n)).to_vec(),
        steps
            .map(|n| (DpEvent::sampled_gaussian(2.0, 0.01), n))
            .to_vec(),
    ]
}

pub(super) fn monotone_in_parameters_of<A: Subject>() {
    for row in rising_rows() {
        for adjacency in SOME {
            let at = |(event, count): &(DpEvent, u64)| {
                account::<A>(&[(event, *count)], adjacency).map(|a| answers(&a))
            };
            for pair in row.windows(2) {
                let (Some(cheap), Some(dear)) = (at(&pair[0]), at(&pair[1])) else {
                    continue;
                };
                for (cheap, dear) in cheap.into_iter().zip(dear) {
                    assert_at_most(cheap, dear, &format!("{pair:?} {adjacency}"));
                }
            }
        }
    }
}

pub(super) fn more_events_cost_more_in<A: Subject>() {
    let base = DpEvent::gaussian(3.0);
    for adjacency in SOME {
        let before = account::<A>(&[(&base, 1)], adjacency)
            .map(|a| answers(&a))
            .unwrap();
        for event in every_form() {
            let Some(more) = account::<A>(&[(&base, 1), (&event, 1)], adjacency) else {
                continue;
            };
            for (less, more) in before.iter().zip(answers(&more)) {
                assert_at_most(*less, more, &format!("{event:?} {adjacency}"));
            }
        }
    }
}
