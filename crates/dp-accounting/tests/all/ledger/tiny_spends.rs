//! Spends, budgets and counts at the ends of their ranges are never lost, negative or free.

use dp_accounting::{Budget, Error, Ledger, Plan, PlannedRelease};
use dp_core::{ApproxDp, DpEvent, Relation};

use super::support::{ADD_REMOVE, TARGET, scratch};

fn plan(delta: f64, event: DpEvent, n_draws: u64) -> Result<Plan, Error> {
    let release = PlannedRelease::new("r", event, n_draws);
    Plan::with_noise_multipliers(delta, ADD_REMOVE, vec![release])
}

fn is_sane(ledger: &Ledger) -> bool {
    let balance = ledger.balance();
    let figures = [balance.spent, balance.budget, balance.left()];
    let mu = ledger.remaining().map_or(0.0, |left| left.mu);
    figures
        .iter()
        .chain([&mu])
        .all(|x| *x >= 0.0 && x.is_finite())
}

#[test]
fn budgets_at_the_ends_of_their_range_are_never_negative() {
    let mut n_made = 0;
    for epsilon in [5e-324, 1e-300, 1e-12, 1.0, 700.0] {
        for delta in [5e-324, 1e-310, 1e-301, 1e-12, 0.999_999] {
            let target = ApproxDp { epsilon, delta };
            let rdp = |order| Budget::rdp(target, ADD_REMOVE, order);
            for budget in [
                Budget::new(target, ADD_REMOVE),
                rdp(1.5),
                rdp(64.0),
                rdp(1e6),
                Budget::schedule(target, ADD_REMOVE),
            ] {
                let Ok(mut ledger) = budget.and_then(|budget| Ledger::in_memory("d", budget))
                else {
                    continue;
                };
                n_made += 1;
                assert!(is_sane(&ledger), "{target:?} {ledger:?}");
                let Ok(plan) = plan(delta, DpEvent::gaussian(1e300), 0) else {
                    continue;
                };
                let before = ledger.balance();
                match ledger.reserve(&plan) {
                    Ok(_) => assert!(ledger.balance().spent > before.spent, "{target:?}"),
                    Err(_) => assert_eq!(ledger.balance(), before),
                }
                assert!(is_sane(&ledger), "{target:?} {ledger:?}");
            }
        }
    }
    assert!(n_made > 60, "{n_made}");
}

/// Mechanisms that reveal almost nothing.
fn tiny_events() -> Vec<DpEvent> {
    let relation = Relation::AddRemove;
    vec![
        DpEvent::gaussian(f64::MAX),
        DpEvent::gaussian(1e200),
        DpEvent::gaussian(1e162).repeated(1 << 63),
        DpEvent::laplace(1e200),
        DpEvent::BoundedRange {
            epsilon: 5e-324,
            relation,
        },
        DpEvent::Zcdp {
            rho: 5e-324,
            relation,
        },
        DpEvent::ApproxDp {
            epsilon: 1e-300,
            delta: 0.0,
            relation,
        },
        DpEvent::sampled_gaussian(1e10, 1e-300),
    ]
}

#[test]
fn spends_that_hardly_show_are_counted_and_found_again() {
    for budget in [
        Budget::new(TARGET, ADD_REMOVE).unwrap(),
        Budget::rdp(TARGET, ADD_REMOVE, 16.0).unwrap(),
    ] {
        let (_folder, path) = scratch();
        let (mut n_paid, mut spent) = (0, 0.0);
        for first in [None, Some(DpEvent::gaussian(12.0))] {
            for event in first.into_iter().chain(tiny_events()) {
                let mut ledger = Ledger::open_or_create(&path, "d", budget).unwrap();
                let Ok(plan) = plan(1e-5, event.clone(), 0) else {
                    continue;
                };
                let cost = match ledger.cost(&plan) {
                    Ok(cost) => cost,
                    Err(Error::UnsupportedEvent { .. }) => continue,
                    Err(other) => panic!("{event:?}: {other}"),
                };
                assert!(cost > 0.0, "{event:?} is free");
                let _spends = ledger.reserve(&plan).unwrap();
                let now = ledger.balance().spent;
                // a large sum need not change, but it was rounded up when it first became inexact
                assert!(now >= spent && now >= cost && is_sane(&ledger), "{event:?}");
                assert!(now > spent || spent > 1e-200, "{event:?}");
                (n_paid, spent) = (n_paid + 1, now);
                drop(ledger);
                let again = Ledger::open_or_create(&path, "d", budget).unwrap();
                assert_eq!((again.n_releases(), again.balance().spent), (n_paid, now));
            }
        }
        assert!(n_paid > 6, "{n_paid}");
    }
}

#[test]
fn counts_near_two_to_the_63_neither_wrap_nor_shrink() {
    let (half, most) = (1_u64 << 63, u64::MAX);
    for budget in [
        Budget::new(TARGET, ADD_REMOVE).unwrap(),
        Budget::rdp(TARGET, ADD_REMOVE, 16.0).unwrap(),
    ] {
        let ledger = || Ledger::in_memory("d", budget).unwrap();
        let one = ledger().cost(&plan(1e-5, DpEvent::gaussian(1e12), 0).unwrap());
        let one = one.unwrap();
        let mut last = 0.0;
        for count in [half - 1, half, half + 1, most] {
            let many = plan(1e-5, DpEvent::gaussian(1e12).repeated(count), 0).unwrap();
            let mut ledger = ledger();
            let cost = ledger.cost(&many).unwrap();
            assert!(cost >= one * (count as f64) * (1.0 - 1e-15) && cost >= last);
            assert!(cost <= one * (count as f64) * (1.0 + 1e-9));
            last = cost;
            let _spends = ledger.reserve(&many).unwrap();
            assert!(ledger.balance().spent >= cost);
            // nested counts that overflow are rejected or counted as more, never as less
            let nested = DpEvent::gaussian(1e12).repeated(count).repeated(3);
            if let Ok(nested) = plan(1e-5, nested, 0)
                && let Ok(nested) = ledger.cost(&nested)
            {
                assert!(nested >= 2.9 * cost, "{count}");
            }
        }
        // draws
        for n_draws in [half - 1, half, half + 1, most] {
            let twice = |n: u64| {
                let release = PlannedRelease::new("r", DpEvent::gaussian(1e6), n);
                Plan::with_noise_multipliers(1e-5, ADD_REMOVE, vec![release.clone(), release])
            };
            let mut ledger = ledger();
            for plan in [plan(1e-5, DpEvent::gaussian(1e6), n_draws), twice(n_draws)] {
                // the reserve of delta covers 10^24 draws, more than can be represented
                let Ok(plan) = plan else { continue };
                let before = ledger.balance();
                if ledger.reserve(&plan).is_err() {
                    assert_eq!(ledger.balance(), before);
                }
            }
            let more = plan(1e-5, DpEvent::gaussian(1e6), most);
            assert!(more.is_err(), "as many draws as a count can tell");
        }
    }
}
