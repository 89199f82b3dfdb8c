//! Checks the contract of `Accountant` for every accountant and every kind of event.

use std::collections::BTreeSet;
use std::fmt::Debug;

use dp_accounting::{
    Accountant, Error, GdpAccountant, PldAccountant, PrivacyBound, RdpAccountant, Result,
    SaddlePointAccountant, TightestAccountant, ZcdpAccountant,
};
use dp_core::{Adjacency, DpEvent};

use crate::shared::events::{ADJACENCIES, every_form, kind, one_of_each};

/// An accountant under test.
trait Subject: Accountant + Clone + PartialEq + Debug {
    fn fresh(adjacency: Adjacency) -> Self;

    /// Calls through the trait only, because some accountants have methods of the same name.
    fn epsilon_at(&self, delta: f64) -> Result<PrivacyBound> {
        Accountant::epsilon(self, delta)
    }

    fn delta_at(&self, epsilon: f64) -> Result<PrivacyBound> {
        Accountant::delta(self, epsilon)
    }
}

const SOME: [Adjacency; 2] = [Adjacency::AddRemoveUser, Adjacency::ReplaceRecord];

/// An accountant of `events`, `None` if one of them is not supported.
fn account<A: Subject>(events: &[(&DpEvent, u64)], adjacency: Adjacency) -> Option<A> {
    let mut accountant = A::fresh(adjacency);
    for (event, count) in events {
        match accountant.compose(event, *count) {
            Ok(()) => {}
            Err(Error::UnsupportedEvent { .. } | Error::NonPrivateEvent) => return None,
            Err(error) => panic!("{error} for {event:?}"),
        }
    }
    Some(accountant)
}

/// An answer; `None` if the method does not apply.
fn answered(result: Result<PrivacyBound>) -> Option<PrivacyBound> {
    match result {
        Ok(bound) => {
            let ordered =
                0.0 <= bound.lower && bound.lower <= bound.value && bound.value <= bound.upper;
            assert!(ordered && bound.upper.is_finite(), "{bound:?}");
            Some(bound)
        }
        Err(
            Error::UnsupportedEvent { .. }
            | Error::NotCertified { .. }
            | Error::NoFiniteEpsilon { .. },
        ) => None,
        Err(error) => panic!("{error}"),
    }
}

fn answers<A: Subject>(accountant: &A) -> Vec<Option<PrivacyBound>> {
    vec![
        answered(accountant.epsilon_at(1e-5)),
        answered(accountant.delta_at(0.7)),
    ]
}

macro_rules! subjects {
    ($($name:ident: $accountant:ty, slow if $slow:meta;)+) => {
        $(impl Subject for $accountant {
            fn fresh(adjacency: Adjacency) -> Self {
                Self::new(adjacency)
            }
        }

        mod $name {
            use super::*;

            type A = $accountant;

            #[test]
            fn count_is_repetition() {
                count_is_repetition_of::<A>();
            }

            #[test]
            fn order_is_irrelevant() {
                order_is_irrelevant_to::<A>();
            }

            #[test]
            fn refusals_change_nothing() {
                refusals_change_nothing_in::<A>();
            }

            #[test]
            fn nothing_composed() {
                nothing_composed_in::<A>();
            }

            #[test]
            fn unknown_events_are_refused() {
                unknown_events_are_refused_by::<A>();
            }

            #[test]
            #[cfg_attr($slow, ignore = "minutes: many brackets")]
            fn monotone_in_the_question() {
                monotone_in_the_question_to::<A>();
            }

            #[test]
            #[cfg_attr($slow, ignore = "minutes: many brackets")]
            fn monotone_in_parameters() {
                monotone_in_parameters_of::<A>();
            }

            #[test]
            fn more_events_cost_more() {
                more_events_cost_more_in::<A>();
            }

            #[test]
            fn bad_questions_are_errors() {
                bad_questions_are_errors_for::<A>();
            }
        })+
    };
}

subjects! {
    gdp: GdpAccountant, slow if any();
    zcdp: ZcdpAccountant, slow if any();
    rdp: RdpAccountant, slow if any();
    pld: PldAccountant, slow if all();
    saddle_point: SaddlePointAccountant, slow if any();
    tightest: TightestAccountant, slow if all();
}

