//! Releases that a plan lists.

use dp_multitask::ItemUpdate;

use crate::support::{N_ITEMS, fit, gradient, params, pooled, ratings, residual};

#[test]
fn a_pooled_plan_has_the_weights_once_and_a_small_matrix_a_round() {
    let split = ratings();
    let (_, plan, n_seen) = fit(&split, pooled(5.0, ItemUpdate::Ssp));
    let drawn: Vec<_> = plan
        .releases()
        .iter()
        .map(|r| (r.label(), r.n_draws()))
        .collect();
    let n = N_ITEMS as u64;
    assert_eq!(
        drawn[..4],
        [
            ("item counts", n),
            ("item weights", n),
            ("round 1: pooled matrices", 10),
            ("round 1: item right-hand sides", 4 * n),
        ]
    );
    assert_eq!((drawn.len(), n_seen), (12, 12));
}

#[test]
fn plans_list_what_rounds_release() {
    let split = ratings();
    let short = |label: &str| label.split(": ").last().unwrap().to_owned();
    for (update, n_residual, others) in [
        (gradient(), 5, vec!["item counts", "item weights"]),
        (
            residual(2),
            3,
            vec![
                "item counts",
                "item matrices",
                "item right-hand sides",
                "item matrices",
                "item right-hand sides",
            ],
        ),
    ] {
        let (fitted, plan, n_seen) = fit(&split, params(5.0, update));
        let labels: Vec<_> = plan.releases().iter().map(|r| short(r.label())).collect();
        let (first, last) = labels.split_at(others.len());
        assert_eq!(first, others);
        assert!(last.len() == n_residual && last.iter().all(|l| l == "item residuals"));
        assert_eq!(fitted.certificate.releases.len(), labels.len());
        assert_eq!(n_seen, labels.len(), "a release was not shown");
        assert!(plan.guarantee().epsilon <= 5.0 && plan.guarantee().epsilon > 4.999);
    }
}
