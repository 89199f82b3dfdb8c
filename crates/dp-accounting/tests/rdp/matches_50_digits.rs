//! Divergences against a table of 50-digit values.

use dp_core::{Adjacency, DpEvent};

use super::support::{ADD_REMOVE, REPLACE, account, allocation};

/// Kind, two parameters, order, divergence: made by `tests/rdp_reference.py`.
const DIVERGENCES: [(&str, f64, f64, f64, f64); 35] = [
    ("sampled", 0.7, 0.0003, 2.5, 7.5580917354791205e-7),
    ("sampled", 20.0, 0.25, 33.7, 0.0026758498489977665),
    ("sampled", 3.0, 1e-07, 1.3, 7.6387394029207251e-16),
    ("sampled", 0.35, 0.6, 6.5, 25.926909234992701),
    ("sampled", 5000.0, 1e-05, 400.5, 8.0100001614767847e-16),
    ("sampled", 2.0, 0.999, 12.25, 1.5302260289421137),
    ("sampled", 0.11, 0.02, 3.25, 128.64682076442748),
    ("sampled", 0.01, 1e-09, 3.0, 14968.91510124458),
    ("sampled", 0.05, 1e-05, 900.0, 179988.47426816631),
    ("sampled", 1e6, 1e-09, 5000.0, 2.5000000000012503e-27),
    ("sampled", 300.0, 0.3, 20000.0, 0.010494250200533304),
    ("sampled", 12.0, 0.001, 3000.0, 3.5066089362297523),
    ("sampled", 1.5, 0.04, 64.0, 10.952253130309479),
    ("sampled-replace", 1.0, 0.01, 1.001, 0.00022863989926499708),
    ("sampled-replace", 2.5, 0.3, 17.5, 0.64624836798862324),
    ("sampled-replace", 0.6, 0.0001, 4.5, 7.1728768194743774e-7),
    (
        "sampled-replace",
        400.0,
        1e-06,
        90.5,
        1.1312500000002945e-15,
    ),
    ("sampled-replace", 0.9, 0.97, 3.0, 4.9500789102662908),
    ("mixture", 1.0, 0.0, 1.5, 0.56077343483267969),
    ("mixture", 4.0, 0.0, 40.5, 5.5494749433816845),
    ("mixture", 100.0, 0.0, 7.0, 7.0908272951233832e-5),
    ("mixture", 0.5, 0.0, 3.3, 37.946290953530283),
    ("laplace", 1.0, 0.01, 2.0, 8.5726290068416373e-5),
    ("laplace", 5.0, 0.3, 90.5, 3.7906670776467259),
    ("laplace", 0.01, 0.0001, 1.01, 5.0332924807740564e-13),
    ("laplace", 9.0, 0.001, 4.4, 0.22909998428144366),
    ("subset", 1.0, 0.0625, 2.0, 0.0096140194140984488),
    ("subset", 0.25, 0.5, 33.3, 0.47375179808121905),
    ("subset", 4.0, 0.125, 1.05, 0.92749176873342722),
    ("subset", 2.0, 0.0009765625, 12.5, 17.465791515652768),
    ("allocation", 1.0, 10.0, 2.0, 0.15856507874042911),
    ("allocation", 1.0, 1000.0, 12.0, 0.010413843108519559),
    ("allocation", 5.0, 100.0, 64.0, 0.013061320101829153),
    ("allocation", 50.0, 1e6, 100.0, 2.0004000529489667e-8),
    ("allocation", 0.5, 50.0, 5.0, 6.0879838961274498),
];

fn event_of(kind: &str, a: f64, b: f64) -> (DpEvent, Adjacency) {
    match kind {
        "sampled" => (DpEvent::sampled_gaussian(a, b), ADD_REMOVE),
        "sampled-replace" => (DpEvent::sampled_gaussian(a, b), REPLACE),
        "mixture" => (
            DpEvent::mixture_of_gaussians(a, [0.0, 1.0, 2.5], [0.7, 0.2, 0.1]),
            ADD_REMOVE,
        ),
        "laplace" => (DpEvent::laplace(1.0 / a).poisson_sampled(b), ADD_REMOVE),
        "subset" => (
            DpEvent::gaussian(2.0 / a).sampled_without_replacement((b * 1024.0) as u64, 1024),
            REPLACE,
        ),
        "allocation" => (allocation(a, 1, b as u64), ADD_REMOVE),
        other => panic!("{other}"),
    }
}

#[test]
fn divergences_match_50_digits() {
    for (kind, a, b, order, expected) in DIVERGENCES {
        let (event, adjacency) = event_of(kind, a, b);
        let bound = account(adjacency, &[(event, 1)]).rdp(order).unwrap();
        let error = bound.value / expected - 1.0;
        let allowed = if kind == "allocation" || kind == "subset" {
            2e-11
        } else {
            1e-13 + 2e-15 * order
        };
        assert!(error.abs() < allowed, "{kind} {a} {b} {order}: {error:e}");
        assert!(
            bound.lower <= expected && expected <= bound.upper,
            "{kind} {a} {b} {order}: {bound:?}"
        );
    }
}
