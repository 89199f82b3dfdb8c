//! What does not fit is refused, with a type, before data is touched.

use dp_accounting::{Budget, Ledger};
use dp_core::{Adjacency, InteractionsBuilder, Private};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    ConvexSspParams, Descent, DpSgdParams, EncoderDescent, Error, ItemStatistics, KernelRidge,
    LinearEncoder, Logistic, Optimiser, ProblemSetup, ResidualSspParams, RidgeNoise,
    SampledSspParams, SspParams, StatisticsLearner, Trainer, ValueDescent, ValueDescentParams,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::support::{
    ADD_REMOVE, DIM, N_ITEMS, am_ssp, features, kernel, observed, pay, ridge, setup, table, target,
};

/// Weights that no constructor makes, from a file.
const UNCHECKED: &str = r#"{"omega":{"kind":"public","values":[-1.0]},"rule":"clip"}"#;

#[test]
fn bounds_out_of_range() {
    let bad = [
        ProblemSetup { dim: 0, ..setup() },
        ProblemSetup {
            dim: 257,
            ..setup()
        },
        ProblemSetup {
            user_norm: 0.0,
            ..setup()
        },
        ProblemSetup {
            label_bound: f64::NAN,
            ..setup()
        },
        ProblemSetup {
            label_norm: 1e7,
            ..setup()
        },
        ProblemSetup {
            weights: serde_json::from_str(UNCHECKED).unwrap(),
            ..setup()
        },
    ];
    for setup in bad {
        assert!(matches!(
            SspParams::new(setup).check(),
            Err(Error::Param(_))
        ));
    }
    for share in [0.0, 1.0, f64::NAN] {
        let params = SspParams {
            matrix_share: share,
            ..SspParams::new(setup())
        };
        assert!(params.check().is_err());
    }
    assert!(
        SspParams {
            n_resamples: 0,
            ..SspParams::new(setup())
        }
        .check()
        .is_err()
    );
    let sampled = |q, n_steps| SampledSspParams::new(setup(), n_steps, q);
    for (q, n) in [(0.0, 1), (1.1, 1), (f64::NAN, 1), (0.5, 0)] {
        assert!(sampled(q, n).check().is_err());
    }
    for (first, floor) in [(0.0, 0.1), (0.1, 0.2), (f64::NAN, 0.1), (0.5, 0.0)] {
        assert!(
            ResidualSspParams::new(setup(), 3, first, floor)
                .check()
                .is_err()
        );
    }
    assert!(
        ResidualSspParams::new(setup(), 0, 0.5, 0.1)
            .check()
            .is_err()
    );
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
    let ssp = SspParams::new(setup()).check().unwrap();
    let plan = ssp.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let (data, os) = (table(20, None), &mut NoiseSource::operating_system());
    let mut one_missing = pay(&plan);
    one_missing.pop();
    let refused = ssp.with(ridge()).fit(&data, &plan, one_missing, os);
    assert!(matches!(
        refused,
        Err(Error::Mechanism(dp_mechanism::Error::Spends {
            expected: 2,
            found: 1,
            ..
        }))
    ));
    let mut swapped = pay(&plan);
    swapped.swap(0, 1);
    assert!(matches!(
        ssp.with(ridge()).fit(&data, &plan, swapped, os),
        Err(Error::Mechanism(dp_mechanism::Error::Spends { .. }))
    ));
    let mut other_set =
        Ledger::in_memory("other", Budget::new(target(), ADD_REMOVE).unwrap()).unwrap();
    let mut mixed = pay(&plan);
    mixed[1] = other_set.reserve(&plan).unwrap().remove(1);
    assert!(matches!(
        ssp.with(ridge()).fit(&data, &plan, mixed, os),
        Err(Error::Mechanism(dp_mechanism::Error::Spends { .. }))
    ));
    // the same draws and kinds of event under other labels
    let mut params = ConvexSspParams::new(setup(), 1);
    params.matrix_share = 0.5;
    let convex = params.check().unwrap();
    let curvature = convex.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    assert!(matches!(
        ssp.with(ridge())
            .fit(&data, &curvature, pay(&curvature), os),
        Err(Error::Mechanism(dp_mechanism::Error::Plan { .. }))
    ));
    let other = ssp.plan(N_ITEMS + 1, target(), ADD_REMOVE).unwrap();
    assert!(matches!(
        ssp.with(ridge()).fit(&data, &other, pay(&other), os),
        Err(Error::Mechanism(dp_mechanism::Error::Plan { .. }))
    ));
    let narrow = Private::new(
        InteractionsBuilder::new(N_ITEMS)
            .with_feature_dim(1)
            .build()
            .0,
    );
    assert!(matches!(
        ssp.with(ridge()).fit(&narrow, &plan, pay(&plan), os),
        Err(Error::Shape(_))
    ));
    let short = Private::new(InteractionsBuilder::new(2).with_feature_dim(DIM).build().0);
    assert!(matches!(
        ssp.with(ridge()).fit(&short, &plan, pay(&plan), os),
        Err(Error::Shape(_))
    ));
    for adjacency in [Adjacency::AddRemoveRecord, Adjacency::ReplaceRecord] {
        let refused = ssp.plan(N_ITEMS, target(), adjacency);
        assert!(matches!(refused, Err(Error::Unsupported { .. })));
    }
    // a plan for users does not pay for examples
    let examples = SspParams::new(setup().example_level()).check().unwrap();
    let refused = examples.with(ridge()).fit(&data, &plan, pay(&plan), os);
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
}

