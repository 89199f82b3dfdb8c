//! L3 and L4: whole runs of multi-task regression.

use dp_audit::{AuditedRun, AuditedTrainer, Canaries, RunSettings, audit_run, audit_sensitivity};
use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private};
use dp_mechanism::{NoiseSource, Trainer};
use dp_multitask::{
    Error, Gramian, MultiTaskNoisyGdParams, MultiTaskSspParams, ResidualSspParams, TaskSetup,
};

const N_TASKS: usize = 12;
const DIM: usize = 3;
const ITEMS_EACH: usize = 4;

/// A few ordinary users with features of norm at most 1.
fn users() -> Private<Interactions> {
    let mut builder = InteractionsBuilder::new(N_TASKS).with_feature_dim(DIM);
    for user in 0..60_u32 {
        let x = [0, 1, 2].map(|k| (user as f32 * 0.7 + k as f32).sin() / 2.0);
        builder.set_features(user, &x).unwrap();
        for k in 0..1 + user % 5 {
            let task = (user * 5 + k * 7) % 12;
            builder.push(user, task, x[0] - x[1]).unwrap();
        }
    }
    Private::new(builder.build().0)
}

/// Bounds on labels far above what coefficients can explain, so that canaries reach every bound in
/// every step.
fn setup() -> TaskSetup {
    TaskSetup {
        label_bound: 1e3,
        label_norm: 1e3,
        ..TaskSetup::unit_ball(DIM)
    }
}

fn audited<T>(fit: T) -> Box<dyn AuditedRun>
where
    T: Trainer<Data = Private<Interactions>, Error = Error> + 'static,
{
    let (n_tasks, adjacency) = (canaries().n_items(), Adjacency::AddRemoveUser);
    Box::new(AuditedTrainer::new(fit, n_tasks, target(), adjacency).unwrap())
}

fn trainers() -> Vec<(&'static str, Box<dyn AuditedRun>)> {
    let ssp = MultiTaskSspParams::new(setup()).check().unwrap();
    let mut descent = MultiTaskNoisyGdParams::new(setup());
    descent.n_steps = 3;
    let pooled = ResidualSspParams::new(setup());
    let mut per_task = pooled.clone();
    per_task.gramian = Gramian::PerTask { share: 0.5 };
    vec![
        ("ssp", audited(ssp)),
        ("descent", audited(descent.check().unwrap())),
        ("pooled", audited(pooled.check().unwrap())),
        ("per task", audited(per_task.check().unwrap())),
    ]
}

fn target() -> ApproxDp {
    ApproxDp::target(4.0, 1e-5).unwrap()
}

fn canaries() -> Canaries {
    let canaries = Canaries::new(users(), 150, ITEMS_EACH, 1e6).unwrap();
    canaries.with_features(&[1.0, 0.0, 0.0]).unwrap()
}

#[test]
fn runs_of_every_method_give_away_what_they_claim_and_no_more() {
    let canaries = canaries();
    for (name, trainer) in trainers() {
        let runs = RunSettings {
            n_runs: 4,
            ..RunSettings::default()
        };
        let audit = audit_run(&*trainer, &canaries, &runs, NoiseSource::operating_system).unwrap();
        assert!(audit.verdict.holds(), "{name}: {audit}");
        let share = audit.white_box_mu / audit.claimed_mu;
        assert!((share - 1.0).abs() < 0.03, "{name}: {share}: {audit}");
        assert!(audit.lower_bound_epsilon <= audit.claimed.epsilon, "{name}");
    }
}

#[test]
fn no_user_moves_the_first_release_further_than_paid_for() {
    let canaries = canaries();
    let data = canaries.with(&[true; 150]).unwrap();
    let everybody: Vec<usize> = (0..data.expose().n_users()).step_by(7).collect();
    for (name, trainer) in trainers() {
        let audit = audit_sensitivity(data.expose(), &everybody, |data, noise| {
            Ok(trainer.train(data, canaries.users(), noise)?.remove(0))
        })
        .unwrap();
        assert!(audit.verdict.holds(), "{name}: {audit}");
        // canaries reach the bound, except for the margin of the grid
        assert!(
            audit.largest > 0.999 * audit.allowed as f64,
            "{name}: {audit}"
        );
    }
}
