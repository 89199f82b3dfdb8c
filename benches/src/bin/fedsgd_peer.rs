//! Our side of `benches/peers/fedsgd.py`: personalised private SGD on the synthetic set-up of Bietti et al. 2022.
//!
//! `fedsgd_peer ROUNDS` prints one JSON object with the seconds of two complete runs, including
//! plan, ledger and certificate: one on rows drawn afresh in every round, one on 20 minibatches per
//! user held in memory.

use dp_accounting::{Budget, Ledger};
use dp_benches::Seconds;
use dp_core::{Adjacency, UserSamplesBuilder};
use dp_data::{OffsetData, PersonalOffsets};
use dp_fedsgd::{
    AdditiveLoss, AdditiveModel, HeldBatches, PpSgdModel, PpSgdParams, StreamedBatches, Trainer,
    UserBatches,
};
use dp_mechanism::NoiseSource;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const ROWS: usize = 10;
const HELD: usize = 20;

fn main() -> Result<()> {
    let n_rounds: usize = std::env::args()
        .nth(1)
        .map_or(Ok(1000), |text| text.parse())?;
    let set_up = PersonalOffsets::figure_1a();
    let data = set_up.generate(&mut ChaCha20Rng::seed_from_u64(1))?;
    let fresh = StreamedBatches::new(&data.table, set_up.dim, |user, step, out| {
        data.rows(user, step, ROWS, out.cells_mut());
    });
    let fresh = run(&data, &set_up, &fresh, n_rounds)?;
    let mut held = UserSamplesBuilder::new(set_up.dim, HELD * ROWS)?;
    let mut cells = Vec::new();
    for (number, user) in (0..).zip(data.table.expose().users()) {
        data.rows(user, 0, HELD * ROWS, &mut cells);
        for row in cells.chunks_exact(set_up.dim + 1) {
            held.push(number, &row[..set_up.dim], row[set_up.dim])?;
        }
    }
    let held = held.build().0;
    let held = run(&data, &set_up, &HeldBatches::new(&held, ROWS)?, n_rounds)?;
    println!("{{\"fresh\": {fresh}, \"held\": {held}}}");
    Ok(())
}

fn run(
    data: &OffsetData,
    set_up: &PersonalOffsets,
    batches: &impl UserBatches,
    n_rounds: usize,
) -> Result<String> {
    let (model, seconds) = Seconds::of(|| fit(set_up, batches, n_rounds));
    let model = model?;
    let own = model.local.expose();
    let risk = data.excess_risk(|user, theta| {
        let both = model.shared.last().iter().zip(own.last(user));
        theta
            .iter_mut()
            .zip(both)
            .for_each(|(t, (w, o))| *t = w + o);
    });
    Ok(format!("{{\"seconds\": {seconds}, \"risk\": {risk}}}"))
}

fn fit(
    set_up: &PersonalOffsets,
    batches: &impl UserBatches,
    n_rounds: usize,
) -> Result<PpSgdModel> {
    let model = AdditiveModel::new(AdditiveLoss::Squared, set_up.dim)?;
    let fit = PpSgdParams::new(1.0, 0.7, 10.0, n_rounds, set_up.n_users as f64).check()?;
    let plan = fit.plan_with_noise(set_up.dim, 10.0, 1e-4, Adjacency::AddRemoveUser)?;
    let budget = Budget::new(plan.target(), Adjacency::AddRemoveUser)?;
    let spends = Ledger::in_memory("benchmark", budget)?.reserve(&plan)?;
    let noise = &mut NoiseSource::operating_system();
    Ok(fit.with(&model).fit(batches, &plan, spends, noise)?.model)
}