#[test]
fn an_empty_table_trains_like_any_other() {
    let ssp = SspParams::new(setup()).check().unwrap();
    let plan = ssp.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let nobody = InteractionsBuilder::new(N_ITEMS)
        .with_feature_dim(DIM)
        .build()
        .0;
    let os = &mut NoiseSource::operating_system();
    let nobody = Private::new(nobody);
    let finite = |vectors: Vec<f64>| assert!(vectors.iter().all(|v| v.is_finite()));
    let fitted = ssp
        .with(ridge())
        .fit(&nobody, &plan, pay(&plan), os)
        .unwrap();
    finite(fitted.model.item_vectors().unwrap());
    let residual = ResidualSspParams::new(setup(), 3, 0.5, 0.1)
        .check()
        .unwrap();
    let plan = residual.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    for _ in 0..30 {
        // the pooled matrix is noise: of any signature
        let fitted = residual.with(ridge()).fit(&nobody, &plan, pay(&plan), os);
        finite(fitted.unwrap().model.item_vectors().unwrap());
    }
}

/// A learner whose item vectors have another length than it says.
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
    let os = &mut NoiseSource::operating_system();
    for data in [table(20, None), Private::new(nobody.build().0)] {
        let residual = ResidualSspParams::new(setup(), 3, 0.5, 0.1)
            .check()
            .unwrap();
        let plan = residual.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
        let refused = residual.with(Short(0.0)).fit(&data, &plan, pay(&plan), os);
        assert!(matches!(refused, Err(Error::Shape(_))));
        let convex = ConvexSspParams::new(setup(), 2).check().unwrap();
        let plan = convex.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
        let refused = convex
            .with(Logistic, Short(1.0))
            .fit(&data, &plan, pay(&plan), os);
        assert!(matches!(refused, Err(Error::Shape(_))));
        let am = am_ssp(setup(), 2);
        let plan = am.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
        let refused = am.with(Short(1.0)).fit(&data, &plan, pay(&plan), os);
        assert!(matches!(refused, Err(Error::Shape(_))));
    }
}

#[test]
fn observers_of_users_where_records_are_units() {
    let (data, os) = (table(20, None), &mut NoiseSource::operating_system());
    let (setup, adjacency) = (setup().example_level(), Adjacency::ReplaceRecord);
    let never = |_: &dp_pubfeat::Observed<'_>| panic!("shown a release");
    let ssp = SspParams::new(setup.clone()).check().unwrap();
    let plan = ssp.plan(N_ITEMS, target(), adjacency).unwrap();
    let refused = observed(&ssp.with(ridge()), &data, &plan, os, never);
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
    let residual = ResidualSspParams::new(setup.clone(), 3, 0.5, 0.1)
        .check()
        .unwrap();
    let plan = residual.plan(N_ITEMS, target(), adjacency).unwrap();
    let refused = observed(&residual.with(ridge()), &data, &plan, os, never);
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
    let convex = ConvexSspParams::new(setup, 2).check().unwrap();
    let plan = convex.plan(N_ITEMS, target(), adjacency).unwrap();
    let refused = observed(&convex.with(Logistic, ridge()), &data, &plan, os, never);
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
}
