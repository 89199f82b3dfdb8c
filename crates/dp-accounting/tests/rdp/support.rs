//! Accountants that hold what a test wants, and one of every event.

use dp_accounting::{Accountant, RdpAccountant};
use dp_core::{Adjacency, DpEvent, Relation, Stopping};

pub(super) const ADD_REMOVE: Adjacency = Adjacency::AddRemoveRecord;

pub(super) const REPLACE: Adjacency = Adjacency::ReplaceRecord;

pub(super) const fn allocation(noise_multiplier: f64, n_selected: u64, n_steps: u64) -> DpEvent {
    DpEvent::random_allocation(noise_multiplier, n_selected, n_steps)
}

pub(super) fn account(adjacency: Adjacency, events: &[(DpEvent, u64)]) -> RdpAccountant {
    let mut accountant = RdpAccountant::new(adjacency);
    for (event, count) in events {
        accountant.compose(event, *count).unwrap();
    }
    accountant
}

pub(super) fn divergence(event: &DpEvent, adjacency: Adjacency, order: f64) -> f64 {
    account(adjacency, &[(event.clone(), 1)])
        .rdp(order)
        .unwrap()
        .upper
}

/// One of everything that the adjacency knows.
pub(super) fn everything(adjacency: Adjacency) -> Vec<DpEvent> {
    let relation = adjacency.relation();
    let mut events = vec![
        DpEvent::gaussian(3.0),
        DpEvent::laplace(4.0),
        DpEvent::discrete_gaussian(5.0, 1),
        DpEvent::discrete_laplace(0.2, 1),
        DpEvent::bounded_range(0.3, relation),
        DpEvent::approx_dp(0.2, 1e-8, relation),
        DpEvent::zcdp(0.01, relation),
        DpEvent::rdp(8.0, 0.05, relation),
        DpEvent::sampled_gaussian(1.0, 0.01),
        DpEvent::laplace(1.0).poisson_sampled(0.1),
        DpEvent::approx_dp(0.5, 1e-8, Relation::AddRemove).poisson_sampled(0.1),
        allocation(2.0, 2, 40),
        DpEvent::mixture_of_gaussians(5.0, [0.0, 1.0, 2.0], [0.5, 0.25, 0.25]),
        DpEvent::tree_aggregation(9.0, 64),
    ];
    if adjacency.is_replace() {
        events.push(DpEvent::randomized_response(0.5, 4));
        events.push(DpEvent::gaussian(2.0).sampled_without_replacement(10, 100));
    }
    let select = |stopping| {
        DpEvent::sampled_gaussian(2.0, 0.05)
            .repeated(10)
            .best_of(stopping)
    };
    let success_probability = 0.2;
    events.push(select(Stopping::Poisson { mean: 3.0 }));
    events.push(select(Stopping::Logarithmic {
        success_probability,
    }));
    events.push(select(Stopping::TruncatedNegativeBinomial {
        shape: -0.5,
        success_probability,
    }));
    events
}
