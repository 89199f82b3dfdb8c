//! Divergences that have a closed form, or a worst case that can be searched for.

use dp_accounting::Accountant;
use dp_accounting::rdp::conversion::{self, Conversion};
use dp_core::{DpEvent, Relation};

use super::support::{ADD_REMOVE, REPLACE, account, allocation, divergence};

#[test]
fn single_orders_hold_below_and_not_above() {
    let point = DpEvent::rdp(8.0, 0.5, Relation::AddRemove);
    let accountant = account(ADD_REMOVE, &[(point, 1)]);
    for order in [8.0, 3.0] {
        let found = accountant.rdp(order).unwrap().upper;
        assert!(
            (0.5..0.5 * (1.0 + 1e-14)).contains(&found),
            "{order}: {found}"
        );
    }
    assert!(accountant.rdp(8.001).unwrap().upper.is_infinite());
    let direct = conversion::epsilon(8.0, 0.5, 1e-5, Conversion::Cks2020).unwrap();
    let epsilon = accountant.epsilon(1e-5).unwrap().upper;
    assert!(epsilon >= direct && epsilon < direct * (1.0 + 1e-13));
}

#[test]
fn bounded_range_is_the_worst_two_point_pair() {
    for (epsilon, order) in [
        (0.01, 1.5),
        (1.0, 2.0),
        (3.0, 20.0),
        (8.0, 1.01),
        (0.3, 900.0),
    ] {
        let event = DpEvent::bounded_range(epsilon, Relation::AddRemove);
        let found = divergence(&event, ADD_REMOVE, order);
        let worst = (1..20_000)
            .map(|i| {
                let t = epsilon * f64::from(i) / 20_000.0;
                let p = (epsilon.exp() - t.exp()) / epsilon.exp_m1();
                let s = order - 1.0;
                let moment = p * (s * t).exp_m1() + (1.0 - p) * (s * (t - epsilon)).exp_m1();
                moment.ln_1p() / s
            })
            .fold(0.0, f64::max);
        assert!(
            found >= worst * (1.0 - 1e-9),
            "{epsilon} {order}: {found} {worst}"
        );
        assert!(
            found <= worst * (1.0 + 1e-6),
            "{epsilon} {order}: {found} {worst}"
        );
        assert!(found <= order * epsilon * epsilon / 8.0 * (1.0 + 1e-12));
    }
}

#[test]
fn random_allocation_at_order_two_is_closed_form_and_more_steps_cost_less() {
    for (sigma, steps) in [(1.0, 7_u64), (0.5, 1000), (20.0, 1_000_000_000)] {
        let found = divergence(&allocation(sigma, 1, steps), ADD_REMOVE, 2.0);
        let expected = ((1.0 / (sigma * sigma)).exp_m1() / steps as f64).ln_1p();
        assert!((found / expected - 1.0).abs() < 1e-10, "{sigma} {steps}");
    }
    let epsilon = |k, t| {
        let event = allocation(2.0, k, t);
        account(ADD_REMOVE, &[(event, 1)])
            .epsilon(1e-6)
            .unwrap()
            .upper
    };
    assert!(epsilon(1, 100) < epsilon(1, 50));
    assert!(epsilon(1, 50) < epsilon(2, 100));
    let gaussian = account(ADD_REMOVE, &[(DpEvent::gaussian(2.0), 2)]);
    assert!(epsilon(2, 100) < 0.6 * gaussian.epsilon(1e-6).unwrap().upper);
    // Replacement: no amplification is claimed.
    let replaced = account(REPLACE, &[(allocation(2.0, 2, 100), 1)]);
    let plain = account(REPLACE, &[(DpEvent::gaussian(2.0), 2)]);
    let ratio = replaced.epsilon(1e-6).unwrap().upper / plain.epsilon(1e-6).unwrap().upper;
    assert!((ratio - 1.0).abs() < 1e-9);
}
