//! Standard errors of what a subspace says of features.

use dp_data::SharedSubspace;
use dp_personalize::{
    Adjacency, AltMinParams, ApproxDp, Budget, Initialisation, Ledger, NoiseSource, Provenance,
    ResidualAltMinParams, Subspace, SymmetricNoise, Trainer,
};
use rand::SeedableRng;

const DIM: usize = 8;
const RUNS: u64 = 30;

fn run(users: &dp_data::SubspaceData, epsilon: f64, seed: u64) -> Subspace {
    let target = ApproxDp::target(epsilon, 1e-6).unwrap();
    let adjacency = Adjacency::AddRemoveUser;
    let fit = ResidualAltMinParams::new(2).check().unwrap();
    let plan = fit.plan(DIM, target, adjacency).unwrap();
    let ledger = Ledger::in_memory("made data", Budget::new(target, adjacency).unwrap());
    let spends = ledger.unwrap().reserve(&plan).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(seed);
    fit.fit(&users.samples, &plan, spends, noise).unwrap().model
}

/// 30 runs on the same 3,000 users at epsilon 1 and 4: the errors of the shares, in standard errors, around the shares of a run
/// at epsilon 30. Their mean square was 1.39 and 1.03, and 90 % and 95 % of them were below 1.96. The noise is
/// seeded; with other seeds the mean of 240 squares, correlated within a run, has a standard error of about .14.
#[test]
#[ignore = "heavy: part of CI"]
fn heavy_standard_errors_of_shares_cover_the_noise() {
    let set_up = SharedSubspace {
        n_users: 3000,
        dim: DIM,
        ..SharedSubspace::section_6()
    };
    let users = set_up
        .generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(3))
        .unwrap();
    let exact: Vec<f64> = run(&users, 30.0, 0).shares().collect();
    for epsilon in [1.0, 4.0] {
        let (mut squares, mut inside) = (0.0, 0.0);
        for seed in 1..=RUNS {
            let found = run(&users, epsilon, seed);
            let errors = found.share_errors().unwrap();
            for ((share, exact), error) in found.shares().zip(&exact).zip(errors) {
                let z = (share - exact) / error;
                squares += z * z;
                inside += f64::from(u8::from(z.abs() < 1.96));
            }
        }
        let n = (RUNS * DIM as u64) as f64;
        let (square, covered) = (squares / n, inside / n);
        assert!((0.6..1.6).contains(&square), "epsilon {epsilon}: {square}");
        assert!(covered > 0.88, "epsilon {epsilon}: {covered}");
    }
}

/// Shares around their means over all runs, in standard errors: the mean square, and how many are
/// below 1.96.
pub(crate) fn scatter(runs: &[Subspace]) -> (f64, f64) {
    let n = runs.len() as f64;
    let mut means = vec![0.0; runs[0].dim()];
    for run in runs {
        let each = means.iter_mut().zip(run.shares());
        each.for_each(|(mean, share)| *mean += share / n);
    }
    let (mut squares, mut inside, mut count) = (0.0, 0.0, 0.0);
    for run in runs {
        let errors = run.share_errors().unwrap();
        for ((share, mean), error) in run.shares().zip(&means).zip(errors) {
            let z = (share - mean) / error;
            squares += z * z;
            inside += f64::from(u8::from(z.abs() < 1.96));
            count += 1.0;
        }
    }
    (squares / count, inside / count)
}

/// 30 runs of one step of Algorithm 2 from a given start, so that its noise is all there is. The mean of 240 squares, correlated
/// within a run, has a standard error of about .14: seeds by which this fails occur once in 30. This noise gave .81 and .81.
#[test]
#[ignore = "heavy: part of CI"]
fn heavy_standard_errors_of_a_step_of_algorithm_2_are_those_of_its_noise() {
    let set_up = SharedSubspace {
        n_users: 20_000,
        dim: DIM,
        ..SharedSubspace::section_6()
    };
    let users = set_up
        .generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(3))
        .unwrap();
    let mut start = users.basis.clone();
    (0..start.len()).for_each(|at| start[at] += 0.05 * (at as f64).sin());
    let start = Subspace::spanned_by(DIM, 2, &start, Provenance::NonPrivate).unwrap();
    for symmetric in [SymmetricNoise::Copied, SymmetricNoise::Isometric] {
        let mut params = AltMinParams {
            init: Initialisation::Given(start.clone()),
            ..AltMinParams::section_6(2)
        };
        if symmetric == SymmetricNoise::Isometric {
            params = params.isometric();
        }
        let fit = params.check().unwrap();
        let target = ApproxDp::target(20.0, 1e-6).unwrap();
        let adjacency = Adjacency::AddRemoveUser;
        let plan = fit.plan(DIM, target, adjacency).unwrap();
        let runs = (0..RUNS).map(|seed| {
            let ledger = Ledger::in_memory("made data", Budget::new(target, adjacency).unwrap());
            let spends = ledger.unwrap().reserve(&plan).unwrap();
            let noise = &mut NoiseSource::insecure_seeded(seed);
            fit.fit(&users.samples, &plan, spends, noise).unwrap().model
        });
        let (square, covered) = scatter(&runs.collect::<Vec<_>>());
        assert!((0.7..1.3).contains(&square), "{symmetric:?}: {square}");
        assert!(covered > 0.92, "{symmetric:?}: {covered}");
    }
}
