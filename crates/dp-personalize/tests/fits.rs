//! Whole runs: recovery with little noise, no harm with much, bad data, settings and payments that do not fit.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp, UserSamples, UserSamplesBuilder};
use dp_data::{SharedSubspace, SubspaceData};
use dp_mechanism::NoiseSource;
use dp_personalize::{
    AltMinParams, ConvexLoss, DpGdEmbedding, Embedding, Error, FittedSubspace, GroundTruth,
    Initialisation, LocalFit, NonPrivateAltMin, Provenance, ResidualAltMinParams, Result, RowSplit,
    SingleModel, SingleModelParams, SspEmbedding, Subspace, SymmetricNoise, UserBatches, Whitening,
    own_data_model, zero_model,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

const DIM: usize = 6;
const ADJACENCIES: [Adjacency; 2] = [Adjacency::AddRemoveUser, Adjacency::ReplaceUser];

fn target(epsilon: f64) -> ApproxDp {
    ApproxDp::target(epsilon, 1e-6).unwrap()
}

fn made(n_users: usize, feature_decay: f64) -> SubspaceData {
    let set_up = SharedSubspace {
        n_users,
        dim: DIM,
        feature_decay,
        ..SharedSubspace::section_6()
    };
    set_up.generate(&mut ChaCha20Rng::seed_from_u64(1)).unwrap()
}

fn pay(plan: &Plan, n_accounts: usize) -> Vec<Spend> {
    let pay_one = |account| {
        let budget = Budget::new(plan.target(), plan.adjacency()).unwrap();
        let mut ledger = Ledger::in_memory(&format!("test {account}"), budget).unwrap();
        ledger.reserve(plan).unwrap()
    };
    (0..n_accounts).flat_map(pay_one).collect()
}

fn seeded() -> NoiseSource {
    NoiseSource::insecure_seeded(5)
}

fn alt_min(
    settings: AltMinParams,
    samples: &UserSamples,
    goal: ApproxDp,
    adjacency: Adjacency,
) -> Result<FittedSubspace> {
    let fit = settings.check()?;
    let plan = fit.plan(samples.n_features(), goal, adjacency)?;
    let spends = pay(&plan, fit.n_accounts());
    fit.fit(samples, &plan, spends, &mut seeded())
}

fn residual(
    settings: ResidualAltMinParams,
    samples: &UserSamples,
    goal: ApproxDp,
    adjacency: Adjacency,
) -> Result<FittedSubspace> {
    let fit = settings.check()?;
    let plan = fit.plan(samples.n_features(), goal, adjacency)?;
    let spends = pay(&plan, 1);
    fit.fit(samples, &plan, spends, &mut seeded())
}

fn mse(data: &SubspaceData, subspace: &Subspace) -> f64 {
    let truth = GroundTruth {
        coefficients: &data.coefficients,
        feature_variances: &data.feature_variances,
    };
    truth
        .subspace_mse(subspace, &LocalFit::default(), &data.samples)
        .unwrap()
}

fn distance(data: &SubspaceData, subspace: &Subspace) -> f64 {
    let truth = Subspace::spanned_by(DIM, 2, &data.basis, Provenance::NonPrivate).unwrap();
    subspace.frobenius_distance(&truth).unwrap()
}

fn variants() -> Vec<AltMinParams> {
    let section_6 = || AltMinParams::section_6(2);
    let unclipped = SspEmbedding {
        design_clip: 8.0,
        label_clip: 8.0,
        ridge_factor: 0.1,
        symmetric_noise: SymmetricNoise::Isometric,
        ..SspEmbedding::section_6()
    };
    vec![
        section_6(),
        section_6().isometric(),
        AltMinParams {
            init: Initialisation::Projectors,
            ..section_6()
        },
        AltMinParams {
            rows: RowSplit::Quarters,
            ..section_6()
        },
        AltMinParams {
            batches: UserBatches::Disjoint,
            n_iterations: 3,
            ..section_6()
        },
        AltMinParams {
            init: Initialisation::Projectors,
            embedding: Embedding::Gd(DpGdEmbedding {
                loss: ConvexLoss::Huber { threshold: 1.0 },
                gradient_clip: 1.0,
                learning_rate: 0.5,
                l2_penalty: 1e-6,
            }),
            n_iterations: 4,
            ..section_6()
        },
        AltMinParams {
            embedding: Embedding::Ssp(unclipped),
            n_iterations: 3,
            ..section_6()
        },
    ]
}

#[test]
fn with_little_noise_every_variant_finds_the_subspace() {
    let data = made(4_000, 0.0);
    for (at, settings) in variants().into_iter().enumerate() {
        for adjacency in ADJACENCIES {
            let fitted = alt_min(settings.clone(), &data.samples, target(30.0), adjacency).unwrap();
            let found = distance(&data, &fitted.model);
            assert!(found < 0.25, "variant {at}, {adjacency}: {found}");
            assert_eq!(fitted.model.provenance(), Provenance::SeededNoise);
            assert!(!fitted.certificate.verify().unwrap().is_private());
        }
    }
    let given = Subspace::spanned_by(
        DIM,
        2,
        &[1.0, 0.0, 0.0, 1.0, 1.0, 0.3, 0.2, 0.0, 0.0, 0.1, 0.4, 0.0],
        Provenance::NonPrivate,
    )
    .unwrap();
    let start = distance(&data, &given);
    let settings = AltMinParams {
        init: Initialisation::Given(given),
        n_iterations: 5,
        ..AltMinParams::section_6(2)
    };
    let fitted = alt_min(settings, &data.samples, target(30.0), ADJACENCIES[0]).unwrap();
    assert!(distance(&data, &fitted.model) < 0.3 * start);
}

#[test]
fn refinement_comes_near_the_true_subspace_for_any_features() {
    for decay in [0.0, 1.0] {
        let data = made(4_000, decay);
        let truth = Subspace::spanned_by(DIM, 2, &data.basis, Provenance::NonPrivate).unwrap();
        let floor = mse(&data, &truth);
        for adjacency in ADJACENCIES {
            let settings = ResidualAltMinParams::new(2);
            let fitted = residual(settings, &data.samples, target(5.0), adjacency).unwrap();
            let found = mse(&data, &fitted.model);
            assert!(
                found < 1.2 * floor,
                "decay {decay}, {adjacency}: {found} and {floor}"
            );
        }
    }
    let data = made(4_000, 0.0);
    let plain = ResidualAltMinParams {
        whitening: None,
        ..ResidualAltMinParams::new(2)
    };
    let fitted = residual(plain, &data.samples, target(5.0), ADJACENCIES[0]).unwrap();
    assert!(distance(&data, &fitted.model) < 0.01);
}

/// Units of features and labels do not matter to refinement.
#[test]
fn refinement_does_not_know_the_units() {
    let data = made(2_000, 0.0);
    let scaled = |x_unit: f32, y_unit: f32| {
        let mut builder = UserSamplesBuilder::new(DIM, 10).unwrap();
        for (user, rows) in (0..).zip(data.samples.users()) {
            for (x, y) in rows.iter() {
                let x: Vec<f32> = x.iter().map(|x| x * x_unit).collect();
                builder.push(user, &x, y * y_unit).unwrap();
            }
        }
        builder.build().0
    };
    let settings = ResidualAltMinParams::new(2);
    let fit = |samples: &UserSamples| {
        residual(settings, samples, target(3.0), ADJACENCIES[0])
            .unwrap()
            .model
    };
    let plain = fit(&scaled(1.0, 1.0));
    // powers of two: the same floats but for exponents
    let other = fit(&scaled(1024.0, 2.0_f32.powi(-20)));
    assert!(plain.frobenius_distance(&other).unwrap() < 1e-6);
}

/// Signs of the labels alone: gradient steps with the logistic loss make the subspace better than its start, and models in it
/// tell most signs of new rows.
#[test]
fn logistic_steps_learn_to_classify() {
    let data = made(6_000, 0.0);
    let mut builder = UserSamplesBuilder::new(DIM, 10).unwrap();
    for (user, rows) in (0..).zip(data.samples.users()) {
        for (x, y) in rows.iter() {
            builder.push(user, x, y.signum()).unwrap();
        }
    }
    let signs = builder.build().0;
    let gd = DpGdEmbedding {
        loss: ConvexLoss::Logistic,
        gradient_clip: 0.3,
        learning_rate: 4.0,
        l2_penalty: 0.05,
    };
    let start = AltMinParams {
        init: Initialisation::Projectors,
        n_iterations: 0,
        ..AltMinParams::section_6(2)
    };
    let start = AltMinParams {
        init_share: 0.02,
        ..start
    };
    let steps = AltMinParams {
        embedding: Embedding::Gd(gd),
        n_iterations: 8,
        ..start.clone()
    };
    let epsilon = target(8.0);
    // what the first release of the second run would give alone: its share of the budget
    let first = alt_min(start, &signs, target(0.8), ADJACENCIES[0]).unwrap();
    let fitted = alt_min(steps, &signs, epsilon, ADJACENCIES[0]).unwrap();
    let (before, after) = (
        distance(&data, &first.model),
        distance(&data, &fitted.model),
    );
    assert!(after < 0.1 && after < before, "{before} then {after}");
    let local = LocalFit::convex(ConvexLoss::Logistic, 0.05).unwrap();
    let (mut right, mut n) = (0, 0);
    let users = signs
        .users()
        .zip(data.samples.users().skip(1))
        .zip(data.coefficients.chunks_exact(DIM));
    for ((own, stranger), theta) in users {
        let model = local.fit(&fitted.model, own);
        for (x, _) in stranger.iter() {
            let truth: f64 = x.iter().zip(theta).map(|(&x, t)| f64::from(x) * t).sum();
            right += usize::from(truth * model.predict(x) > 0.0);
            n += 1;
        }
    }
    let accuracy = right as f64 / f64::from(n);
    assert!(accuracy > 0.8, "{accuracy}");
}

/// With noise far above the data, noisy quadratic forms are indefinite; errors stay those of some subspace.
#[test]
fn much_noise_never_blows_anything_up() {
    let data = made(300, 0.0);
    let zero = 2.0;
    for adjacency in ADJACENCIES {
        for settings in variants() {
            let fitted = alt_min(settings, &data.samples, target(0.05), adjacency).unwrap();
            let found = mse(&data, &fitted.model);
            assert!(found < 2.5 * zero, "{found}");
        }
        let settings = ResidualAltMinParams::new(2);
        let fitted = residual(settings, &data.samples, target(0.05), adjacency).unwrap();
        let found = mse(&data, &fitted.model);
        assert!(found < 2.5 * zero, "{found}");
        let single = SingleModelParams {
            design_clip: 3.0,
            label_clip: 2.0,
        }
        .check()
        .unwrap();
        let plan = SingleModel::plan(DIM, target(0.05), adjacency).unwrap();
        let fitted = single
            .fit(&data.samples, &plan, pay(&plan, 1), &mut seeded())
            .unwrap();
        let length: f64 = fitted.model.coefficients().iter().map(|t| t * t).sum();
        assert!(length < 10.0, "{length}");
    }
}

#[test]
fn baselines_are_where_theory_has_them() {
    let data = made(4_000, 0.0);
    let truth = GroundTruth {
        coefficients: &data.coefficients,
        feature_variances: &data.feature_variances,
    };
    let zero = truth
        .population_mse(data.samples.users().map(|_| zero_model(DIM)))
        .unwrap();
    // mean of 4,000 chi-squares with 2 degrees of freedom: standard deviation 0.032
    assert!((zero - 2.0).abs() < 7.0 * 0.032, "{zero}");
    let own = truth
        .population_mse(data.samples.users().map(|rows| own_data_model(rows, DIM)))
        .unwrap();
    // sigma^2 d / (m - d - 1) = 2e-4, with a heavy tail
    assert!(own > 1e-4 && own < 4e-4, "{own}");
    let non_private = NonPrivateAltMin {
        rank: 2,
        n_iterations: 4,
    }
    .fit(&data.samples)
    .unwrap();
    assert!(distance(&data, &non_private) < 1e-3);
    assert!(
        truth
            .population_mse(data.samples.users().skip(1).map(|_| zero_model(DIM)))
            .is_err()
    );
    assert!(
        truth
            .population_mse(data.samples.users().map(|_| zero_model(DIM + 1)))
            .is_err()
    );
}

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
            n_iterations: 1001,
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
        n_iterations: 2,
        ..AltMinParams::section_6(2)
    };
    let fit = batches.check().unwrap();
    let plan = fit.plan(DIM, target(1.0), ADJACENCIES[0]).unwrap();
    assert_eq!((fit.n_accounts(), plan.releases().len()), (2, 3));
    let run = |plan: &Plan, spends| fit.fit(samples, plan, spends, &mut seeded());
    assert!(matches!(
        run(&plan, pay(&plan, 1)),
        Err(Error::Spends { .. })
    ));
    assert!(matches!(
        run(&plan, pay(&plan, 3)),
        Err(Error::Spends { .. })
    ));
    let mut mixed = pay(&plan, 2);
    mixed.swap(0, 3); // the accounts' first spends exchanged
    assert!(matches!(run(&plan, mixed), Err(Error::Spends { .. })));
    let other = fit.plan(DIM + 1, target(1.0), ADJACENCIES[0]).unwrap();
    assert!(matches!(run(&other, pay(&other, 2)), Err(Error::Shape(_))));
    let cheaper = fit.plan(DIM, target(0.5), ADJACENCIES[0]).unwrap();
    assert!(matches!(
        run(&plan, pay(&cheaper, 2)),
        Err(Error::Spends { .. })
    ));
    let replace = fit.plan(DIM, target(1.0), ADJACENCIES[1]).unwrap();
    assert!(matches!(
        run(&plan, pay(&replace, 2)),
        Err(Error::Spends { .. })
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
