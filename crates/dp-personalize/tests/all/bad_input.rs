//! Hostile rows, settings out of range, and plans and spends that do not match.

use dp_accounting::Plan;
use dp_core::{UserSamples, UserSamplesBuilder};
use dp_mechanism::{Error as KernelError, NoiseSource};
use dp_personalize::{
    AltMinParams, ConvexLoss, DpGdEmbedding, Embedding, Error, Initialisation, LocalFit,
    Provenance, ResidualAltMinParams, RowSplit, SspEmbedding, Subspace, SymmetricNoise, Trainer,
    UserBatches, Whitening, own_data_model,
};

use crate::support::{ADJACENCIES, DIM, alt_min, made, pay, residual, seeded, target, variants};

fn hostile() -> UserSamples {
    let mut builder = UserSamplesBuilder::new(DIM, 4).unwrap();
    let values = [
        f32::NAN,
        f32::INFINITY,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-45,
        -1e30,
        0.0,
        1.0,
    ];
    for user in 0..64_u16 {
        for row in 0..usize::from(user % 6) {
            let value =
                |at: usize| values[(usize::from(user) * 7 + row * 3 + at * 5) % values.len()];
            let x: Vec<f32> = (0..DIM).map(value).collect();
            builder.push(user.into(), &x, value(DIM)).unwrap();
        }
    }
    builder.build().0
}

