//! What rounds learn, and of which items.

use dp_multitask::{GradientRounds, ItemUpdate, RecordSampling, ScoreModel, Trainer};

use crate::support::{
    ADJACENCY, N_ITEMS, error, fit, gradient, params, pooled, ratings, residual, target, user_mean,
};

#[test]
fn with_little_noise_every_update_nears_sufficient_statistics() {
    let split = ratings();
    let ssp = error(&fit(&split, params(38.0, ItemUpdate::Ssp)).0.model, &split);
    assert!(ssp < user_mean(&split) - 0.1, "{ssp}");
    let mut steps = params(38.0, gradient());
    steps.n_rounds = 20;
    steps.round_growth = 1.0;
    for (name, params) in [
        ("gradient", steps),
        ("residual", params(38.0, residual(2))),
        ("residual after one", params(38.0, residual(1))),
        ("pooled", pooled(38.0, ItemUpdate::Ssp)),
        ("pooled residual", pooled(38.0, residual(2))),
    ] {
        let found = error(&fit(&split, params).0.model, &split);
        assert!(found < ssp + 0.03, "{name}: {found} against {ssp}");
    }
}

#[test]
fn every_round_moves_the_factors_that_it_should() {
    // as many rounds of statistics as rounds: nothing is left for residuals
    let split = ratings();
    let ssp = fit(&split, params(5.0, ItemUpdate::Ssp)).0.model;
    let all = fit(&split, params(5.0, residual(5))).0.model;
    assert_eq!(ssp.item_factors(), all.item_factors());
    let some = fit(&split, params(5.0, residual(4))).0.model;
    assert_ne!(ssp.item_factors(), some.item_factors());
}
#[test]
fn without_biases_scores_are_the_centre_plus_a_product() {
    let split = ratings();
    for update in [ItemUpdate::Ssp, gradient(), residual(2)] {
        let mut params = params(38.0, update);
        params.score_model = ScoreModel::Plain;
        params.init_stddev = 0.3;
        params.training_penalties.factor = 5.0;
        let model = fit(&split, params).0.model;
        let rows = model.item_factors().chunks_exact(4);
        assert!(rows.clone().all(|row| row[0] == 0.0));
        assert!(rows.clone().any(|row| row[1..].iter().any(|q| *q != 0.0)));
        let personal = model.fold_in(split.train.expose().user(7)).unwrap();
        assert!((personal.offset() - 3.0).abs() < 1e-12);
        let text = serde_json::to_string(model.scoring()).unwrap();
        let again = serde_json::from_str(&text).unwrap();
        assert_eq!(*model.scoring(), again);
    }
}

#[test]
fn without_biases_and_with_little_noise_tastes_are_learnt() {
    let split = ratings();
    let mut params = params(38.0, ItemUpdate::Ssp);
    params.score_model = ScoreModel::Plain;
    params.training_penalties.factor = 5.0;
    let found = error(&fit(&split, params).0.model, &split);
    assert!(found < user_mean(&split) - 0.05, "{found}");
}
#[test]
fn sampling_keeps_the_plan_but_tail_sampling_needs_counts() {
    let n_releases = |sampling| {
        let mut params = params(5.0, ItemUpdate::Ssp);
        params.weight_exponent = 0.0;
        params.record_sampling = sampling;
        let fit = params.check().unwrap();
        let plan = fit.plan(N_ITEMS, target(5.0), ADJACENCY).unwrap();
        plan.releases().len()
    };
    let records_per_user = 10;
    assert_eq!(n_releases(RecordSampling::All), 10);
    let seed = 1;
    let uniform = RecordSampling::Uniform {
        records_per_user,
        seed,
    };
    assert_eq!(n_releases(uniform), 10);
    assert_eq!(n_releases(RecordSampling::Tail { records_per_user }), 11);
}

#[test]
fn every_update_leaves_items_outside_the_head_at_zero() {
    let split = ratings();
    for update in [
        ItemUpdate::Ssp,
        ItemUpdate::NoisyGd(GradientRounds::new(1.0, 3)),
        residual(2),
    ] {
        let mut params = params(20.0, update);
        params.weight_exponent = 0.0;
        params.head_fraction = Some(0.2);
        let (fitted, ..) = fit(&split, params);
        let counts = fitted.model.counts().unwrap();
        let mut order: Vec<usize> = (0..N_ITEMS).collect();
        order.sort_by(|&a, &b| counts.values()[b].total_cmp(&counts.values()[a]));
        let dim = fitted.model.dim();
        let rows = fitted.model.item_factors();
        let learnt = |&item: &usize| rows[item * dim..][..dim].iter().any(|x| x.abs() > 0.0);
        let (head, tail) = order.split_at(N_ITEMS / 5);
        assert!(head.iter().all(learnt) && !tail.iter().any(learnt));
    }
}
