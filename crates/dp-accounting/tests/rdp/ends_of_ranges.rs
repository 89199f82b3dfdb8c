//! Answers at the ends of the ranges are finite and in order; beyond them there are errors.

use dp_accounting::rdp::conversion::{self, Conversion};
use dp_accounting::{Accountant, Error, RdpAccountant};
use dp_core::DpEvent;

use super::support::{ADD_REMOVE, account};

#[test]
fn arguments_out_of_range_are_errors() {
    let empty = RdpAccountant::new(ADD_REMOVE);
    assert!(matches!(empty.epsilon(1e-5), Err(Error::NothingComposed)));
    assert!(matches!(empty.rdp(2.0), Err(Error::NothingComposed)));
    let accountant = account(ADD_REMOVE, &[(DpEvent::laplace(1.0), 1)]);
    for order in [f64::NAN, f64::INFINITY, 1.0, 0.5, -2.0] {
        assert!(accountant.rdp(order).is_err(), "{order}");
        assert!(RdpAccountant::with_orders(ADD_REMOVE, vec![2.0, order]).is_err());
        assert!(conversion::epsilon(order, 1.0, 0.1, Conversion::Cks2020).is_err());
    }
    assert!(RdpAccountant::with_orders(ADD_REMOVE, Vec::new()).is_err());
    for delta in [0.0, 1.0, -0.1, f64::NAN] {
        assert!(accountant.epsilon(delta).is_err());
        assert!(conversion::epsilon(2.0, 1.0, delta, Conversion::Mironov2017).is_err());
    }
    for epsilon in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(accountant.delta(epsilon).is_err());
        assert!(conversion::delta(2.0, 1.0, epsilon, Conversion::Asoodeh2020).is_err());
        assert!(conversion::delta(2.0, epsilon, 1.0, Conversion::Asoodeh2020).is_err());
    }
}

#[test]
fn extremes_are_finite_ordered_and_not_negative() {
    for sigma in [0.01, 0.3, 10.0, 1e6] {
        for q in [1e-9, 1e-3, 0.3, 1.0] {
            let mut before = 0.0;
            for count in [1, 1_000, 1_000_000_000] {
                let events = [(DpEvent::sampled_gaussian(sigma, q), count)];
                let accountant = account(ADD_REMOVE, &events);
                let mut last = f64::INFINITY;
                for delta in [1e-300, 1e-15, 1e-5, 0.5] {
                    let epsilon = accountant.epsilon(delta).unwrap().upper;
                    assert!(
                        epsilon >= 0.0 && epsilon <= last,
                        "{sigma} {q} {count} {delta}"
                    );
                    last = epsilon;
                }
                let strict = accountant.epsilon(1e-15).unwrap().upper;
                assert!(strict >= before, "{sigma} {q} {count}");
                before = strict;
                for order in [1.0001, 2.0, 1e3, 1e6] {
                    let divergence = accountant.rdp(order).unwrap();
                    assert!(divergence.upper.is_finite() && divergence.lower >= 0.0);
                    let gaussian = 0.5 * order / (sigma * sigma) * count as f64;
                    assert!(
                        divergence.upper <= gaussian * (1.0 + 1e-11 + 2e-15 * order),
                        "{sigma} {q} {order}"
                    );
                }
                for epsilon in [0.0, 1e-6, 1.0, 1e3] {
                    let delta = accountant.delta(epsilon).unwrap().upper;
                    assert!((0.0..=1.0).contains(&delta));
                }
            }
        }
    }
}
