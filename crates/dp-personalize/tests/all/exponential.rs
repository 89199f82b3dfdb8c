//! The exponential mechanism on toy problems that are small enough to compute every probability.

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp, UserSamples, UserSamplesBuilder};
use dp_data::SharedSubspace;
use dp_mechanism::{Error as KernelError, NoiseSource};
use dp_personalize::{
    Candidates, Error, ExponentialSelection, ExponentialSelectionParams, Provenance, SelectionLoss,
    Subspace, Trainer,
};
use rand::SeedableRng;

const ADJACENCIES: [Adjacency; 2] = [Adjacency::AddRemoveUser, Adjacency::ReplaceUser];
const HUBER: SelectionLoss = SelectionLoss::Huber {
    slope: 1.0,
    feature_clip: 2.0,
    model_bound: 1.0,
};

/// Kinds of users in two dimensions: along one axis, along the other, in between.
const KINDS: [[f32; 2]; 3] = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]];

fn samples(counts: [usize; 3]) -> UserSamples {
    let mut builder = UserSamplesBuilder::new(2, 2).unwrap();
    let kinds = counts
        .iter()
        .zip(KINDS)
        .flat_map(|(&n, kind)| std::iter::repeat_n(kind, n));
    for (user, [a, b]) in (0..).zip(kinds) {
        // the least-squares solution of smallest norm points along the kind's direction
        builder.push(user, &[a, b], 8.0).unwrap();
        builder.push(user, &[b, -a], 0.0).unwrap();
    }
    builder.build().0
}

fn lines(n: u8) -> Candidates {
    let line = |i: u8| {
        let angle = std::f64::consts::PI * f64::from(i) / f64::from(n);
        Subspace::spanned_by(2, 1, &[angle.cos(), angle.sin()], Provenance::NonPrivate).unwrap()
    };
    Candidates::new((0..n).map(line).collect()).unwrap()
}

/// Gain of one user by the definition: the explained share of labels 8 and 0 on rows x and its
/// normal.
fn explained([a, b]: [f32; 2], line: &Subspace) -> f64 {
    let (u, length) = (line.basis(), f64::from(a * a + b * b).sqrt());
    ((f64::from(a) * u[0] + f64::from(b) * u[1]) / length).powi(2)
}

fn probabilities(counts: [usize; 3], net: &Candidates, rate: f64) -> Vec<f64> {
    let score = |line: &Subspace| -> f64 {
        counts
            .iter()
            .zip(KINDS)
            .map(|(&n, kind)| n as f64 * explained(kind, line))
            .sum()
    };
    let weights: Vec<f64> = net
        .subspaces()
        .iter()
        .map(|s| (rate * score(s)).exp())
        .collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

fn selection(epsilon: f64, loss: SelectionLoss, net: &Candidates) -> ExponentialSelection {
    let params = ExponentialSelectionParams { epsilon, loss };
    params.check(net.clone()).unwrap()
}

fn plan(selection: &ExponentialSelection, adjacency: Adjacency) -> Plan {
    let dim = selection.candidates().subspaces()[0].dim();
    let target = ApproxDp::target(selection.params().epsilon, 1e-6).unwrap();
    selection.plan(dim, target, adjacency).unwrap()
}

fn pay(plan: &Plan) -> Vec<Spend> {
    let budget = Budget::schedule(plan.target(), plan.adjacency()).unwrap();
    Ledger::in_memory("toy", budget)
        .unwrap()
        .reserve(plan)
        .unwrap()
}

fn select(
    selection: &ExponentialSelection,
    data: &UserSamples,
    adjacency: Adjacency,
    noise: &mut NoiseSource,
) -> Subspace {
    let plan = plan(selection, adjacency);
    selection.fit(data, &plan, pay(&plan), noise).unwrap().model
}

/// Draws follow `exp(epsilon score / R)` under add/remove and half the rate under replacement,
/// which determines both exponents: 4,000 draws each, seven standard deviations for each of four
/// candidates, false-alarm rate 2e-11.
#[test]
fn draws_follow_the_corrected_exponents() {
    let (net, counts, epsilon, n) = (lines(4), [3, 1, 0], 1.5, 4_000.0);
    let data = samples(counts);
    let mut noise = NoiseSource::insecure_seeded(3);
    let explained = selection(epsilon, SelectionLoss::Explained, &net);
    for (adjacency, rate) in ADJACENCIES.into_iter().zip([epsilon, epsilon / 2.0]) {
        let mut seen = [0.0; 4];
        for _ in 0..4_000 {
            let found = select(&explained, &data, adjacency, &mut noise);
            let is = |s: &Subspace| s.basis() == found.basis();
            seen[net.subspaces().iter().position(is).unwrap()] += 1.0;
        }
        for (p, seen) in probabilities(counts, &net, rate).into_iter().zip(seen) {
            let sd = (n * p * (1.0 - p)).sqrt();
            assert!(
                (seen - n * p).abs() < 7.0 * sd,
                "{adjacency}: {seen} of {}",
                n * p
            );
        }
    }
}

/// All pairs of neighbours among data sets of up to 12 users: no probability changes by more than
/// `e^epsilon`, and some change by nearly that much.
#[test]
fn the_worst_ratio_is_at_most_epsilon_and_not_far_below() {
    let (net, epsilon) = (lines(24), 1.0);
    let worst = |a: &[f64], b: &[f64]| {
        let ratios = a.iter().zip(b).map(|(a, b)| (a / b).ln().abs());
        ratios.fold(0.0, f64::max)
    };
    for (adjacency, rate) in ADJACENCIES.into_iter().zip([epsilon, epsilon / 2.0]) {
        let mut largest = 0.0_f64;
        for counts in (0..13 * 13 * 13).map(|i| [i % 13, i / 13 % 13, i / 169]) {
            if counts.iter().sum::<usize>() > 12 {
                continue;
            }
            let here = probabilities(counts, &net, rate);
            for kind in 0..3 {
                let mut other = counts;
                other[kind] += 1;
                if !adjacency.is_replace() {
                    largest = largest.max(worst(&here, &probabilities(other, &net, rate)));
                    continue;
                }
                for gone in (0..3).filter(|&gone| counts[gone] > 0) {
                    let mut replaced = other;
                    replaced[gone] -= 1;
                    largest = largest.max(worst(&here, &probabilities(replaced, &net, rate)));
                }
            }
        }
        assert!(
            largest <= epsilon && largest >= 0.8 * epsilon,
            "{adjacency}: {largest}"
        );
    }
}

#[test]
fn the_true_line_is_found_and_bad_users_do_no_harm() {
    let toy = SharedSubspace {
        n_users: 500,
        dim: 3,
        rank: 1,
        ..SharedSubspace::section_6()
    };
    let data = toy
        .generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(2))
        .unwrap();
    let truth = Subspace::spanned_by(3, 1, &data.basis, Provenance::NonPrivate).unwrap();
    let mut builder = UserSamplesBuilder::new(3, 10).unwrap();
    for (user, rows) in (0..).zip(data.samples.users()) {
        for (x, y) in rows.iter() {
            builder.push(user, x, y).unwrap();
        }
    }
    for user in 500..510 {
        builder
            .push(user, &[f32::MAX, 1.0, f32::MIN_POSITIVE], f32::MAX)
            .unwrap();
        builder.push(user, &[f32::NAN, 1.0, 0.0], 1.0).unwrap();
    }
    let samples = builder.build().0;
    let net = Candidates::net(3, 1, 8).unwrap();
    let mut noise = NoiseSource::insecure_seeded(4);
    for (loss, widest) in [(SelectionLoss::Explained, 0.3), (HUBER, 0.5)] {
        for adjacency in ADJACENCIES {
            let found = select(&selection(8.0, loss, &net), &samples, adjacency, &mut noise);
            let distance = found.frobenius_distance(&truth).unwrap();
            assert!(distance < widest, "{loss:?} {adjacency}: {distance}");
        }
    }
}

