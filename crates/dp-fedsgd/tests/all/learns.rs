//! Runs on synthetic users.

use dp_data::OffsetData;
use dp_fedsgd::{
    BatchReduction, ClipSchedule, Fitted, PpSgd, PpSgdModel, PpSgdParams, PublicEarlyStopping, Run,
    StreamedBatches, Trainer, UserBatches,
};
use dp_mechanism::{FixedSizeSampling, NoiseSource, PoissonSampling};
use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};

use crate::support::{OnRelease, Release, offsets, paid, squared};

const DIM: usize = 8;

fn batches(data: &OffsetData) -> impl UserBatches {
    StreamedBatches::new(&data.table, DIM, |user, step, out| {
        data.rows(user, step, 10, out.cells_mut());
    })
}

fn risk(data: &OffsetData, model: &PpSgdModel) -> f64 {
    let own = model.local.expose();
    data.excess_risk(|user, theta| {
        let both = model.shared.last().iter().zip(own.last(user));
        theta
            .iter_mut()
            .zip(both)
            .for_each(|(t, (w, o))| *t = w + o);
    })
}

fn private(
    fit: &PpSgd,
    data: &OffsetData,
    seed: u64,
    adjacency: dp_core::Adjacency,
) -> Fitted<PpSgdModel> {
    let plan = fit.plan_with_noise(DIM, 3.0, 1e-4, adjacency).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(seed);
    fit.with(&squared(DIM))
        .fit(&batches(data), &plan, paid(&plan), noise)
        .unwrap()
}

#[test]
#[ignore = "heavy: part of CI"]
fn heavy_private_runs_come_near_runs_without_privacy_under_every_scheme() {
    let data = offsets(600, DIM, 1);
    let base = PpSgdParams::new(1.0, 0.7, 10.0, 60, 600.0);
    let half = PoissonSampling::new(0.5).unwrap();
    let fixed = FixedSizeSampling::new(300, 600).unwrap();
    let zero = data.excess_risk(|_, theta| theta.fill(0.0));
    for (params, adjacency) in [
        (base, dp_core::Adjacency::AddRemoveUser),
        (base.sampled(half.into()), dp_core::Adjacency::AddRemoveUser),
        (base.sampled(fixed.into()), dp_core::Adjacency::ReplaceUser),
    ] {
        let fit = params.check().unwrap();
        let found = risk(&data, &private(&fit, &data, 3, adjacency).model);
        let rng = &mut ChaCha20Rng::seed_from_u64(3);
        let exact = fit
            .simulate(&squared(DIM), &batches(&data), 0.0, rng)
            .unwrap();
        let exact = risk(&data, &exact);
        assert!(found < 0.01 * zero, "{found} of {zero}");
        assert!(found < 3.0 * exact + 0.05, "{found} {exact}");
    }
}

#[test]
fn sums_over_rows_learn_as_means_do_at_the_corresponding_step() {
    let data = offsets(300, DIM, 2);
    let rng = || ChaCha20Rng::seed_from_u64(1);
    // ten rows each: a sum is ten means, so 10 times the clipping norm and a tenth of the step size
    // give the same run
    let mean = PpSgdParams::new(2.0, 0.5, 10.0, 30, 300.0).check().unwrap();
    let sum = PpSgdParams {
        reduction: BatchReduction::Sum {
            rows_per_user: 10.0,
        },
        ..PpSgdParams::new(20.0, 0.5, 100.0, 30, 300.0)
    };
    let sum = sum.check().unwrap();
    // alpha 20: global .5 on the mean of sums / 10, local .025 on sums = .25 on means
    let a = mean
        .simulate(&squared(DIM), &batches(&data), 0.0, &mut rng())
        .unwrap();
    let b = sum
        .simulate(&squared(DIM), &batches(&data), 0.0, &mut rng())
        .unwrap();
    for (a, b) in a.shared.last().iter().zip(b.shared.last()) {
        assert!((a - b).abs() < 1e-3 * (1.0 + a.abs()));
    }
}