#[test]
fn bad_data_never_fails_a_run() {
    let nobody = UserSamplesBuilder::new(DIM, 4).unwrap().build().0;
    for samples in [&hostile(), &nobody] {
        for settings in variants() {
            if settings.rows == RowSplit::Quarters {
                // four rows leave one in the third quarter: no pair
                let refused = alt_min(settings, samples, target(1.0), ADJACENCIES[0]);
                assert!(matches!(refused, Err(Error::Param(_))));
                continue;
            }
            let fitted = alt_min(settings, samples, target(1.0), ADJACENCIES[0]).unwrap();
            assert!(fitted.model.basis().iter().all(|u| u.is_finite()));
        }
        let fitted = residual(
            ResidualAltMinParams::new(2),
            samples,
            target(1.0),
            ADJACENCIES[1],
        )
        .unwrap();
        assert!(fitted.model.basis().iter().all(|u| u.is_finite()));
        for rows in samples.users() {
            let own = own_data_model(rows, DIM);
            assert!(own.coefficients().iter().all(|t| t.is_finite()));
            let local = LocalFit::leave_one_out(vec![1e-9, 0.1])
                .unwrap()
                .fit(&fitted.model, rows);
            assert!(local.coefficients().iter().all(|t| t.is_finite()));
        }
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let good = || AltMinParams::section_6(2);
    let ssp = |ssp: SspEmbedding| AltMinParams {
        embedding: Embedding::Ssp(ssp),
        ..good()
    };
    let gd = |gd: DpGdEmbedding| AltMinParams {
        embedding: Embedding::Gd(gd),
        ..good()
    };
    let good_gd = DpGdEmbedding {
        loss: ConvexLoss::Squared,
        gradient_clip: 1.0,
        learning_rate: 1.0,
        l2_penalty: 1.0,
    };
    let section_6 = SspEmbedding::section_6();
    let given = Subspace::spanned_by(DIM, 1, &[1.0; DIM], Provenance::NonPrivate).unwrap();
    let pairs = |label_bound| Initialisation::Pairs {
        label_bound,
        symmetric_noise: SymmetricNoise::Copied,
    };
    for bad in [
        AltMinParams { rank: 0, ..good() },
        AltMinParams {
            init_share: 1.0,
            ..good()
        },
        AltMinParams {
            init_share: f64::NAN,
            ..good()
        },
        AltMinParams {
            n_rounds: 1001,
            ..good()
        },
        AltMinParams {
            init: pairs(0.0),
            ..good()
        },
        AltMinParams {
            init: Initialisation::Given(given),
            ..good()
        },
        gd(DpGdEmbedding {
            gradient_clip: 0.0,
            ..good_gd
        }),
        gd(DpGdEmbedding {
            learning_rate: f64::NAN,
            ..good_gd
        }),
        gd(DpGdEmbedding {
            l2_penalty: 0.0,
            ..good_gd
        }),
        gd(DpGdEmbedding {
            loss: ConvexLoss::Huber { threshold: -1.0 },
            ..good_gd
        }),
        ssp(SspEmbedding {
            design_clip: f64::INFINITY,
            ..section_6
        }),
        ssp(SspEmbedding {
            label_clip: -1.0,
            ..section_6
        }),
        ssp(SspEmbedding {
            matrix_share: 0.0,
            ..section_6
        }),
        ssp(SspEmbedding {
            ridge_factor: 0.0,
            ..section_6
        }),
    ] {
        assert!(matches!(
            bad.check(),
            Err(Error::Param(_) | Error::Shape(_))
        ));
    }
    let good = ResidualAltMinParams::new(2);
    let white = |whitening| ResidualAltMinParams {
        whitening: Some(whitening),
        ..good
    };
    let whitening = good.whitening.unwrap();
    for bad in [
        ResidualAltMinParams { rank: 0, ..good },
        ResidualAltMinParams {
            init_share: 0.9,
            ..good
        },
        ResidualAltMinParams {
            n_steps: 101,
            ..good
        },
        ResidualAltMinParams {
            energy_share: 0.0,
            ..good
        },
        ResidualAltMinParams {
            first_clip: f64::NAN,
            ..good
        },
        ResidualAltMinParams {
            clip_factor: 0.0,
            ..good
        },
        ResidualAltMinParams {
            moment_weight: -1.0,
            ..good
        },
        white(Whitening {
            share: 0.0,
            ..whitening
        }),
        white(Whitening {
            clip_norm: 1.5,
            ..whitening
        }),
        white(Whitening {
            damping: f64::INFINITY,
            ..whitening
        }),
    ] {
        assert!(matches!(bad.check(), Err(Error::Param(_))), "{bad:?}");
    }
    let projectors = AltMinParams {
        init: Initialisation::Projectors,
        ..AltMinParams::section_6(2)
    };
    let wide = projectors
        .check()
        .unwrap()
        .plan(257, target(1.0), ADJACENCIES[0]);
    assert!(matches!(wide, Err(Error::Param(_))));
    let fit = AltMinParams::section_6(2).check().unwrap();
    for dim in [0, 1, 513] {
        assert!(fit.plan(dim, target(1.0), ADJACENCIES[0]).is_err());
        assert!(
            good.check()
                .unwrap()
                .plan(dim, target(1.0), ADJACENCIES[0])
                .is_err()
        );
    }
}

#[test]
fn plans_and_spends_that_do_not_belong_are_refused() {
    let data = made(20, 0.0);
    let samples = &data.samples;
    let batches = AltMinParams {
        batches: UserBatches::Disjoint,
        n_rounds: 2,
        ..AltMinParams::section_6(2)
    };
    let fit = batches.check().unwrap();
    let plan = fit.plan(DIM, target(1.0), ADJACENCIES[0]).unwrap();
    assert_eq!((fit.n_accounts(), plan.releases().len()), (2, 3));
    let run = |plan: &Plan, spends| fit.fit(samples, plan, spends, &mut seeded());
    assert!(matches!(
        run(&plan, pay(&plan, 1)),
        Err(Error::Mechanism(KernelError::Spends { .. }))
    ));
    assert!(matches!(
        run(&plan, pay(&plan, 3)),
        Err(Error::Mechanism(KernelError::Spends { .. }))
    ));
    let mut mixed = pay(&plan, 2);
    mixed.swap(0, 3); // the first spends of two accounts exchanged
    assert!(matches!(
        run(&plan, mixed),
        Err(Error::Mechanism(KernelError::Spends { .. }))
    ));
    let other = fit.plan(DIM + 1, target(1.0), ADJACENCIES[0]).unwrap();
    assert!(matches!(
        run(&other, pay(&other, 2)),
        Err(Error::Mechanism(KernelError::Plan { .. }))
    ));
    let cheaper = fit.plan(DIM, target(0.5), ADJACENCIES[0]).unwrap();
    assert!(matches!(
        run(&plan, pay(&cheaper, 2)),
        Err(Error::Mechanism(KernelError::Spends { .. }))
    ));
    let replace = fit.plan(DIM, target(1.0), ADJACENCIES[1]).unwrap();
    assert!(matches!(
        run(&plan, pay(&replace, 2)),
        Err(Error::Mechanism(KernelError::Spends { .. }))
    ));
    let fitted = fit
        .fit(
            samples,
            &plan,
            pay(&plan, 2),
            &mut NoiseSource::operating_system(),
        )
        .unwrap();
    assert!(fitted.certificate.verify().unwrap().is_private());
    let text = fitted.certificate.to_json();
    assert!(text.contains("parallel composition") && text.contains("account test 1 paid with"));
}

#[test]
fn the_certificate_states_the_plan_and_not_more() {
    let data = made(50, 0.0);
    let fit = ResidualAltMinParams::new(2).check().unwrap();
    for adjacency in ADJACENCIES {
        let plan = fit.plan(DIM, target(1.0), adjacency).unwrap();
        assert!(plan.guarantee().epsilon <= 1.0 && plan.guarantee().epsilon > 0.999);
        let fitted = fit
            .fit(
                &data.samples,
                &plan,
                pay(&plan, 1),
                &mut NoiseSource::operating_system(),
            )
            .unwrap();
        assert!(fitted.certificate.verify().unwrap().is_private());
        assert_eq!(fitted.model.provenance(), Provenance::Private);
    }
}

/// A start from a run with seeded noise, refined with the operating system's noise.
#[test]
fn a_start_without_a_guarantee_taints_the_result() {
    let data = made(60, 0.0);
    let plain = AltMinParams::section_6(2);
    let start = alt_min(plain.clone(), &data.samples, target(5.0), ADJACENCIES[0]).unwrap();
    assert_eq!(start.model.provenance(), Provenance::SeededNoise);
    let again = AltMinParams {
        init: Initialisation::Given(start.model),
        ..plain
    };
    let fit = again.check().unwrap();
    let plan = fit.plan(DIM, target(5.0), ADJACENCIES[0]).unwrap();
    let noise = &mut NoiseSource::operating_system();
    let fitted = fit.fit(&data.samples, &plan, pay(&plan, 1), noise).unwrap();
    assert_eq!(fitted.model.provenance(), Provenance::SeededNoise);
    assert!(!fitted.certificate.verify().unwrap().is_private());
}
