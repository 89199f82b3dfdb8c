//! L1 and L2 on samples: noise in coordinates without users, and lower bounds on epsilon.

use dp_accounting::Plan;
use dp_audit::{EpsilonAudit, audit_epsilon, audit_release};
use dp_core::{Adjacency, ApproxDp};
use dp_fedsgd::PpSgdParams;
use dp_mechanism::{ClientSampling, FixedSizeSampling, NoiseSource, PoissonSampling};

use super::{COMMON, FAR, N_ORDINARY, alone, audited, built, ordinary, plan, run as run_once};
use crate::support::LEVEL;

const N_CANARIES: usize = 1000;
/// Number of features that no user has: their released values are noise.
const N_IDLE: usize = 300;
const DIM: usize = COMMON + N_CANARIES + N_IDLE;
const N_ROUNDS: usize = 6;
const Z: f64 = 1.5;
/// Deltas at which the claims are compared with outputs. At 1e-5 itself no number of outputs that
/// is feasible in CI would show anything.
const DELTAS: [f64; 3] = [0.01, 0.05, 0.2];

/// How a run samples its clients, and which neighbour a canary represents.
#[derive(Clone, Copy)]
struct Scheme {
    params: PpSgdParams,
    adjacency: Adjacency,
    /// Probability of taking part in a round.
    q: f64,
}

/// Canaries are added or removed: half of them are present.
fn poisson(q: f64) -> Scheme {
    let n = (N_ORDINARY + N_CANARIES / 2) as f64;
    let sampling = PoissonSampling::new(q).unwrap().into();
    Scheme {
        params: PpSgdParams::new(1.0, 0.01, 1.0, N_ROUNDS, n).sampled(sampling),
        adjacency: Adjacency::AddRemoveUser,
        q,
    }
}

/// Canaries are replaced by their opposites: the same number of users on both sides.
fn fixed(size: usize) -> Scheme {
    let n = N_ORDINARY + N_CANARIES;
    let sampling: ClientSampling = FixedSizeSampling::new(size, n).unwrap().into();
    Scheme {
        params: PpSgdParams::new(1.0, 0.01, 1.0, N_ROUNDS, n as f64).sampled(sampling),
        adjacency: Adjacency::ReplaceUser,
        q: size as f64 / n as f64,
    }
}

/// Scores of canaries on the two sides, and the noise on coordinates without users.
struct Seen {
    scores: [Vec<f64>; 2],
    idle: Vec<i64>,
    sigma: u64,
}

/// Runs in which canary `c` is on the second side in every other run, beginning with run `c % 2`.
fn seen(scheme: Scheme, n_runs: usize) -> Seen {
    let trainer = audited(scheme.params, DIM, plan_of(scheme, DELTAS[0]));
    let side = |canary: usize, run: usize| (canary + run) % 2;
    let mut seen = Seen {
        scores: [Vec::new(), Vec::new()],
        idle: Vec::new(),
        sigma: 1,
    };
    for run in 0..n_runs {
        let common = (0..N_ORDINARY).map(|user| ordinary(DIM, user));
        let canaries = (0..N_CANARIES).filter_map(|canary| {
            let label = match (side(canary, run), scheme.adjacency) {
                (1, _) => FAR,
                (_, Adjacency::ReplaceUser) => -FAR,
                _ => return None,
            };
            Some(alone(DIM, COMMON + canary, label))
        });
        let data = built(DIM, common.chain(canaries));
        let noise = &mut NoiseSource::operating_system();
        let rounds = run_once(&trainer, &data, noise).rounds;
        for canary in 0..N_CANARIES {
            let steps = rounds.iter().map(|round| {
                // the gradient points away from the label
                let y = round.view.integers[COMMON + canary] as f64 + 0.5;
                step_score(scheme, -y / round.view.layout.sigma() as f64)
            });
            seen.scores[side(canary, run)].push(steps.sum());
        }
        for round in &rounds {
            seen.idle
                .extend(&round.view.integers[COMMON + N_CANARIES..]);
            seen.sigma = round.view.layout.sigma();
        }
    }
    seen
}