#[test]
fn an_adaptive_clip_settles_where_the_share_of_users_is_met() {
    let data = offsets(500, DIM, 4);
    let mut params = PpSgdParams::new(1.0, 0.05, 1.0, 150, 500.0);
    params.clip = ClipSchedule::Quantile {
        start: 200.0,
        quantile: 0.5,
        rate: 0.2,
        low: 0.01,
        high: 1000.0,
    };
    let fit = params.check().unwrap();
    let mut norms = Vec::new();
    let plan = fit
        .plan_with_noise(DIM, 5.0, 1e-4, dp_core::Adjacency::AddRemoveUser)
        .unwrap();
    assert!(
        plan.releases()
            .iter()
            .all(|r| r.n_draws() == DIM as u64 + 1)
    );
    let noise = &mut NoiseSource::insecure_seeded(5);
    // the bound on a whole contribution: the clipping norm, and the coordinate for the share within
    // it
    let whole = 1.0_f64.hypot(params.extra_share);
    let mut keep = OnRelease(|seen: Release<'_>| norms.push(seen.grid.clip_norm() / whole));
    let run = Run::new(&plan, paid(&plan), noise).unwrap();
    let run = run.observed_by(&mut keep);
    fit.with(&squared(DIM)).run(&batches(&data), run).unwrap();
    // it falls from 200, and then follows the shrinking gradients
    assert!(
        norms[0] > 199.0 && norms[60] < 20.0 && norms[149] < norms[60],
        "{norms:?}"
    );
    assert!(norms[149] > 0.02);
}

#[test]
fn rounds_with_too_few_clients_leave_the_model_as_it_is() {
    let data = offsets(200, DIM, 6);
    let mut params = PpSgdParams::new(1.0, 0.5, 10.0, 5, 200.0);
    // noise on the count: standard deviation 10
    for (minimum, moves) in [(100.0, true), (300.0, false)] {
        params.minimum_clients = Some(minimum);
        let fit = params.check().unwrap();
        let fitted = private(&fit, &data, 7, dp_core::Adjacency::AddRemoveUser);
        let shared = &fitted.model.shared;
        assert_eq!(shared.last().iter().any(|&w| w != 0.0), moves);
        assert_eq!(fitted.certificate.releases.len(), 5);
    }
}

#[test]
fn stopping_early_follows_public_loss_and_keeps_what_was_paid() {
    let data = offsets(300, DIM, 8);
    let mut params = PpSgdParams::new(f64::INFINITY, 0.7, 30.0, 200, 300.0);
    params.keep_every = 1;
    let fit = params.check().unwrap();
    let plan = fit
        .plan_with_noise(DIM, 5.0, 1e-4, dp_core::Adjacency::AddRemoveUser)
        .unwrap();
    let public: Vec<f64> = data.coefficients[..DIM].to_vec(); // used as public data
    let far = |w: &[f64]| {
        w.iter()
            .zip(&public)
            .map(|(a, b)| (a - b).powi(2))
            .sum::<f64>()
    };
    let stopping = PublicEarlyStopping::new(10, far);
    let noise = &mut NoiseSource::insecure_seeded(9);
    let (model, data) = (squared(DIM), batches(&data));
    let trainer = fit.with(&model).stopping_early(stopping);
    let fitted = trainer.fit(&data, &plan, paid(&plan), noise).unwrap();
    let shared = &fitted.model.shared;
    let made = shared.n_rounds();
    assert!((11..200).contains(&made), "{made}");
    let losses: Vec<f64> = shared.kept().iter().map(|k| far(&k.shared)).collect();
    assert_eq!(losses.len(), made);
    let best = losses.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(losses[made - 11] <= best);
    assert_eq!(fitted.certificate.releases.len(), 200);
}

#[test]
#[ignore = "heavy: part of CI"]
fn heavy_a_shrinking_clip_with_shrinking_steps_gains_in_private_runs() {
    let data = offsets(500, DIM, 10);
    let constant = PpSgdParams::new(3.0, 0.7, 30.0, 100, 500.0);
    let mean = |params: PpSgdParams| {
        let fit = params.check().unwrap();
        let runs = (0..2).map(|seed| {
            let fitted = private(&fit, &data, seed, dp_core::Adjacency::AddRemoveUser);
            risk(&data, &fitted.model)
        });
        runs.sum::<f64>() / 2.0
    };
    let (plain, shrinking) = (mean(constant), mean(constant.shrinking(0.01)));
    assert!(shrinking < 0.5 * plain, "{shrinking} {plain}");
}
