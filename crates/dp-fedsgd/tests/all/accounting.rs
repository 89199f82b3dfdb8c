//! The cost of a run, and that nothing can be run except what is paid for.

use dp_core::{Adjacency, ApproxDp, DpEvent};
use dp_fedsgd::{
    ClipSchedule, Error, HeldBatches, LocalTraining, Participation, PpSgdParams, Provenance, Run,
    Server, Trainer,
};
use dp_mechanism::{
    ClientSampling, Error as KernelError, FixedSizeSampling, NoiseSource, PoissonSampling,
};

use crate::support::{ADD_REMOVE, paid, samples, squared};

fn poisson(q: f64) -> ClientSampling {
    PoissonSampling::new(q).unwrap().into()
}

fn fixed(size: usize, of: usize) -> ClientSampling {
    FixedSizeSampling::new(size, of).unwrap().into()
}

#[test]
fn a_thousand_rounds_at_noise_ten_cost_what_gaussian_privacy_says() {
    let fit = PpSgdParams::new(1.0, 0.5, 10.0, 1000, 1000.0)
        .check()
        .unwrap();
    // delta 1e-4; mu = sqrt(1000) / 10, and twice that: solved from Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu) with mpmath
    for (adjacency, epsilon) in [(ADD_REMOVE, 16.1), (Adjacency::ReplaceUser, 42.7)] {
        let plan = fit.plan_with_noise(100, 10.0, 1e-4, adjacency).unwrap();
        let found = plan.guarantee().epsilon;
        assert!((found - epsilon).abs() < 0.05, "{found}");
        let target = ApproxDp::target(found, 1e-4).unwrap();
        let back = fit.plan(100, target, adjacency).unwrap();
        let z = back.releases()[0].noise_multiplier().unwrap();
        assert!((z / 10.0 - 1.0).abs() < 1e-6, "{z}");
    }
}

#[test]
fn events_are_those_of_the_scheme_that_is_run() {
    let base = PpSgdParams::new(1.0, 0.5, 1.0, 3, 50.0);
    let q = poisson(0.2);
    let plan = base.sampled(q).check().unwrap();
    let plan = plan.plan_with_noise(4, 2.0, 1e-5, ADD_REMOVE).unwrap();
    for release in plan.releases() {
        assert_eq!(release.event(), &DpEvent::sampled_gaussian(2.0, 0.2));
    }
    let plan = base.sampled(fixed(10, 50)).check().unwrap();
    let replace = Adjacency::ReplaceUser;
    let plan = plan.plan_with_noise(4, 2.0, 1e-5, replace).unwrap();
    let expected = fixed(10, 50).event(DpEvent::gaussian(2.0));
    assert!(plan.releases().iter().all(|r| *r.event() == expected));
}

#[test]
fn a_scheme_other_than_the_one_paid_for_does_not_run() {
    let data = samples(50, 2, 3, 1);
    let (batches, model) = (HeldBatches::new(&data, 2).unwrap(), squared(2));
    let base = PpSgdParams::new(1.0, 0.5, 1.0, 2, 50.0);
    let schemes = [
        (base, ADD_REMOVE),
        (base.sampled(poisson(0.2)), ADD_REMOVE),
        (base.sampled(poisson(0.1)), ADD_REMOVE),
        (base.sampled(poisson(0.2)), Adjacency::ReplaceUser),
        (base.sampled(fixed(10, 50)), Adjacency::ReplaceUser),
        (base.sampled(fixed(5, 50)), Adjacency::ReplaceUser),
        (
            PpSgdParams {
                n_rounds: 4,
                ..base
            },
            ADD_REMOVE,
        ),
    ];
    let noise = &mut NoiseSource::insecure_seeded(1);
    let planned = schemes.map(|(scheme, adjacency)| {
        let fit = scheme.check().unwrap();
        fit.plan_with_noise(2, 2.0, 1e-5, adjacency).unwrap()
    });
    for (a, (run, _)) in schemes.iter().enumerate() {
        for (b, plan) in planned.iter().enumerate() {
            let fit = run.check().unwrap();
            let ran = fit.with(&model).fit(&batches, plan, paid(plan), noise);
            let same = a == b || [(1, 3), (3, 1)].contains(&(a, b)); // same scheme, another neighbouring relation
            assert_eq!(ran.is_ok(), same, "{a} {b}");
            if !same {
                assert!(matches!(
                    ran,
                    Err(Error::Mechanism(KernelError::Plan { .. }))
                ));
            }
        }
    }
}

