//! Accountants that hold what a test wants, and one of every event.

use dp_accounting::{Accountant, RdpAccountant};
use dp_core::{Adjacency, DpEvent, Relation, Stopping};

pub(super) const ADD_REMOVE: Adjacency = Adjacency::AddRemoveRecord;

pub(super) const REPLACE: Adjacency = Adjacency::ReplaceRecord;

pub(super) const fn allocation(noise_multiplier: f64, n_selected: u64, n_steps: u64) -> DpEvent {
    DpEvent::RandomAllocation {
        noise_multiplier,
        n_selected,
        n_steps,
    }
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
        DpEvent::DiscreteGaussian {
            sigma: 5.0,
            sensitivity: 1,
        },
        DpEvent::DiscreteLaplace {
            rate: 0.2,
            sensitivity: 1,
        },
        DpEvent::BoundedRange {
            epsilon: 0.3,
            relation,
        },
        DpEvent::ApproxDp {
            epsilon: 0.2,
            delta: 1e-8,
            relation,
        },
        DpEvent::Zcdp {
            rho: 0.01,
            relation,
        },
        DpEvent::Rdp {
            order: 8.0,
            epsilon: 0.05,
            relation,
        },
        DpEvent::sampled_gaussian(1.0, 0.01),
        DpEvent::laplace(1.0).poisson_sampled(0.1),
        DpEvent::ApproxDp {
            epsilon: 0.5,
            delta: 1e-8,
            relation: Relation::AddRemove,
        }
        .poisson_sampled(0.1),
        allocation(2.0, 2, 40),
        DpEvent::MixtureOfGaussians {
            sigma: 5.0,
            sensitivities: vec![0.0, 1.0, 2.0],
            probabilities: vec![0.5, 0.25, 0.25],
        },
        DpEvent::TreeAggregation {
            noise_multiplier: 9.0,
            n_steps: 64,
        },
    ];
    if adjacency.is_replace() {
        events.push(DpEvent::RandomizedResponse {
            noise_probability: 0.5,
            buckets: 4,
        });
        events.push(DpEvent::SampledWithoutReplacement {
            sample_size: 10,
            population_size: 100,
            event: Box::new(DpEvent::gaussian(2.0)),
        });
    }
    let select = |stopping| DpEvent::RepeatAndSelect {
        event: Box::new(DpEvent::sampled_gaussian(2.0, 0.05).repeated(10)),
        stopping,
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
