//! Epsilon and delta undo each other; divergences rise with the order.

use dp_accounting::{Accountant, RdpAccountant, TightestAccountant};
use dp_core::{Adjacency, DpEvent};

use super::grid::{STEPS, events_at_the_ends};
use super::patience::{PATIENCE, cpu_seconds};
use crate::shared::draw::Draw;

#[test]
fn epsilon_and_delta_are_inverse() {
    let events = [
        (DpEvent::gaussian(3.0), 7),
        (DpEvent::sampled_gaussian(0.8, 0.02), 300),
        (DpEvent::sampled_gaussian(50.0, 1e-3), 1_000_000),
        (DpEvent::laplace(5.0), 12),
        (DpEvent::discrete_laplace(0.2, 3), 5),
    ];
    for (event, count) in events {
        for delta in [1e-300, 1e-30, 1e-6, 0.1] {
            let mut accountant = TightestAccountant::new(Adjacency::AddRemoveUser);
            accountant.compose(&event, count).unwrap();
            let Ok(epsilon) = accountant.epsilon(delta) else {
                continue;
            };
            if epsilon.upper == 0.0 {
                continue;
            }
            let back = accountant.delta(epsilon.upper).unwrap();
            assert!(
                back.lower <= delta * (1.0 + 1e-9),
                "{event:?} {delta} {back:?}"
            );
            let below = accountant.delta(epsilon.lower).unwrap();
            assert!(
                below.upper >= delta * (1.0 - 1e-9),
                "{event:?} {delta} {below:?}"
            );
        }
    }
}

#[test]
fn renyi_divergences_from_the_smallest_order_to_the_largest() {
    let mut draw = Draw(3);
    for event in events_at_the_ends() {
        for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
            let count = draw.pick(&STEPS);
            let mut accountant = RdpAccountant::new(adjacency);
            if accountant.compose(&event, count).is_err() {
                continue;
            }
            let mut last = 0.0;
            for order in [1.0001, 1.01, 1.5, 2.0, 17.3, 1e3, 1e6] {
                let start = cpu_seconds();
                let Ok(bound) = accountant.rdp(order) else {
                    continue;
                };
                assert!(cpu_seconds() - start < PATIENCE, "{event:?} {order}");
                let case = format!("{count} {event:?} {adjacency} {order}: {bound:?}");
                assert!(bound.lower >= 0.0 && bound.upper >= bound.lower, "{case}");
                // Renyi divergence rises with the order, where it is exact.
                if bound.lower > 0.0 {
                    assert!(bound.upper >= last * (1.0 - 1e-9), "{case} after {last}");
                    last = bound.lower;
                }
            }
        }
    }
}