#[test]
fn the_generator_knows_every_variant_once() {
    let names: Vec<&str> = one_of_each().iter().map(kind).collect();
    let distinct: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names.len(), distinct.len());
    assert_eq!(names.len(), 18);
}

/// Both must give equal answers; equal states are not evaluated.
#[track_caller]
fn assert_same<A: Subject>(a: &A, b: &A, what: &str) {
    if a != b {
        assert_close(&answers(a), &answers(b), what);
    }
}

#[track_caller]
fn assert_close(a: &[Option<PrivacyBound>], b: &[Option<PrivacyBound>], what: &str) {
    for (a, b) in a.iter().zip(b) {
        match (a, b) {
            (Some(a), Some(b)) => {
                let scale = a.upper.abs().max(1e-300);
                assert!(
                    (a.upper - b.upper).abs() <= 1e-12 * scale,
                    "{what}: {a:?} {b:?}"
                );
                assert!(
                    (a.lower - b.lower).abs() <= 1e-12 * scale,
                    "{what}: {a:?} {b:?}"
                );
            }
            (None, None) => {}
            _ => panic!("{what}: {a:?} {b:?}"),
        }
    }
}

fn count_is_repetition_of<A: Subject>() {
    for event in every_form() {
        for adjacency in SOME {
            for n in [2, 3, 7] {
                let Some(at_once) = account::<A>(&[(&event, n)], adjacency) else {
                    continue;
                };
                let singles = vec![(&event, 1); n as usize];
                let singly = account::<A>(&singles, adjacency).unwrap();
                let what = format!("{n} {event:?} {adjacency}");
                assert_same(&at_once, &singly, &what);
                let wrapped = event.clone().repeated(n);
                let wrapped = account::<A>(&[(&wrapped, 1)], adjacency).unwrap();
                assert_same(&at_once, &wrapped, &what);
                let listed = DpEvent::composed(vec![event.clone(); n as usize]);
                let listed = account::<A>(&[(&listed, 1)], adjacency).unwrap();
                assert_same(&at_once, &listed, &what);
            }
        }
    }
}

fn order_is_irrelevant_to<A: Subject>() {
    for adjacency in SOME {
        let known: Vec<DpEvent> = every_form()
            .into_iter()
            .filter(|event| account::<A>(&[(event, 1)], adjacency).is_some())
            .collect();
        for pair in known.chunks(3) {
            let [a, b, c] = pair else { continue };
            let forth = account::<A>(&[(a, 1), (b, 2), (c, 1)], adjacency).unwrap();
            let back = account::<A>(&[(c, 1), (b, 1), (a, 1), (b, 1)], adjacency).unwrap();
            assert_close(&answers(&forth), &answers(&back), &format!("{pair:?}"));
        }
    }
}

fn refusals_change_nothing_in<A: Subject>() {
    let good = DpEvent::gaussian(2.0);
    let bad = [
        DpEvent::NonPrivate,
        DpEvent::gaussian(f64::NAN),
        DpEvent::gaussian(1.0).repeated(0),
        DpEvent::Composed { events: vec![] },
        DpEvent::sampled_gaussian(1.0, 1.5),
        good.clone().repeated(u64::MAX).repeated(2),
    ];
    for adjacency in ADJACENCIES {
        let mut accountant = account::<A>(&[(&good, 3)], adjacency).unwrap();
        let before = (accountant.clone(), answers(&accountant));
        for bad in &bad {
            let events = vec![good.clone(), DpEvent::gaussian(1.0), bad.clone()];
            for event in [
                DpEvent::Composed { events }.repeated(2),
                bad.clone(),
                bad.clone().repeated(3),
            ] {
                assert!(accountant.compose(&event, 1).is_err(), "{event:?}");
                assert_eq!(accountant, before.0, "{event:?}");
            }
        }
        assert!(accountant.compose(&good, 0).is_err());
        assert_eq!(answers(&accountant), before.1);
    }
}

fn nothing_composed_in<A: Subject>() {
    for adjacency in ADJACENCIES {
        let empty = A::fresh(adjacency);
        assert_eq!(empty.adjacency(), adjacency);
        assert!(matches!(
            empty.epsilon_at(1e-5),
            Err(Error::NothingComposed)
        ));
        assert!(matches!(empty.delta_at(1.0), Err(Error::NothingComposed)));
        let mut refused = empty.clone();
        assert!(refused.compose(&DpEvent::NonPrivate, 1).is_err());
        assert!(matches!(
            refused.epsilon_at(1e-5),
            Err(Error::NothingComposed)
        ));
        let none = DpEvent::Composed { events: vec![] };
        assert!(matches!(
            refused.compose(&none, 1),
            Err(Error::NothingComposed)
        ));
    }
}

