//! Inputs that do not fit together are refused with a typed error before data is read.

use dp_accounting::{Budget, Ledger};
use dp_core::{Adjacency, Interactions, InteractionsBuilder, Private};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    ConvexSspParams, Descent, DpSgdParams, EncoderDescent, Error, Fitted, ItemStatistics,
    KernelRidge, LinearEncoder, Logistic, Optimiser, ProblemSetup, ResidualSsp, ResidualSspParams,
    RidgeNoise, SampledSspParams, SspParams, StatisticsLearner, Trainer, ValueDescent,
    ValueDescentParams,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::support::{
    ADD_REMOVE, DIM, N_ITEMS, am_ssp, features, fit, kernel, observed, pay, ridge, setup, table,
    target,
};

/// Weights that no constructor creates, read from a file.
const UNCHECKED: &str = r#"{"omega":{"kind":"public","values":[-1.0]},"rule":"clip"}"#;

#[test]
fn bounds_out_of_range() {
    let bad: [fn(&mut ProblemSetup); 6] = [
        |s| s.dim = 0,
        |s| s.dim = 257,
        |s| s.user_norm = 0.0,
        |s| s.label_bound = f64::NAN,
        |s| s.label_norm = 1e7,
        |s| s.weights = serde_json::from_str(UNCHECKED).unwrap(),
    ];
    for change in bad {
        let mut params = SspParams::new(setup());
        change(&mut params.setup);
        assert!(matches!(params.check(), Err(Error::Param(_))));
    }
    let bad: [fn(&mut SspParams); 4] = [
        |p| p.matrix_share = 0.0,
        |p| p.matrix_share = 1.0,
        |p| p.matrix_share = f64::NAN,
        |p| p.n_resamples = 0,
    ];
    for change in bad {
        let mut params = SspParams::new(setup());
        change(&mut params);
        assert!(params.check().is_err());
    }
    let sampled = |q, n_steps| SampledSspParams::new(setup(), n_steps, q);
    for (q, n) in [(0.0, 1), (1.1, 1), (f64::NAN, 1), (0.5, 0)] {
        assert!(sampled(q, n).check().is_err());
    }
    let residual = |n_steps, first, floor| ResidualSspParams::new(setup(), n_steps, first, floor);
    for (first, floor) in [(0.0, 0.1), (0.1, 0.2), (f64::NAN, 0.1), (0.5, 0.0)] {
        assert!(residual(3, first, floor).check().is_err());
    }
    assert!(residual(0, 0.5, 0.1).check().is_err());
    assert!(ConvexSspParams::new(setup(), 0).check().is_err());
    let sgd = DpSgdParams {
        gradient_norm: 0.0,
        ..DpSgdParams::new(setup(), 1, 0.5, Optimiser::Sgd { rate: 0.1 })
    };
    assert!(sgd.check().is_err());
}

#[test]
fn learners_out_of_range() {
    for noise in [
        RidgeNoise::Given { ratio: 0.0 },
        RidgeNoise::FromRelease {
            item_norm: f64::NAN,
        },
        RidgeNoise::Estimated { floor: 0.0 },
    ] {
        assert!(KernelRidge::new(kernel(), DIM, noise, 0.0).is_err());
    }
    let params = ValueDescentParams {
        rate: 2.1,
        ..ValueDescentParams::new(3)
    };
    assert!(ValueDescent::new(kernel(), DIM, params).is_err());
    let rng = ChaCha20Rng::seed_from_u64(0);
    for descent in [
        Descent::new(0, Optimiser::Sgd { rate: 0.1 }),
        Descent::new(1, Optimiser::Sgd { rate: 0.0 }),
        Descent {
            item_batch: Some(N_ITEMS + 1),
            ..Descent::new(1, Optimiser::Sgd { rate: 0.1 })
        },
        Descent {
            l2_penalty: -1.0,
            ..Descent::new(1, Optimiser::Sgd { rate: 0.1 })
        },
    ] {
        let encoder = LinearEncoder::zeros(features(), DIM).unwrap();
        assert!(EncoderDescent::new(encoder, descent, rng.clone()).is_err());
    }
    let of_two = ItemStatistics::new(DIM, vec![0.0; 18], vec![0.0; 6], [0.1; 2]).unwrap();
    assert!(matches!(ridge().learn(&of_two), Err(Error::Shape(_))));
    assert!(ItemStatistics::new(2, vec![0.0; 4], vec![0.0; 4], [0.1; 2]).is_err());
    assert!(ItemStatistics::new(1, vec![f64::NAN], vec![0.0], [0.1; 2]).is_err());
    let skew = vec![1.0, 0.5, 0.4, 1.0];
    assert!(ItemStatistics::new(2, skew, vec![0.0; 2], [0.1; 2]).is_err());
}

