//! How much should users learn together, and how much alone?
//!
//! `cargo run --release -p dp-examples --example how_much_to_share -- [--seeds N] [--seed-base S] [--users N]
//! [--noise Z]`
//!
//! The synthetic set-up of Bietti et al. 2022, figure 1a: excess risk of the last iterate against
//! the ratio alpha of global to local steps, for three levels of noise, after 100 and 1000 rounds.
//! The step size of each cell is the best of a grid on separate data sets (three for 100 rounds,
//! one for 1000); rows are means over `N` other seeds, `3 N` for 100 rounds. Noise is seeded, so
//! these are measurements, not releases; noise multiplier 1 is simulated in floating point, because
//! no ledger pays for 1000 rounds of it (epsilon above 600). `alpha` 0 has no noise: it is computed
//! once.

use dp_accounting::{Budget, Ledger};
use dp_core::Adjacency;
use dp_data::{OffsetData, PersonalOffsets};
use dp_fedsgd::{AdditiveLoss, AdditiveModel, PpSgdModel, PpSgdParams, StreamedBatches, Trainer};
use dp_mechanism::NoiseSource;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const ALPHAS: [f64; 7] = [0.0, 0.1, 0.3, 1.0, 3.0, 10.0, f64::INFINITY];
const NOISE_MULTIPLIERS: [f64; 3] = [0.0, 1.0, 10.0];
const STEPS: [f64; 8] = [0.1, 0.2, 0.4, 0.7, 0.85, 1.0, 1.2, 1.4];
const CLIP_NORM: f64 = 10.0;
const BATCH_SIZE: usize = 10;
const DELTA: f64 = 1e-4;

/// One cell of the table.
#[derive(Clone, Copy)]
struct Cell {
    alpha: f64,
    noise_multiplier: f64,
    n_rounds: usize,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |flag: &str, default: usize| -> Result<usize> {
        match args.iter().position(|a| a == flag) {
            Some(at) => Ok(args.get(at + 1).ok_or("a flag needs a value")?.parse()?),
            None => Ok(default),
        }
    };
    let (n_seeds, seed_base) = (
        number("--seeds", 3)? as u64,
        number("--seed-base", 0)? as u64,
    );
    let set_up = PersonalOffsets {
        n_users: number("--users", 1000)?,
        ..PersonalOffsets::figure_1a()
    };
    for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
        let fit = params(&set_up, 1.0, 1.0, 1000).check()?;
        let plan = fit.plan_with_noise(set_up.dim, 10.0, DELTA, adjacency)?;
        let epsilon = plan.guarantee().epsilon;
        println!(
            "epsilon of 1000 rounds at noise multiplier 10, delta {DELTA}, {}: {epsilon:.2}",
            adjacency.name()
        );
    }
    println!(
        "{:>6} {:>7} {:>6} {:>6} {:>11} {:>11}",
        "noise", "rounds", "alpha", "step", "mean", "se"
    );
    let only = match args.iter().position(|a| a == "--noise") {
        Some(at) => Some(
            args.get(at + 1)
                .ok_or("a flag needs a value")?
                .parse::<f64>()?,
        ),
        None => None,
    };
    let wanted = |z: &f64| only.is_none_or(|only| (only - z).abs() < 1e-9);
    for noise_multiplier in NOISE_MULTIPLIERS.into_iter().filter(wanted) {
        for n_rounds in [100, 1000] {
            for alpha in ALPHAS {
                if alpha > 0.0 || noise_multiplier <= 0.0 {
                    let cell = Cell {
                        alpha,
                        noise_multiplier,
                        n_rounds,
                    };
                    print_cell(&set_up, cell, n_seeds, seed_base)?;
                }
            }
        }
    }
    Ok(())
}

fn print_cell(set_up: &PersonalOffsets, cell: Cell, n_seeds: u64, seed_base: u64) -> Result<()> {
    let (n_tuning, n_seeds) = if cell.n_rounds > 100 {
        (1, n_seeds)
    } else {
        (3, 3 * n_seeds)
    };
    let step = best_step(set_up, cell, seed_base..seed_base + n_tuning)?;
    let seeds = seed_base + 100..seed_base + 100 + n_seeds;
    let risks = seeds.map(|seed| risk(set_up, &generate(set_up, seed)?, cell, step, seed));
    let (mean, se) = mean_and_error(&risks.collect::<Result<Vec<f64>>>()?);
    let Cell {
        alpha,
        noise_multiplier,
        n_rounds,
    } = cell;
    println!("{noise_multiplier:>6} {n_rounds:>7} {alpha:>6} {step:>6} {mean:>11.3e} {se:>11.1e}");
    Ok(())
}

fn generate(set_up: &PersonalOffsets, seed: u64) -> Result<OffsetData> {
    Ok(set_up.generate(&mut ChaCha20Rng::seed_from_u64(seed))?)
}

fn params(set_up: &PersonalOffsets, alpha: f64, step: f64, n_rounds: usize) -> PpSgdParams {
    PpSgdParams::new(alpha, step, CLIP_NORM, n_rounds, set_up.n_users as f64)
}

/// The step size with the smallest mean risk on data sets that no row of the table uses.
fn best_step(set_up: &PersonalOffsets, cell: Cell, seeds: std::ops::Range<u64>) -> Result<f64> {
    let mut best = (f64::INFINITY, STEPS[0]);
    for step in STEPS {
        let mut sum = 0.0;
        for seed in seeds.clone() {
            sum += risk(set_up, &generate(set_up, seed)?, cell, step, seed)?;
        }
        if sum < best.0 {
            best = (sum, step);
        }
    }
    Ok(best.1)
}

fn risk(
    set_up: &PersonalOffsets,
    data: &OffsetData,
    cell: Cell,
    step: f64,
    seed: u64,
) -> Result<f64> {
    let model = AdditiveModel::new(AdditiveLoss::Squared, set_up.dim)?;
    let batches = StreamedBatches::new(&data.table, set_up.dim, |user, step, out| {
        data.rows(user, step, BATCH_SIZE, out.cells_mut());
    });
    let fit = params(set_up, cell.alpha, step, cell.n_rounds).check()?;
    let z = cell.noise_multiplier;
    let made = if z < 10.0 {
        fit.simulate(&model, &batches, z, &mut ChaCha20Rng::seed_from_u64(seed))?
    } else {
        let plan = fit.plan_with_noise(set_up.dim, z, DELTA, Adjacency::AddRemoveUser)?;
        let budget = Budget::new(plan.target(), Adjacency::AddRemoveUser)?;
        let spends = Ledger::in_memory("measurement", budget)?.reserve(&plan)?;
        let noise = &mut NoiseSource::insecure_seeded(seed);
        fit.with(&model).fit(&batches, &plan, spends, noise)?.model
    };
    Ok(excess_risk(data, &made))
}

fn excess_risk(data: &OffsetData, model: &PpSgdModel) -> f64 {
    let own = model.local.expose();
    data.excess_risk(|user, theta| {
        let both = model.shared.last().iter().zip(own.last(user));
        theta
            .iter_mut()
            .zip(both)
            .for_each(|(t, (w, o))| *t = w + o);
    })
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}