/// `cheap` must not be above `dear`, as far as their brackets allow.
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
    // beyond the largest loss only rounding errors remain
    let allowed = dear.upper + bracket + 1e-14;
    assert!(
        cheap.upper <= allowed && cheap.lower <= dear.upper,
        "{what}: {cheap:?} {dear:?}"
    );
}

fn monotone_in_the_question_to<A: Subject>() {
    for event in every_form() {
        for adjacency in SOME {
            let Some(accountant) = account::<A>(&[(&event, 3)], adjacency) else {
                continue;
            };
            let deltas = [1e-100, 1e-20, 1e-9, 1e-5, 1.0001e-5, 1e-2, 0.3];
            let found = deltas.map(|delta| answered(accountant.epsilon_at(delta)));
            for (pair, found) in deltas.windows(2).zip(found.windows(2)) {
                assert_at_most(found[1], found[0], &format!("{event:?} {pair:?}"));
            }
            let epsilons = [0.0, 1e-6, 0.1, 0.5, 0.5001, 3.0, 20.0];
            let found = epsilons.map(|epsilon| answered(accountant.delta_at(epsilon)));
            for (pair, found) in epsilons.windows(2).zip(found.windows(2)) {
                assert_at_most(found[1], found[0], &format!("{event:?} {pair:?}"));
            }
        }
    }
}

/// Each row is ordered by increasing cost.
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

fn monotone_in_parameters_of<A: Subject>() {
    for row in rising_rows() {
        for adjacency in SOME {
            let at = |(event, count): &(DpEvent, u64)| {
                account::<A>(&[(event, *count)], adjacency).map(|a| answers(&a))
            };
            let found: Vec<_> = row.iter().map(at).collect();
            for (pair, found) in row.windows(2).zip(found.windows(2)) {
                let [Some(cheap), Some(dear)] = found else {
                    continue;
                };
                for (&cheap, &dear) in cheap.iter().zip(dear) {
                    assert_at_most(cheap, dear, &format!("{pair:?} {adjacency}"));
                }
            }
        }
    }
}

