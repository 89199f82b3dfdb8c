//! L1 and L2 on samples: DP-SGD on the parameters of an encoder.

use dp_accounting::Plan;
use dp_audit::{
    AuditedTrainer, DpSgdOracle, EpsilonAudit, Layout, View, audit_epsilon, audit_release,
};
use dp_core::{Adjacency, ApproxDp, DpEvent, Interactions, InteractionsBuilder, Private};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{DpSgd, DpSgdParams, IdEncoder, Optimiser, ProblemSetup, With};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use super::{COMMON, FAR, N_ORDINARY, ordinary};
use crate::support::LEVEL;

const N_CANARIES: usize = 1000;
/// Number of items that no user has: their released values are noise.
const N_IDLE: usize = 150;
const N_ITEMS: usize = COMMON + N_CANARIES + N_IDLE;
const DIM: usize = super::DIM;
const Q: f64 = 0.4;
const N_STEPS: usize = 6;

/// The claim is made at a delta at which outputs can show something.
fn claim() -> ApproxDp {
    ApproxDp::target(1.0, 0.05).unwrap()
}

type Audited = AuditedTrainer<With<DpSgd, IdEncoder>, DpSgdOracle<IdEncoder>>;

fn trainer() -> Audited {
    let params = DpSgdParams {
        setup: ProblemSetup::new(DIM, 50.0),
        n_steps: N_STEPS,
        sampling_probability: Q,
        gradient_norm: 0.5,
        optimiser: Optimiser::Sgd { rate: 0.01 },
    };
    let encoder = IdEncoder::random(N_ITEMS, DIM, &mut ChaCha20Rng::seed_from_u64(1)).unwrap();
    let fit = params.check().unwrap();
    let (trainer, adjacency) = (fit.with(encoder.clone()), Adjacency::AddRemoveUser);
    let trainer = AuditedTrainer::new(trainer, N_ITEMS, claim(), adjacency).unwrap();
    trainer.checked_by(DpSgdOracle::new(fit, encoder).unwrap())
}

/// The release of each step, with unknown exact sum.
fn steps(trainer: &Audited, data: &Private<Interactions>, noise: &mut NoiseSource) -> Vec<View> {
    let nobody = InteractionsBuilder::new(N_ITEMS).with_feature_dim(DIM);
    trainer.run(data, &nobody.build().0, noise).unwrap().1
}

fn noise_multiplier(plan: &Plan) -> f64 {
    let DpEvent::PoissonSampled { event, .. } = plan.releases()[0].event() else {
        panic!("no sample")
    };
    let DpEvent::Gaussian {
        noise_multiplier, ..
    } = **event
    else {
        panic!("no Gaussian")
    };
    noise_multiplier
}

/// Ordinary users, users without records, and the canaries selected by `present`, each with a
/// separate item.
fn table(n_idle: u32, present: impl Fn(usize) -> bool) -> Private<Interactions> {
    let mut out = InteractionsBuilder::new(N_ITEMS).with_feature_dim(DIM);
    let mut user = 0;
    for row in ordinary(N_ITEMS, 0).users() {
        out.set_features(user, row.features()).unwrap();
        for (item, y) in row.iter() {
            out.push(user, item, y).unwrap();
        }
        user += 1;
    }
    assert_eq!(user, N_ORDINARY);
    for canary in (0..N_CANARIES).filter(|c| present(*c)) {
        out.set_features(user, &[1.0, 0.0, 0.0]).unwrap();
        out.push(user, (COMMON + canary) as u32, FAR).unwrap();
        user += 1;
    }
    for idle in user..user + n_idle {
        out.set_features(idle, &[1.0, 0.0, 0.0]).unwrap();
    }
    Private::new(out.build().0)
}

/// Scores of canaries that were present and of those that were not, and the noise in coordinates
/// without users.
struct Seen {
    scores: [Vec<f64>; 2],
    idle: View,
}

/// Runs in which canary `c` is present in every other run, beginning with run `c % 2`.
fn seen(n_runs: usize) -> Seen {
    let trainer = trainer();
    let z = noise_multiplier(trainer.plan());
    let side = |canary: usize, run: usize| (canary + run) % 2;
    let mut scores = [Vec::new(), Vec::new()];
    let (mut idle, mut sigma) = (Vec::new(), 1);
    for run in 0..n_runs {
        let data = table(0, |canary| side(canary, run) == 1);
        let noise = &mut NoiseSource::operating_system();
        let steps = steps(&trainer, &data, noise);
        for canary in 0..N_CANARIES {
            // the gradient points away from the label
            let at = (COMMON + canary) * DIM;
            let x = |view: &View| -(view.integers[at] as f64 + 0.5) / view.layout.sigma() as f64;
            // log-likelihood ratio at the claimed noise: the most powerful score
            let score = |x: f64| (1.0 - Q + Q * (x / z - 0.5 / (z * z)).exp()).ln();
            let score = steps.iter().map(|view| score(x(view))).sum();
            scores[side(canary, run)].push(score);
        }
        for view in &steps {
            idle.extend(&view.integers[(COMMON + N_CANARIES) * DIM..]);
            sigma = view.layout.sigma();
        }
    }
    let idle = View {
        label: "idle coordinates".to_owned(),
        layout: Layout::Vector { sigma },
        noise_multiplier: z,
        exact: vec![0; idle.len()],
        integers: idle,
        canaries: Vec::new(),
    };
    Seen { scores, idle }
}

fn audit(seen: &Seen) -> EpsilonAudit {
    let thresholds: Vec<f64> = (-10..=10).map(|k| 0.2 * f64::from(k)).collect();
    let [without, with] = &seen.scores;
    let confidence = 1.0 - 1e-9;
    audit_epsilon("gradients", claim(), without, with, &thresholds, confidence).unwrap()
}

/// 6 runs of 1,000 canaries: 3,000 outputs on each side, and 16,200 draws of noise.
#[test]
fn sampled_runs_stay_within_their_claim() {
    let seen = seen(6);
    let audit = audit(&seen);
    assert!(audit.verdict.holds(), "{audit}");
    // outputs do distinguish the two sides
    assert!(audit.lower_bound_epsilon > 0.0, "{audit}");
    assert!(audit_release(&seen.idle, LEVEL).unwrap().verdict.holds());
    let mut short = seen.idle;
    short.integers.iter_mut().for_each(|y| *y = *y / 10 * 7);
    assert!(audit_release(&short, LEVEL).unwrap().verdict.is_violated());
}

/// Ten times as many: 30,000 outputs on each side.
#[test]
#[ignore = "long form: 60 training runs"]
fn long_sampled_runs_stay_within_their_claim() {
    let seen = seen(60);
    let audit = audit(&seen);
    eprintln!("{audit}");
    assert!(audit.verdict.holds());
    assert!(audit_release(&seen.idle, LEVEL).unwrap().verdict.holds());
}

/// Users without records change the true number of users (drawn or not) and nothing else.
#[test]
fn users_who_have_nothing_change_nothing() {
    let trainer = trainer();
    let run = |n_idle| {
        let noise = &mut NoiseSource::insecure_seeded(3);
        let views = steps(&trainer, &table(n_idle, |_| false), noise);
        let integers = views.into_iter().map(|view| view.integers);
        integers.collect::<Vec<_>>()
    };
    assert!(run(0) == run(40));
}
