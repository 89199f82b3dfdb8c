//! With little noise the private fits are the non-private ones.

use dp_data::TaskData;
use dp_mechanism::NoiseSource;
use dp_multitask::{
    Gramian, Loss, MultiTaskNoisyGdParams, MultiTaskSspParams, RegressionLoss, ResidualSspParams,
    SspSolve, StepSize, TaskModels, TaskSetup, Trainer,
};

use crate::support::{ADJACENCY, DIM, LITTLE_NOISE, made, pay};

/// Largest distance of a coefficient from the non-private solution.
fn distance(found: &TaskModels, data: &TaskData) -> f64 {
    let exact = TaskModels::non_private_ridge(&data.train, 1e-6).unwrap();
    let pairs = found.coefficients().iter().zip(exact.coefficients());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn non_private_ridge_finds_the_truth() {
    let data = made(500, 1);
    let exact = TaskModels::non_private_ridge(&data.train, 1e-6).unwrap();
    for (a, b) in exact.coefficients().iter().zip(&data.coefficients) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}

#[test]
fn ssp_with_little_noise_is_ridge_regression() {
    let data = made(20_000, 2);
    let wide = TaskSetup {
        label_norm: 1.0,
        ..TaskSetup::unit_ball(DIM)
    };
    for solve in [
        MultiTaskSspParams::new(wide.clone()).solve,
        SspSolve::PseudoInverse,
    ] {
        let params = MultiTaskSspParams {
            solve,
            ..MultiTaskSspParams::new(wide.clone())
        };
        let fit = params.check().unwrap();
        let plan = fit.plan(8, LITTLE_NOISE, ADJACENCY).unwrap();
        let mut noise = NoiseSource::insecure_seeded(5);
        let fitted = fit.fit(&data.train, &plan, pay(&plan), &mut noise).unwrap();
        let found = distance(&fitted.model, &data);
        assert!(found < 0.01, "{solve:?} {found}");
        assert!(!fitted.certificate.verify().unwrap().is_private(), "seeded");
    }
}

#[test]
fn residual_steps_close_in_on_ridge_regression() {
    let data = made(20_000, 3);
    for gramian in [
        Gramian::Pooled { share: 0.02 },
        Gramian::PerTask { share: 0.1 },
    ] {
        let params = ResidualSspParams {
            gramian,
            n_steps: 14,
            ..ResidualSspParams::new(TaskSetup::unit_ball(DIM))
        };
        let fit = params.check().unwrap();
        let plan = fit.plan(8, LITTLE_NOISE, ADJACENCY).unwrap();
        let mut noise = NoiseSource::insecure_seeded(6);
        let fitted = fit.fit(&data.train, &plan, pay(&plan), &mut noise).unwrap();
        let found = distance(&fitted.model, &data);
        // the last bound is 7e-5 of the labels': far below what one release of them could do
        assert!(found < 2e-4, "{gramian:?} {found}");
    }
}

#[test]
fn noisy_gradient_descent_with_little_noise_finds_the_minimum() {
    let data = made(20_000, 4);
    let start = || MultiTaskNoisyGdParams {
        n_steps: 30,
        ..MultiTaskNoisyGdParams::new(TaskSetup::unit_ball(DIM))
    };
    let strongly_convex = StepSize::StronglyConvex { convexity: 0.3 };
    // steps that shrink as 1/t cannot cross the distance under a small clip
    for (step_size, gradient_norm) in [(start().step_size, 0.15), (strongly_convex, 0.6)] {
        let params = MultiTaskNoisyGdParams {
            step_size,
            gradient_norm,
            ..start()
        };
        let fit = params.check().unwrap();
        let plan = fit.plan(8, LITTLE_NOISE, ADJACENCY).unwrap();
        let mut noise = NoiseSource::insecure_seeded(7);
        let fitted = fit.fit(&data.train, &plan, pay(&plan), &mut noise).unwrap();
        let found = distance(&fitted.model, &data);
        assert!(found < 0.02, "{step_size:?} {found}");
    }
}

/// Absolute error, a loss that the crate does not have.
struct AbsoluteError;

impl Loss for AbsoluteError {
    fn value(&self, theta: &[f64], x: &[f64], y: f64) -> f64 {
        (theta.iter().zip(x).map(|(t, x)| t * x).sum::<f64>() - y).abs()
    }

    fn gradient(&self, theta: &[f64], x: &[f64], y: f64, out: &mut [f64]) {
        let error = theta.iter().zip(x).map(|(t, x)| t * x).sum::<f64>() - y;
        for (out, x) in out.iter_mut().zip(x) {
            *out = error.signum() * x;
        }
    }
}

#[test]
fn other_losses_and_schedules_lower_their_loss() {
    let data = made(5_000, 5);
    let losses: [&dyn Loss; 3] = [
        &RegressionLoss::Huber { threshold: 0.1 },
        &RegressionLoss::Logistic,
        &AbsoluteError,
    ];
    for loss in losses {
        let params = MultiTaskNoisyGdParams {
            step_size: StepSize::Lipschitz,
            gradient_norm: 0.5,
            n_steps: 20,
            ..MultiTaskNoisyGdParams::new(TaskSetup::unit_ball(DIM))
        };
        let fit = params.check().unwrap();
        let plan = fit.plan(8, LITTLE_NOISE, ADJACENCY).unwrap();
        let mut noise = NoiseSource::insecure_seeded(8);
        let fit = fit.with_loss(loss);
        let fitted = fit.fit(&data.train, &plan, pay(&plan), &mut noise).unwrap();
        let total = |theta: &[f64]| -> f64 {
            let of_row = |row: dp_core::UserRow<'_>| -> f64 {
                let x: Vec<f64> = row.features().iter().map(|&x| x.into()).collect();
                let one = |(task, y): (u32, f32)| {
                    loss.value(&theta[task as usize * DIM..][..DIM], &x, y.into())
                };
                row.iter().map(one).sum()
            };
            data.train.expose().users().map(of_row).sum()
        };
        let (before, after) = (total(&[0.0; 8 * DIM]), total(fitted.model.coefficients()));
        assert!(after < 0.8 * before, "{before} {after}");
    }
}