#[test]
fn a_clip_that_may_grow_out_of_the_grid_is_not_paid_for() {
    let mut params = PpSgdParams::new(1.0, 0.5, 1.0, 3, 50.0);
    for (high, fits) in [(1e6, true), (f64::MAX, false)] {
        params.extra_share = 1.0; // the bound on the whole is sqrt 2 times the clipping norm
        params.clip = ClipSchedule::Quantile {
            start: 1.0,
            quantile: 0.5,
            rate: 0.2,
            low: 0.1,
            high,
        };
        let plan = params.check().unwrap();
        let plan = plan.plan_with_noise(2, 2.0, 1e-5, ADD_REMOVE);
        assert_eq!(plan.is_ok(), fits);
    }
}

#[test]
fn certificates_say_what_is_taken_on_trust() {
    let data = samples(50, 2, 3, 1);
    let (batches, model) = (HeldBatches::new(&data, 2).unwrap(), squared(2));
    let base = PpSgdParams::new(1.0, 0.5, 1.0, 2, 50.0);
    let trains = "every client trains in every round";
    let own = "m/(n - 1)";
    let secret = "who took part in which round stays secret";
    let number = "declared number of users";
    let all = [number, secret, trains, own];
    for (params, adjacency, said) in [
        (base, ADD_REMOVE, [true, false, false, false]),
        (
            base.sampled(poisson(0.2)),
            ADD_REMOVE,
            [true, true, false, false],
        ),
        (
            base.sampled(fixed(10, 50)),
            Adjacency::ReplaceUser,
            [false, true, true, true],
        ),
    ] {
        let fit = params.check().unwrap();
        let plan = fit.plan_with_noise(2, 2.0, 1e-5, adjacency).unwrap();
        let noise = &mut NoiseSource::operating_system();
        let fitted = fit.with(&model).fit(&batches, &plan, paid(&plan), noise);
        let text = fitted.unwrap().certificate.to_json();
        assert_eq!(all.map(|words| text.contains(words)), said);
        if params.participation != Participation::Full {
            let run = Run::new(&plan, paid(&plan), noise).unwrap();
            let server = Server::new(fit, 2, run).unwrap();
            let served = server.finish().unwrap().certificate.to_json();
            assert_eq!(all.map(|words| served.contains(words)), said);
            for words in [
                "the server sees every update",
                "the client whose number it carries",
                "who answered or how many",
            ] {
                assert!(served.contains(words) && !text.contains(words));
            }
        }
    }
}

