//! What is learned, with low noise and with high noise.

use dp_core::{UserSamples, UserSamplesBuilder};
use dp_personalize::{
    AltMinParams, ConvexLoss, DpGdEmbedding, Embedding, GroundTruth, Initialisation, LocalFit,
    NonPrivateAltMin, Provenance, ResidualAltMinParams, SingleModelParams, Subspace,
    own_data_model, zero_model,
};

use crate::support::{
    ADJACENCIES, DIM, alt_min, distance, fit, made, mse, residual, target, variants,
};

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
        n_rounds: 5,
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

/// Refinement does not depend on the units of features and labels.
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
    let fitted = |samples: &UserSamples| {
        residual(settings, samples, target(3.0), ADJACENCIES[0])
            .unwrap()
            .model
    };
    let plain = fitted(&scaled(1.0, 1.0));
    // powers of two: the same floats except for exponents
    let other = fitted(&scaled(1024.0, 2.0_f32.powi(-20)));
    assert!(plain.frobenius_distance(&other).unwrap() < 1e-6);
}

/// Only the signs of the labels: gradient steps with the logistic loss improve the subspace, and
/// models in it predict most signs of new rows.
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
        n_rounds: 0,
        ..AltMinParams::section_6(2)
    };
    let start = AltMinParams {
        init_share: 0.02,
        ..start
    };
    let steps = AltMinParams {
        embedding: Embedding::Gd(gd),
        n_rounds: 8,
        ..start.clone()
    };
    let epsilon = target(8.0);
    // the result of the second run's first release alone: its share of the budget
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

/// With noise far above the data, noisy quadratic forms are indefinite; errors stay those of some
/// subspace.
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
        let fitted = fit(&single, &data.samples, target(0.05), adjacency).unwrap();
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
        n_rounds: 4,
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