fn more_events_cost_more_in<A: Subject>() {
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

/// The answers of all accountants, always in the same order, with `None` for those that have no
/// answer.
fn all_epsilons(event: &DpEvent, count: u64, adjacency: Adjacency, delta: f64) -> [Option<f64>; 5] {
    fn of<A: Subject>(event: &DpEvent, n: u64, adjacency: Adjacency, d: f64) -> Option<f64> {
        let accountant = account::<A>(&[(event, n)], adjacency)?;
        answered(accountant.epsilon_at(d)).map(|bound| bound.upper)
    }
    [
        of::<ZcdpAccountant>(event, count, adjacency, delta),
        of::<RdpAccountant>(event, count, adjacency, delta),
        of::<PldAccountant>(event, count, adjacency, delta),
        of::<SaddlePointAccountant>(event, count, adjacency, delta),
        of::<TightestAccountant>(event, count, adjacency, delta),
    ]
}

fn epsilons(event: &DpEvent, count: u64, adjacency: Adjacency, delta: f64) -> Vec<f64> {
    let all = all_epsilons(event, count, adjacency, delta);
    all.into_iter().flatten().collect()
}

fn best(event: &DpEvent, count: u64, adjacency: Adjacency, delta: f64) -> PrivacyBound {
    let accountant = account::<TightestAccountant>(&[(event, count)], adjacency).unwrap();
    accountant.epsilon_at(delta).unwrap()
}

/// With enough repetitions, the probability of error is close to 0, so epsilon cannot stay near
/// that of one run.
#[test]
fn count_is_not_forgotten() {
    let response = DpEvent::randomized_response(0.5, 4);
    let exponential = DpEvent::bounded_range(0.5, dp_core::Relation::Replace);
    for event in [response, exponential] {
        let one = all_epsilons(&event, 1, Adjacency::ReplaceRecord, 1e-6);
        let many = all_epsilons(&event, 400, Adjacency::ReplaceRecord, 1e-6);
        let both: Vec<(f64, f64)> = one
            .iter()
            .zip(many)
            .filter_map(|(one, many)| one.zip(many))
            .collect();
        assert!(both.len() >= 4, "{event:?} {both:?}");
        for (one, many) in both {
            assert!(many > 10.0 * one, "{event:?} {one} {many}");
        }
    }
}

/// 10 runs at (eps, 0): pure composition is the limit as delta falls.
#[test]
fn pure_composition_is_reached() {
    let response = DpEvent::randomized_response(0.5, 4);
    let one = 5.0_f64.ln();
    for epsilon in epsilons(&response, 10, Adjacency::ReplaceRecord, 1e-300) {
        assert!(epsilon >= 10.0 * one * (1.0 - 1e-12), "{epsilon}");
    }
}

#[test]
fn replacement_doubles() {
    let double = |event: &DpEvent, half: &DpEvent| {
        let replace = best(event, 3, Adjacency::ReplaceUser, 1e-6);
        let add = best(half, 3, Adjacency::AddRemoveUser, 1e-6);
        assert!(
            (replace.upper / add.upper - 1.0).abs() < 1e-5,
            "{event:?} {replace:?} {add:?}"
        );
    };
    double(&DpEvent::gaussian(4.0), &DpEvent::gaussian(2.0));
    double(&DpEvent::laplace(4.0), &DpEvent::laplace(2.0));
    let discrete = |rate, sensitivity| DpEvent::DiscreteLaplace { rate, sensitivity };
    double(&discrete(0.1, 1), &discrete(0.1, 2));
    let tree = |z, n_steps| DpEvent::tree_aggregation(z, n_steps);
    double(&tree(8.0, 63), &tree(4.0, 63));
    let psd = best(&DpEvent::gaussian_psd(2.0), 2, Adjacency::ReplaceUser, 1e-6);
    let plain = best(&DpEvent::gaussian(2.0), 4, Adjacency::AddRemoveUser, 1e-6);
    assert!((psd.upper / plain.upper - 1.0).abs() < 1e-12);
    // A sampled unit may be removed and replaced by another one, which costs more than one
    // direction alone.
    let sampled = DpEvent::sampled_gaussian(1.0, 0.1);
    let replace = best(&sampled, 10, Adjacency::ReplaceUser, 1e-6);
    let add = best(&sampled, 10, Adjacency::AddRemoveUser, 1e-6);
    assert!(replace.lower > 1.15 * add.upper, "{replace:?} {add:?}");
}

/// Fast Fourier transforms leave noise of 1e-16: no negative delta, no infinite epsilon.
#[test]
#[ignore = "heavy: part of CI"]
fn heavy_delta_far_below_rounding() {
    for (event, count) in [
        (DpEvent::sampled_gaussian(1.0, 0.01), 1000),
        (DpEvent::laplace(20.0), 100),
        (DpEvent::laplace(10.0).poisson_sampled(0.2), 50),
    ] {
        let mut last = 0.0;
        for delta in [1e-5, 1e-15, 1e-16, 1e-30, 1e-100] {
            let bound = best(&event, count, Adjacency::AddRemoveUser, delta);
            assert!(bound.upper.is_finite() && bound.upper >= last, "{bound:?}");
            last = bound.upper * (1.0 - 1e-12);
            let accountant =
                account::<PldAccountant>(&[(&event, count)], Adjacency::AddRemoveUser).unwrap();
            let back = accountant.delta_at(bound.upper).unwrap();
            let slack = 1.0 + 1e-9;
            assert!(back.upper >= 0.0 && back.lower <= delta * slack, "{back:?}");
        }
    }
}

#[test]
fn not_a_number_is_no_privacy() {
    for adjacency in ADJACENCIES {
        for event in [
            DpEvent::gaussian(f64::NAN),
            DpEvent::sampled_gaussian(f64::NAN, 0.1),
            DpEvent::sampled_gaussian(1.0, f64::NAN),
            DpEvent::laplace(f64::NAN),
        ] {
            let mut accountant = TightestAccountant::new(adjacency);
            assert!(matches!(
                accountant.compose(&event, 1),
                Err(Error::Param(_))
            ));
        }
    }
}

/// At sigma 1000 the best order is in the thousands; limiting orders to 1024 costs a factor of 2.
#[test]
fn orders_are_not_capped() {
    let event = DpEvent::gaussian(1000.0);
    let exact = best(&event, 1, Adjacency::AddRemoveUser, 1e-5).value;
    let accountant = account::<RdpAccountant>(&[(&event, 1)], Adjacency::AddRemoveUser).unwrap();
    let renyi = accountant.epsilon_at(1e-5).unwrap().upper;
    assert!(exact <= renyi && renyi < 1.35 * exact, "{renyi} {exact}");
}

/// Renyi divergence of order a is a q^2 (e^{1/s^2} - 1) / 2 to leading order in q.
#[test]
fn tiny_sampling_probability_does_not_cancel() {
    for (q, sigma) in [(1e-6_f64, 1.0_f64), (1e-9, 5.0), (1e-12, 100.0)] {
        let mut accountant = RdpAccountant::new(Adjacency::AddRemoveUser);
        accountant
            .compose(&DpEvent::sampled_gaussian(sigma, q), 1)
            .unwrap();
        for order in [1.5, 2.0, 4.5] {
            let found = accountant.rdp(order).unwrap().value;
            let expected = 0.5 * order * q * q * libm::expm1(1.0 / (sigma * sigma));
            assert!(
                (found / expected - 1.0).abs() < 1e-3,
                "{q} {order}: {found} {expected}"
            );
        }
    }
}

/// The central limit theorem gives mu = q sqrt(n (e^{1/s^2} - 1)), which is below the true value
/// here.
#[test]
fn central_limit_is_no_bound() {
    let (sigma, q, n) = (0.6, 0.01, 100_u64);
    let mu = q * (n as f64 * libm::expm1(1.0 / (sigma * sigma))).sqrt();
    let limit = dp_accounting::gdp::epsilon(mu, 1e-6);
    for epsilon in epsilons(
        &DpEvent::sampled_gaussian(sigma, q),
        n,
        Adjacency::AddRemoveUser,
        1e-6,
    ) {
        assert!(epsilon > 1.1 * limit, "{epsilon} {limit}");
    }
}

#[test]
fn epsilon_is_never_negative() {
    for event in every_form() {
        for adjacency in SOME {
            for delta in [0.9, 0.999_999, 1.0_f64.next_down()] {
                if account::<TightestAccountant>(&[(&event, 1)], adjacency).is_none() {
                    continue;
                }
                for epsilon in epsilons(&event, 1, adjacency, delta) {
                    assert!(epsilon >= 0.0, "{event:?} {delta} {epsilon}");
                }
            }
        }
    }
}

/// Every event is answered or rejected by name; everything composed has an answer or a typed error.
fn unknown_events_are_refused_by<A: Subject>() {
    for event in every_form() {
        for adjacency in ADJACENCIES {
            let mut accountant = A::fresh(adjacency);
            assert_eq!(accountant.adjacency(), adjacency);
            match accountant.compose(&event, 1) {
                Ok(()) if !SOME.contains(&adjacency) => {}
                Ok(()) => {
                    let figures = [accountant.epsilon_at(1e-9), accountant.delta_at(0.0)];
                    for answer in figures.into_iter().filter_map(answered) {
                        assert!(answer.upper > 0.0, "{event:?} {answer:?}");
                        assert_eq!(answer.adjacency, adjacency);
                    }
                }
                Err(Error::NonPrivateEvent) => assert_eq!(event, DpEvent::NonPrivate),
                Err(error) => {
                    let refused = matches!(error, Error::UnsupportedEvent { .. });
                    assert!(refused, "{event:?}: {error}");
                    assert!(matches!(
                        accountant.epsilon_at(1e-5),
                        Err(Error::NothingComposed)
                    ));
                }
            }
        }
    }
}

fn bad_questions_are_errors_for<A: Subject>() {
    let accountant = account::<A>(&[(&DpEvent::gaussian(1.0), 1)], SOME[0]).unwrap();
    for delta in [
        0.0,
        -1e-9,
        1.0,
        2.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ] {
        let answer = accountant.epsilon_at(delta);
        assert!(matches!(answer, Err(Error::Param(_))), "{delta} {answer:?}");
    }
    for epsilon in [-1e-9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let answer = accountant.delta_at(epsilon);
        assert!(
            matches!(answer, Err(Error::Param(_))),
            "{epsilon} {answer:?}"
        );
    }
}
