//! Plans, settings and refusals.

use dp_core::{InteractionsBuilder, Private};
use dp_mechanism::NoiseSource;
use dp_multitask::{
    BudgetAllocation, Gramian, MultiTaskNoisyGdParams, MultiTaskSspParams, ResidualSspParams,
    TaskCounts, TaskSetup, Trainer,
};

use crate::support::{ADJACENCY, DIM, TARGET, TASKS, allocations, hostile_users, made, pay, setup};

#[test]
fn counts_are_released_once_where_the_weights_need_them() {
    let data = made(3_000, 6);
    let released = TaskCounts::Released {
        share: 0.1,
        clip_norm: 3.0,
    };
    let setup = TaskSetup {
        allocation: BudgetAllocation::adaptive(0.5, released),
        ..TaskSetup::unit_ball(DIM)
    };
    let fit = ResidualSspParams::new(setup).check().unwrap();
    let plan = fit.plan(8, TARGET, ADJACENCY).unwrap();
    assert_eq!(plan.releases()[0].label(), "task counts");
    let z = plan.releases()[0].noise_multiplier().unwrap();
    let mu_squared = plan.mu_squared().unwrap();
    assert!((1.0 / (z * z) / mu_squared - 0.1).abs() < 1e-9);
    let mut noise = NoiseSource::operating_system();
    let fitted = fit.fit(&data.train, &plan, pay(&plan), &mut noise).unwrap();
    assert!(
        fitted
            .model
            .counts()
            .is_some_and(|counts| counts.values().len() == 8)
    );
    assert!(fitted.certificate.verify().unwrap().is_private());
}

#[test]
fn tables_plans_and_spends_must_belong_together() {
    let data = made(200, 7);
    let fit = MultiTaskSspParams::new(TaskSetup::unit_ball(DIM))
        .check()
        .unwrap();
    let plan = fit.plan(8, TARGET, ADJACENCY).unwrap();
    let mut noise = NoiseSource::operating_system();
    let other = fit.plan(9, TARGET, ADJACENCY).unwrap();
    assert!(
        fit.fit(&data.train, &other, pay(&other), &mut noise)
            .is_err()
    );
    let mut few = pay(&plan);
    few.pop();
    assert!(fit.fit(&data.train, &plan, few, &mut noise).is_err());
    let longer = MultiTaskSspParams::new(TaskSetup::unit_ball(DIM + 1))
        .check()
        .unwrap();
    let plan = longer.plan(8, TARGET, ADJACENCY).unwrap();
    assert!(
        longer
            .fit(&data.train, &plan, pay(&plan), &mut noise)
            .is_err()
    );
}

#[test]
fn a_table_of_hostile_users_or_of_nobody_is_fitted() {
    let nobody = InteractionsBuilder::new(TASKS)
        .with_feature_dim(DIM)
        .build()
        .0;
    for table in [nobody, hostile_users()] {
        let data = Private::new(table);
        let setup = setup(BudgetAllocation::equal());
        let mut noise = NoiseSource::operating_system();
        // bounds that end at 1e-18 of the first leave the solves almost no ridge
        let long = ResidualSspParams {
            n_steps: 60,
            ..ResidualSspParams::new(setup.clone())
        };
        let fit = long.check().unwrap();
        let plan = fit.plan(TASKS, TARGET, ADJACENCY).unwrap();
        let fitted = fit.fit(&data, &plan, pay(&plan), &mut noise).unwrap();
        assert!(fitted.model.coefficients().iter().all(|c| c.is_finite()));
        let fit = MultiTaskNoisyGdParams::new(setup.clone()).check().unwrap();
        let plan = fit.plan(TASKS, TARGET, ADJACENCY).unwrap();
        let fitted = fit.fit(&data, &plan, pay(&plan), &mut noise).unwrap();
        assert!(fitted.model.coefficients().iter().all(|c| c.is_finite()));
        let fit = MultiTaskSspParams::new(setup).check().unwrap();
        let plan = fit.plan(TASKS, TARGET, ADJACENCY).unwrap();
        let fitted = fit.fit(&data, &plan, pay(&plan), &mut noise).unwrap();
        assert!(fitted.model.coefficients().iter().all(|c| c.is_finite()));
    }
}

#[test]
fn settings_survive_serialisation_and_bad_ones_are_refused() {
    let setup = TaskSetup {
        allocation: allocations().remove(4),
        ..TaskSetup::unit_ball(DIM)
    };
    let params = MultiTaskNoisyGdParams::new(setup.clone());
    let text = serde_json::to_string(&params).unwrap();
    assert_eq!(
        serde_json::from_str::<MultiTaskNoisyGdParams>(&text).unwrap(),
        params
    );
    let params = ResidualSspParams::new(setup.clone());
    let mut written = serde_json::to_value(&params).unwrap();
    let read = |written: &serde_json::Value| serde_json::from_value(written.clone());
    assert_eq!(read(&written).ok(), Some(params));
    written["setup"]["raduis"] = 1.0.into();
    assert!(read(&written).is_err());
    let label_norm = |norm| {
        let setup = TaskSetup {
            label_norm: norm,
            ..setup.clone()
        };
        MultiTaskSspParams::new(setup).setup.label_norm
    };
    assert!((label_norm(0.1) - 0.794_65).abs() < 1e-4 && (label_norm(0.9) - 0.9).abs() < 1e-15);
    for bad in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
        let radius = TaskSetup {
            radius: bad,
            ..setup.clone()
        };
        assert!(MultiTaskSspParams::new(radius).check().is_err());
        let share = Gramian::Pooled { share: bad };
        let params = ResidualSspParams {
            gramian: share,
            ..ResidualSspParams::new(setup.clone())
        };
        assert!(params.check().is_err());
        let params = MultiTaskNoisyGdParams {
            gradient_norm: bad,
            ..MultiTaskNoisyGdParams::new(setup.clone())
        };
        assert!(params.check().is_err());
    }
}