#[test]
fn settings_and_spends_are_checked() {
    let huber = |slope, feature_clip, model_bound| SelectionLoss::Huber {
        slope,
        feature_clip,
        model_bound,
    };
    for (epsilon, loss) in [
        (0.0, SelectionLoss::Explained),
        (f64::NAN, SelectionLoss::Explained),
        (100.0, SelectionLoss::Explained),
        (1.0, huber(0.0, 1.0, 1.0)),
        (1.0, huber(1.0, f64::INFINITY, 1.0)),
        (1.0, huber(1.0, 1.0, -1.0)),
        (1.0, huber(1e200, 1e200, 1.0)),
    ] {
        let bad = ExponentialSelectionParams { epsilon, loss };
        assert!(bad.check(lines(3)).is_err(), "{epsilon} {loss:?}");
    }
    let (net, wide) = (lines(3), Candidates::net(3, 1, 2).unwrap());
    let (one, two) = (selection(1.0, HUBER, &net), selection(2.0, HUBER, &net));
    let adjacency = ADJACENCIES[0];
    let (cheap, dear) = (plan(&one, adjacency), plan(&two, adjacency));
    let (data, mut noise) = (samples([1, 1, 0]), NoiseSource::operating_system());
    let fitted = one.fit(&data, &cheap, pay(&cheap), &mut noise).unwrap();
    assert!(fitted.certificate.verify().unwrap().is_private());
    assert!(fitted.model.provenance() == Provenance::Private);
    for (fit, plan) in [(&two, &cheap), (&one, &dear)] {
        let refused = fit.fit(&data, plan, pay(plan), &mut noise);
        assert!(
            matches!(refused, Err(Error::Mechanism(KernelError::Plan { .. }))),
            "a plan for one epsilon is none for another"
        );
    }
    let refused = two.fit(&data, &dear, pay(&cheap), &mut noise);
    assert!(matches!(
        refused,
        Err(Error::Mechanism(KernelError::Spends { .. }))
    ));
    let wide = selection(1.0, HUBER, &wide);
    assert!(matches!(
        wide.fit(&data, &cheap, pay(&cheap), &mut noise),
        Err(Error::Shape(_))
    ));
    let less = ApproxDp::target(0.5, 1e-6).unwrap();
    assert!(matches!(
        one.plan(2, less, adjacency),
        Err(Error::Accounting(_))
    ));
}
