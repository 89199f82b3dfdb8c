//! Settings as they are kept and checked.

use dp_multitask::{
    Error, FactorizationParams, GradientClip, GradientRounds, ItemUpdate, PooledMatrices,
    RecordSampling, ResidualBounds, ResidualRounds, ScoreModel, StepSize,
};

use crate::support::{gradient, params, pooled, residual, target};

#[test]
fn settings_survive_serialisation_and_older_ones_are_read() {
    let mut params = params(5.0, residual(2));
    params.record_sampling = RecordSampling::Tail {
        records_per_user: 9,
    };
    let mut json = serde_json::to_value(&params).unwrap();
    assert_eq!(
        serde_json::from_value::<FactorizationParams>(json.clone()).unwrap(),
        params
    );
    for new in [
        "item_update",
        "record_sampling",
        "score_model",
        "pooled_matrices",
    ] {
        json.as_object_mut().unwrap().remove(new);
    }
    let older: FactorizationParams = serde_json::from_value(json).unwrap();
    assert_eq!(older.item_update, ItemUpdate::Ssp);
    assert_eq!(older.record_sampling, RecordSampling::All);
}

#[test]
fn settings_out_of_range_or_against_each_other_are_refused() {
    let gradients = |change: fn(&mut GradientRounds)| {
        let mut settings = GradientRounds::new(1.0, 4);
        change(&mut settings);
        params(5.0, ItemUpdate::NoisyGd(settings))
    };
    let residuals = |change: fn(&mut ResidualRounds)| {
        let mut settings = ResidualRounds::new();
        change(&mut settings);
        params(5.0, ItemUpdate::Residual(settings))
    };
    let records = |sampling| FactorizationParams {
        record_sampling: sampling,
        ..params(5.0, ItemUpdate::Ssp)
    };
    let (records_per_user, seed) = (0, 1);
    let weight_share = 1.0;
    for (name, params) in [
        (
            "weight_share",
            FactorizationParams {
                pooled_matrices: Some(PooledMatrices { weight_share }),
                ..params(5.0, ItemUpdate::Ssp)
            },
        ),
        (
            "residual_bound",
            gradients(|g| g.residual_bound = f64::INFINITY),
        ),
        ("radius", gradients(|g| g.radius = 0.0)),
        ("weight_share", gradients(|g| g.weight_share = 1.0)),
        (
            "convexity",
            gradients(|g| g.step_size = StepSize::StronglyConvex { convexity: 0.0 }),
        ),
        (
            "n_statistics_rounds",
            residuals(|r| r.n_statistics_rounds = 0),
        ),
        ("pull", residuals(|r| r.pull = f64::NAN)),
        (
            "ratio",
            residuals(|r| r.bounds = ResidualBounds::Geometric { ratio: 1.5 }),
        ),
        (
            "records_per_user",
            records(RecordSampling::Tail { records_per_user }),
        ),
        (
            "records_per_user",
            records(RecordSampling::Uniform {
                records_per_user,
                seed,
            }),
        ),
    ] {
        match params.check() {
            Err(Error::Param(error)) => assert_eq!(error.name, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    let listed = |n| {
        residuals(|_| {})
            .item_update
            .clone_with(ResidualBounds::Listed {
                values: vec![0.5; n],
            })
    };
    assert!(params(5.0, listed(2)).check().is_ok());
    assert!(matches!(
        params(5.0, listed(3)).check(),
        Err(Error::Shape(_))
    ));

    let implicit = FactorizationParams::implicit_for_target(target(5.0));
    let plain = ScoreModel::Plain;
    let pooled_matrices = Some(PooledMatrices::default());
    for params in [
        FactorizationParams {
            pooled_matrices,
            ..implicit.clone()
        },
        FactorizationParams {
            score_model: plain,
            ..pooled(5.0, ItemUpdate::Ssp)
        },
        pooled(5.0, gradient()),
        FactorizationParams {
            item_update: gradient(),
            ..implicit.clone()
        },
        FactorizationParams {
            dim: Some(1),
            score_model: plain,
            ..implicit
        },
        FactorizationParams {
            dim: Some(1),
            score_model: plain,
            ..params(5.0, ItemUpdate::Ssp)
        },
        FactorizationParams {
            dim: None,
            score_model: plain,
            ..params(5.0, ItemUpdate::Ssp)
        },
    ] {
        assert!(matches!(params.check(), Err(Error::Unsupported { .. })));
    }
}

trait WithBounds {
    fn clone_with(&self, bounds: ResidualBounds) -> ItemUpdate;
}

impl WithBounds for ItemUpdate {
    fn clone_with(&self, bounds: ResidualBounds) -> ItemUpdate {
        match self {
            Self::Residual(settings) => Self::Residual(ResidualRounds {
                bounds,
                clip: GradientClip::PerTask,
                ..settings.clone()
            }),
            other => other.clone(),
        }
    }
}