/// Log-likelihood ratio of one round's coordinate between the two sides, at the claimed noise: the
/// most powerful score.
fn step_score(scheme: Scheme, x: f64) -> f64 {
    let drawn = |mu: f64| 1.0 - scheme.q + scheme.q * (mu * x - 0.5 * mu * mu).exp();
    match scheme.adjacency {
        Adjacency::ReplaceUser => (drawn(1.0 / Z) / drawn(-1.0 / Z)).ln(),
        _ => drawn(1.0 / Z).ln(),
    }
}

fn plan_of(scheme: Scheme, delta: f64) -> Plan {
    plan(scheme.params, DIM, Z, delta, scheme.adjacency)
}

/// Compares the claims of `claimed` at noise `Z` with the results of the runs.
fn audits(name: &str, claimed: Scheme, seen: &Seen) -> Vec<EpsilonAudit> {
    // the score of a run ranges from about -8 to 8
    let thresholds: Vec<f64> = (-20..=20).map(|k| 0.4 * f64::from(k)).collect();
    let [first, second] = &seen.scores;
    let audit = |&delta: &f64| {
        let claim: ApproxDp = plan_of(claimed, delta).guarantee();
        let confidence = 1.0 - 1e-9;
        audit_epsilon(name, claim, first, second, &thresholds, confidence).unwrap()
    };
    DELTAS.iter().map(audit).collect()
}

/// Compares the noise in coordinates without users with what was charged.
fn idle_noise_holds(seen: Seen) -> bool {
    let view = dp_audit::View {
        label: "idle coordinates".to_owned(),
        layout: dp_audit::Layout::Vector { sigma: seen.sigma },
        noise_multiplier: Z,
        exact: vec![0; seen.idle.len()],
        integers: seen.idle,
        canaries: Vec::new(),
    };
    audit_release(&view, LEVEL).unwrap().verdict.holds()
}

/// 6 runs of 1,000 canaries: 3,000 outputs on each side, and 10,800 draws of noise.
#[test]
fn sampled_runs_stay_within_their_claim() {
    for (name, scheme) in [("Poisson", poisson(0.4)), ("fixed size", fixed(408))] {
        let seen = seen(scheme, 6);
        for audit in audits(name, scheme, &seen) {
            eprintln!("{audit}, at {:.1}", audit.threshold);
            assert!(!audit.verdict.is_violated(), "{audit}");
        }
        assert!(idle_noise_holds(seen), "{name}");
    }
}

/// Ten times as many: 30,000 outputs on each side.
#[test]
#[ignore = "long form: 120 training runs"]
fn long_sampled_runs_stay_within_their_claim() {
    for (name, scheme) in [("Poisson", poisson(0.4)), ("fixed size", fixed(408))] {
        let seen = seen(scheme, 60);
        for audit in audits(name, scheme, &seen) {
            eprintln!("{audit}, at {:.1}", audit.threshold);
            assert!(!audit.verdict.is_violated(), "{audit}");
        }
        assert!(idle_noise_holds(seen), "{name}");
    }
}

/// Runs that violate their claim: all users take part although a sample is accounted for, and noise
/// too small by sqrt 2.
#[test]
fn sampling_that_is_not_done_and_too_little_noise_are_found() {
    for (name, scheme, all) in [
        ("Poisson", poisson(0.4), poisson(1.0)),
        ("fixed size", fixed(408), fixed(N_ORDINARY + N_CANARIES)),
    ] {
        let not_sampled = seen(all, 6);
        let audits = audits(name, scheme, &not_sampled);
        assert!(
            audits.iter().any(|audit| audit.verdict.is_violated()),
            "{name}"
        );
        let mut short = not_sampled;
        short.idle.iter_mut().for_each(|y| *y = *y / 10 * 7);
        assert!(!idle_noise_holds(short), "{name}");
    }
}
