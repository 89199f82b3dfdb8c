//! rho of each event, and that Renyi accounting is never worse.

use dp_accounting::{Accountant, Error, ZcdpAccountant};
use dp_core::{DpEvent, Relation, ReplaceFactor, Stopping};

use super::support::{ADD_REMOVE, REPLACE, account, allocation, everything};

#[test]
fn rho_of_each_event() {
    let relation = Relation::Replace;
    let rho = |event: &DpEvent, adjacency| {
        let mut accountant = ZcdpAccountant::new(adjacency);
        accountant
            .compose(event, 3)
            .map(|()| accountant.rho() / 3.0)
    };
    let psd = DpEvent::Gaussian {
        noise_multiplier: 2.0,
        replace_factor: ReplaceFactor::SqrtTwo,
    };
    let response = DpEvent::randomized_response(0.5, 2);
    let range = DpEvent::bounded_range(0.4, relation);
    let cases = [
        (DpEvent::gaussian(2.0), ADD_REMOVE, 0.125),
        (DpEvent::gaussian(2.0), REPLACE, 0.5),
        (psd, REPLACE, 0.25),
        (DpEvent::laplace(5.0), ADD_REMOVE, 0.02),
        (DpEvent::laplace(5.0), REPLACE, 0.08),
        (range, REPLACE, 0.02),
        (response, REPLACE, 0.5 * 3_f64.ln() * 3_f64.ln()),
        (DpEvent::sampled_gaussian(2.0, 0.1), ADD_REMOVE, 0.125),
        (DpEvent::sampled_gaussian(2.0, 0.1), REPLACE, 0.5),
        (allocation(2.0, 3, 100), ADD_REMOVE, 0.375),
        (allocation(2.0, 3, 100), REPLACE, 1.5),
    ];
    for (event, adjacency, expected) in cases {
        let found = rho(&event, adjacency).unwrap();
        assert!(found >= expected * (1.0 - 2e-16), "{event:?}: {found}");
        assert!(found <= expected * (1.0 + 1e-12), "{event:?}: {found}");
    }
    let refused = [
        DpEvent::approx_dp(1.0, 1e-9, relation),
        DpEvent::rdp(2.0, 1.0, relation),
        DpEvent::gaussian(1.0).best_of(Stopping::Poisson { mean: 2.0 }),
    ];
    for event in refused {
        let error = rho(&event, REPLACE);
        assert!(
            matches!(error, Err(Error::UnsupportedEvent { .. })),
            "{event:?}"
        );
    }
}

#[test]
fn renyi_is_never_worse_than_zcdp() {
    for adjacency in [ADD_REMOVE, REPLACE] {
        for event in everything(adjacency) {
            let mut zcdp = ZcdpAccountant::new(adjacency);
            if zcdp.compose(&event, 10).is_err() {
                assert!(zcdp.rho() == 0.0);
                continue;
            }
            let rdp = account(adjacency, &[(event.clone(), 10)]);
            for order in [1.01, 2.0, 7.5, 100.0] {
                let divergence = rdp.rdp(order).unwrap();
                let bound = zcdp.rho() * order * (1.0 + 1e-10);
                assert!(
                    divergence.upper <= bound,
                    "{event:?} {order}: {divergence:?} {bound}"
                );
            }
            for delta in [1e-9, 1e-3] {
                let (r, z) = (rdp.epsilon(delta).unwrap(), zcdp.epsilon(delta).unwrap());
                assert!(r.upper <= z.upper * (1.0 + 1e-6), "{event:?}");
            }
        }
    }
}