#[test]
fn spends_of_another_plan_are_refused() {
    let data = samples(50, 2, 3, 1);
    let (batches, model) = (HeldBatches::new(&data, 2).unwrap(), squared(2));
    let fit = PpSgdParams::new(1.0, 0.5, 1.0, 3, 50.0).check().unwrap();
    let plan = fit.plan_with_noise(2, 2.0, 1e-5, ADD_REMOVE).unwrap();
    let less_noise = fit.plan_with_noise(2, 1.0, 1e-5, ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(1);
    for spends in [paid(&less_noise), Vec::new(), paid(&plan).split_off(1)] {
        let refused = fit.with(&model).fit(&batches, &plan, spends, noise);
        assert!(matches!(
            refused,
            Err(Error::Mechanism(KernelError::Spends { .. }))
        ));
    }
}

#[test]
fn samples_of_fixed_size_need_local_steps_in_every_round() {
    let params = PpSgdParams::new(1.0, 0.5, 1.0, 3, 50.0).sampled(fixed(5, 50));
    assert!(params.check().is_ok());
    let when_asked = PpSgdParams {
        local_training: LocalTraining::WhenAsked,
        ..params
    };
    assert!(when_asked.check().is_err());
    let other_number = PpSgdParams {
        n_users: 49.0,
        ..params
    };
    assert!(other_number.check().is_err());
    let asked = PpSgdParams::new(1.0, 0.5, 1.0, 3, 50.0).sampled(poisson(0.1));
    assert_eq!(asked.local_training, LocalTraining::WhenAsked);
    assert!(asked.check().is_ok());
}

#[test]
fn fixed_size_under_add_remove_has_no_plan() {
    let fit = PpSgdParams::new(1.0, 0.5, 1.0, 3, 50.0).sampled(fixed(5, 50));
    let refused = fit
        .check()
        .unwrap()
        .plan_with_noise(2, 2.0, 1e-5, ADD_REMOVE);
    assert!(matches!(refused, Err(Error::Accounting(_))));
}

#[test]
fn local_learning_spends_nothing_and_global_learning_keeps_nothing() {
    let data = samples(30, 2, 3, 2);
    let (batches, model) = (HeldBatches::new(&data, 2).unwrap(), squared(2));
    let noise = &mut NoiseSource::operating_system();
    let local = PpSgdParams::new(0.0, 0.5, 1.0, 5, 30.0).check().unwrap();
    let target = ApproxDp::target(1.0, 1e-5).unwrap();
    let refused = local.plan(2, target, ADD_REMOVE);
    assert!(matches!(refused, Err(Error::Param(error)) if error.name == "alpha"));
    let alone = local.train_alone(&model, &batches, &mut ()).unwrap();
    assert_eq!(alone.shared.provenance(), Provenance::NotTrained);
    assert!(alone.shared.last().iter().all(|&w| w == 0.0));
    assert!(alone.local.expose().last(3).iter().any(|&t| t != 0.0));

    let global = PpSgdParams::new(f64::INFINITY, 0.5, 1.0, 5, 30.0)
        .check()
        .unwrap();
    assert!(global.train_alone(&model, &batches, &mut ()).is_err());
    let plan = global.plan(2, target, ADD_REMOVE).unwrap();
    let trainer = global.with(&model);
    let fitted = trainer.fit(&batches, &plan, paid(&plan), noise).unwrap();
    assert!(fitted.certificate.verify().unwrap().is_private());
    assert_eq!(fitted.provenance, Provenance::Private);
    let (shared, local) = (&fitted.model.shared, fitted.model.local.expose());
    assert_eq!(shared.provenance(), Provenance::Private);
    assert!((0..30).all(|user| local.last(user) == [0.0, 0.0]));
}

#[test]
fn seeded_noise_taints_model_and_certificate() {
    let data = samples(30, 2, 3, 2);
    let (batches, model) = (HeldBatches::new(&data, 2).unwrap(), squared(2));
    for params in [
        PpSgdParams::new(1.0, 0.5, 1.0, 5, 30.0),
        PpSgdParams::new(1.0, 0.5, 1.0, 5, 30.0).sampled(poisson(0.5)),
    ] {
        let fit = params.check().unwrap();
        let plan = fit.plan_with_noise(2, 2.0, 1e-5, ADD_REMOVE).unwrap();
        let run = |noise: &mut NoiseSource| {
            let trainer = fit.with(&model);
            let fitted = trainer.fit(&batches, &plan, paid(&plan), noise).unwrap();
            let private = fitted.certificate.verify().unwrap().is_private();
            assert_eq!(fitted.model.shared.provenance(), fitted.provenance);
            (private, fitted.provenance)
        };
        let seeded = &mut NoiseSource::insecure_seeded(3);
        assert_eq!(run(seeded), (false, Provenance::SeededNoise));
        let fresh = &mut NoiseSource::operating_system();
        assert_eq!(run(fresh), (true, Provenance::Private));
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let good = PpSgdParams::new(1.0, 0.5, 1.0, 5, 30.0);
    assert!(good.check().is_ok());
    for bad in [
        PpSgdParams {
            alpha: f64::NAN,
            ..good
        },
        PpSgdParams {
            alpha: -0.1,
            ..good
        },
        PpSgdParams {
            learning_rate: 0.0,
            ..good
        },
        PpSgdParams {
            n_rounds: 0,
            ..good
        },
        PpSgdParams {
            n_users: 0.0,
            ..good
        },
        PpSgdParams {
            n_users: f64::INFINITY,
            ..good
        },
        PpSgdParams {
            clip: ClipSchedule::Constant { norm: 0.0 },
            ..good
        },
        PpSgdParams {
            extra_share: 0.0,
            ..good
        },
        PpSgdParams {
            extra_share: 1.5,
            ..good
        },
        PpSgdParams {
            minimum_clients: Some(0.0),
            ..good
        },
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
    assert_eq!(good.participation, Participation::Full);
}
