//! Malformed records.

use dp_core::{UserSamples, UserSamplesBuilder};
use dp_fedsgd::{
    AdditiveLoss, AdditiveModel, HeldBatches, PersonalizedObjective, Point, PpSgdParams, Run,
    Trainer,
};
use dp_mechanism::NoiseSource;

use crate::support::{ADD_REMOVE, Numbers, OnRelease, Release, paid};

fn hostile(numbers: &mut Numbers) -> f32 {
    match numbers.word() % 9 {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => f32::NEG_INFINITY,
        3 => f32::MAX,
        4 => -f32::MAX,
        5 => f32::MIN_POSITIVE / 4.0,
        6 => 1e20,
        _ => numbers.next(),
    }
}

fn users(n: u32, seed: u64) -> UserSamples {
    let mut numbers = Numbers(seed);
    let mut builder = UserSamplesBuilder::new(3, 4).unwrap();
    for user in 0..n {
        for _ in 0..numbers.word() % 5 {
            let x = [0; 3].map(|_| hostile(&mut numbers));
            builder.push(user, &x, hostile(&mut numbers)).unwrap();
        }
        // a user who is certainly in the table
        builder.push(user, &[f32::NAN; 3], 0.0).unwrap();
    }
    builder.build().0
}

/// An objective whose gradients sometimes contain NaN.
struct Broken(AdditiveModel);

impl PersonalizedObjective for Broken {
    fn n_features(&self) -> usize {
        self.0.n_features()
    }
    fn n_shared(&self) -> usize {
        self.0.n_shared()
    }
    fn n_local(&self) -> usize {
        self.0.n_local()
    }
    fn loss(&self, at: Point<'_>, x: &[f32], y: f32) -> f64 {
        self.0.loss(at, x, y)
    }
    fn grad_shared(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
        self.0.grad_shared(at, x, y, out);
        if x[0] > 0.0 {
            out[0] = f64::NAN;
        }
    }
    fn grad_local(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
        self.0.grad_local(at, x, y, out);
        if x[1] > 0.0 {
            out[2] = f64::INFINITY;
        }
    }
}

fn norms_of_everybody<O: PersonalizedObjective>(objective: &O, data: &UserSamples) -> usize {
    let n_users = u32::try_from(data.users().len()).unwrap();
    let mut params = PpSgdParams::new(1.0, 0.5, 2.0, 4, f64::from(n_users));
    params.minimum_clients = Some(1.0);
    let fit = params.check().unwrap();
    let plan = fit
        .plan_with_noise(objective.n_shared(), 1.0, 1e-5, ADD_REMOVE)
        .unwrap();
    let batches = HeldBatches::new(data, 2).unwrap();
    let mut seen = 0;
    let mut observer = OnRelease(|round: Release<'_>| {
        let bound = u128::from(round.grid.l2_bound());
        for user in data.table().expose().users() {
            let once = (round.one_user)(user);
            assert_eq!(once, (round.one_user)(user), "asked twice, another answer");
            let square = |&(_, z): &(usize, i64)| u128::from(z.unsigned_abs()).pow(2);
            assert!(once.iter().map(square).sum::<u128>() <= bound * bound);
            seen += 1;
        }
    });
    let noise = &mut NoiseSource::insecure_seeded(1);
    let run = Run::new(&plan, paid(&plan), noise).unwrap();
    let run = run.observed_by(&mut observer);
    let model = fit.with(objective).run(&batches, run).unwrap().model;
    assert!(model.shared.last().iter().all(|w| w.is_finite()));
    for user in 0..data.users().len() {
        assert!(
            model
                .local
                .expose()
                .last(user)
                .iter()
                .all(|t| t.is_finite())
        );
    }
    seen
}

#[test]
fn nobody_adds_more_than_the_bound_and_models_stay_finite() {
    let data = users(500, 3);
    for loss in AdditiveLoss::ONE_OF_EACH {
        let model = AdditiveModel::new(loss, 3).unwrap();
        assert_eq!(norms_of_everybody(&model, &data), 4 * 500);
        assert_eq!(norms_of_everybody(&Broken(model), &data), 4 * 500);
    }
}

#[test]
fn users_at_the_clip_count() {
    // one user with a huge gradient: the sum moves by the full clipping norm, not by 0
    let mut builder = UserSamplesBuilder::new(1, 1).unwrap();
    builder.push(0, &[1.0], 1e6).unwrap();
    let data = builder.build().0;
    let fit = PpSgdParams::new(1.0, 0.5, 2.0, 1, 1.0).check().unwrap();
    let plan = fit.plan_with_noise(1, 1.0, 1e-5, ADD_REMOVE).unwrap();
    let batches = HeldBatches::new(&data, 1).unwrap();
    let model = AdditiveModel::new(AdditiveLoss::Squared, 1).unwrap();
    let mut sent = Vec::new();
    let mut observer = OnRelease(|round: Release<'_>| {
        let user = data.table().expose().user(0);
        sent.push(((round.one_user)(user)[0].1, round.grid.l2_bound()));
    });
    let noise = &mut NoiseSource::insecure_seeded(1);
    let run = Run::new(&plan, paid(&plan), noise).unwrap();
    let run = run.observed_by(&mut observer);
    fit.with(&model).run(&batches, run).unwrap();
    let (z, bound) = sent[0];
    assert!(z < 0 && z.unsigned_abs() <= bound && z.unsigned_abs() as f64 > 0.999 * bound as f64);
}