#[test]
fn plans_spends_and_tables_that_do_not_belong_together() {
    use dp_mechanism::Error::{Plan, Spends};

    let ssp = SspParams::new(setup()).check().unwrap();
    let plan = ssp.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let data = table(20, None);
    let refusal = |data: &Private<Interactions>, plan: &dp_accounting::Plan, spends| {
        let os = &mut NoiseSource::operating_system();
        ssp.with(ridge()).fit(data, plan, spends, os).unwrap_err()
    };
    let mut one_missing = pay(&plan);
    one_missing.pop();
    assert!(matches!(
        refusal(&data, &plan, one_missing),
        Error::Mechanism(Spends {
            expected: 2,
            found: 1,
            ..
        })
    ));
    let mut swapped = pay(&plan);
    swapped.swap(0, 1);
    let mut other_set =
        Ledger::in_memory("other", Budget::new(target(), ADD_REMOVE).unwrap()).unwrap();
    let mut mixed = pay(&plan);
    mixed[1] = other_set.reserve(&plan).unwrap().remove(1);
    for spends in [swapped, mixed] {
        let refused = refusal(&data, &plan, spends);
        assert!(matches!(refused, Error::Mechanism(Spends { .. })));
    }
    // the same number of draws and kinds of event under other labels
    let mut params = ConvexSspParams::new(setup(), 1);
    params.matrix_share = 0.5;
    let convex = params.check().unwrap();
    let curvature = convex.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let longer = ssp.plan(N_ITEMS + 1, target(), ADD_REMOVE).unwrap();
    for other in [curvature, longer] {
        let refused = refusal(&data, &other, pay(&other));
        assert!(matches!(refused, Error::Mechanism(Plan { .. })));
    }
    for (n_items, dim) in [(N_ITEMS, 1), (2, DIM)] {
        let builder = InteractionsBuilder::new(n_items).with_feature_dim(dim);
        let table = Private::new(builder.build().0);
        let refused = refusal(&table, &plan, pay(&plan));
        assert!(matches!(refused, Error::Shape(_)));
    }
    for adjacency in [Adjacency::AddRemoveRecord, Adjacency::ReplaceRecord] {
        let refused = ssp.plan(N_ITEMS, target(), adjacency);
        assert!(matches!(refused, Err(Error::Unsupported { .. })));
    }
    // a plan for users does not pay for records as units
    let examples = SspParams::new(setup().example_level()).check().unwrap();
    let os = &mut NoiseSource::operating_system();
    let refused = examples.with(ridge()).fit(&data, &plan, pay(&plan), os);
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
}

fn residual() -> ResidualSsp {
    let params = ResidualSspParams::new(setup(), 3, 0.5, 0.1);
    params.check().unwrap()
}

#[test]
fn an_empty_table_trains_like_any_other() {
    let ssp = SspParams::new(setup()).check().unwrap();
    let nobody = InteractionsBuilder::new(N_ITEMS).with_feature_dim(DIM);
    let nobody = Private::new(nobody.build().0);
    let finite = |fitted: Fitted<KernelRidge>| {
        let vectors = fitted.model.item_vectors().unwrap();
        assert!(vectors.iter().all(|v| v.is_finite()));
    };
    finite(fit(&ssp.with(ridge()), &nobody, ADD_REMOVE).unwrap());
    for _ in 0..30 {
        // the pooled matrix is pure noise, so it may be indefinite
        finite(fit(&residual().with(ridge()), &nobody, ADD_REMOVE).unwrap());
    }
}

/// A learner whose item vectors have a length other than the one it declares.
#[derive(Clone)]
struct Short(f64);

impl StatisticsLearner for Short {
    fn n_items(&self) -> usize {
        N_ITEMS
    }

    fn dim(&self) -> usize {
        DIM
    }

    fn learn(&mut self, _: &ItemStatistics) -> dp_pubfeat::Result<()> {
        Ok(())
    }

    fn item_vectors(&self) -> dp_pubfeat::Result<Vec<f64>> {
        Ok(vec![self.0; DIM])
    }
}

#[test]
fn item_vectors_of_another_shape_whoever_has_which_item() {
    let nobody = InteractionsBuilder::new(N_ITEMS).with_feature_dim(DIM);
    for data in [table(20, None), Private::new(nobody.build().0)] {
        let refused = fit(&residual().with(Short(0.0)), &data, ADD_REMOVE);
        assert!(matches!(refused, Err(Error::Shape(_))));
        let convex = ConvexSspParams::new(setup(), 2).check().unwrap();
        let refused = fit(&convex.with(Logistic, Short(1.0)), &data, ADD_REMOVE);
        assert!(matches!(refused, Err(Error::Shape(_))));
        let refused = fit(&am_ssp(setup(), 2).with(Short(1.0)), &data, ADD_REMOVE);
        assert!(matches!(refused, Err(Error::Shape(_))));
    }
}

/// Whether a run that would show users' contributions where records are units is refused before it
/// shows anything.
fn is_not_shown<T>(trainer: &T) -> bool
where
    T: Trainer<Data = Private<Interactions>, Error = Error>,
{
    let (data, os) = (table(20, None), &mut NoiseSource::operating_system());
    let never = |_: &dp_pubfeat::Observed<'_>| panic!("shown a release");
    let plan = trainer.plan(N_ITEMS, target(), Adjacency::ReplaceRecord);
    let refused = observed(trainer, &data, &plan.unwrap(), os, never);
    matches!(refused, Err(Error::Unsupported { .. }))
}

#[test]
fn observers_of_users_where_records_are_units() {
    let setup = setup().example_level();
    let ssp = SspParams::new(setup.clone()).check().unwrap();
    assert!(is_not_shown(&ssp.with(ridge())));
    let residual = ResidualSspParams::new(setup.clone(), 3, 0.5, 0.1);
    assert!(is_not_shown(&residual.check().unwrap().with(ridge())));
    let convex = ConvexSspParams::new(setup, 2).check().unwrap();
    assert!(is_not_shown(&convex.with(Logistic, ridge())));
}
