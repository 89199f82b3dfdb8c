//! Our side of `benches/peers/personalize.py`: writes a generated data set and times the steps on
//! it.
//!
//! `personalize_peer FOLDER USERS RUNS` writes `x` (f32, users x 10 x 50), `y` (f32) and `start`
//! (f64, 50 x 2) to FOLDER, little endian, and prints one JSON object with the seconds, each the
//! minimum of RUNS runs. With FOLDER `-` it writes nothing.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_benches::Seconds;
use dp_core::{Adjacency, ApproxDp, UserSamples};
use dp_data::SharedSubspace;
use dp_mechanism::NoiseSource;
use dp_personalize::{
    AltMinParams, Initialisation, NonPrivateAltMin, ResidualAltMinParams, Subspace, Trainer,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

type Failure = Box<dyn std::error::Error>;

const RANK: usize = 2;

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("the folder to write to is missing")?;
    let n_users: usize = args.next().map_or(Ok(50_000), |text| text.parse())?;
    let n_runs: usize = args.next().map_or(Ok(5), |text| text.parse())?;
    let set_up = SharedSubspace {
        n_users,
        ..SharedSubspace::section_6()
    };
    let samples = set_up.generate(&mut ChaCha20Rng::seed_from_u64(1))?.samples;
    let few = SharedSubspace {
        n_users: 2_000,
        ..set_up
    };
    let few = few.generate(&mut ChaCha20Rng::seed_from_u64(1))?.samples;
    let start = NonPrivateAltMin {
        rank: RANK,
        n_rounds: 0,
    }
    .fit(&few)?;
    if folder != "-" {
        write(Path::new(&folder), &samples, &start)?;
    }
    let paper = AltMinParams::section_6(RANK);
    let step = AltMinParams {
        init: Initialisation::Given(start),
        ..paper.clone()
    };
    let step = alt_min_seconds(step, &samples, n_runs)?;
    let paper = alt_min_seconds(paper, &samples, n_runs)?;
    let best = best_seconds(&samples, n_runs)?;
    let threads = rayon::current_num_threads();
    println!(
        "{{\"step\": {step}, \"paper\": {paper}, \"best\": {best}, \"threads\": {threads}, \"users\": {n_users}}}"
    );
    Ok(())
}

fn target() -> Result<(ApproxDp, Adjacency), Failure> {
    Ok((ApproxDp::target(1.0, 1e-6)?, Adjacency::AddRemoveUser))
}

fn pay(plan: &Plan) -> Result<Vec<Spend>, Failure> {
    let budget = Budget::new(plan.target(), plan.adjacency())?;
    Ok(Ledger::in_memory("made data", budget)?.reserve(plan)?)
}

fn alt_min_seconds(
    settings: AltMinParams,
    samples: &UserSamples,
    n_runs: usize,
) -> Result<Seconds, Failure> {
    let (target, adjacency) = target()?;
    let fit = settings.check()?;
    let plan = fit.plan(samples.n_features(), target, adjacency)?;
    least_seconds(n_runs, &plan, |spends| {
        let noise = &mut NoiseSource::operating_system();
        fit.fit(samples, &plan, spends, noise)?;
        Ok(())
    })
}

fn best_seconds(samples: &UserSamples, n_runs: usize) -> Result<Seconds, Failure> {
    let (target, adjacency) = target()?;
    let fit = ResidualAltMinParams::new(RANK).check()?;
    let plan = fit.plan(samples.n_features(), target, adjacency)?;
    least_seconds(n_runs, &plan, |spends| {
        let noise = &mut NoiseSource::operating_system();
        fit.fit(samples, &plan, spends, noise)?;
        Ok(())
    })
}

fn least_seconds(
    n_runs: usize,
    plan: &Plan,
    run: impl Fn(Vec<Spend>) -> Result<(), Failure>,
) -> Result<Seconds, Failure> {
    let mut least: Option<Seconds> = None;
    for _ in 0..n_runs {
        let spends = pay(plan)?;
        let (done, seconds) = Seconds::of(|| run(spends));
        done?;
        least = Some(least.map_or(seconds, |least| least.least(seconds)));
    }
    least.ok_or_else(|| "no run".into())
}

fn write(folder: &Path, samples: &UserSamples, start: &Subspace) -> std::io::Result<()> {
    let file = |name: &str| File::create(folder.join(name)).map(BufWriter::new);
    let (mut xs, mut ys, mut basis) = (file("x")?, file("y")?, file("start")?);
    for (x, y) in samples.users().flat_map(|rows| rows.iter()) {
        for x in x {
            xs.write_all(&x.to_le_bytes())?;
        }
        ys.write_all(&y.to_le_bytes())?;
    }
    for u in start.basis() {
        basis.write_all(&u.to_le_bytes())?;
    }
    [xs, ys, basis].iter_mut().try_for_each(Write::flush)
}
