//! One round of a server of personalised private SGD: updates per second, and the memory that they
//! take.
//!
//! `fedsgd_server DIM CLIENTS`: messages are created one by one and received as they arrive.
//! Processor seconds from the opening of the round to the released model.

use dp_accounting::{Budget, Ledger};
use dp_benches::{peak_megabytes, processor_seconds};
use dp_core::Adjacency;
use dp_fedsgd::{PpSgdParams, Run, Server, UpdateMessage};
use dp_mechanism::{NoiseSource, PoissonSampling};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let dim = numbers.next().unwrap_or(Ok(100))?;
    let n_clients = numbers.next().unwrap_or(Ok(10_000))?;
    let all = PoissonSampling::new(1.0)?.into();
    let fit = PpSgdParams::new(1.0, 0.7, 10.0, 1, n_clients as f64).sampled(all);
    let (fit, adjacency) = (fit.check()?, Adjacency::AddRemoveUser);
    let plan = fit.plan_with_noise(dim, 10.0, 1e-4, adjacency)?;
    let mut ledger = Ledger::in_memory("benchmark", Budget::schedule(plan.target(), adjacency)?)?;
    let noise = &mut NoiseSource::operating_system();
    let run = Run::new(&plan, ledger.reserve(&plan)?, noise)?;
    let mut server = Server::new(fit, dim, run)?;
    let start = processor_seconds();
    let round = server.open_round(n_clients)?.ok_or("no round")?;
    let run = round.message().run.clone();
    let updates = (0..n_clients).map(|client| UpdateMessage {
        run: run.clone(),
        round: 1,
        client,
        integers: (0..dim as i64).collect(),
    });
    let mut n_rejected = 0;
    round.close(updates, &mut |_| n_rejected += 1)?;
    let seconds = processor_seconds() - start;
    println!(
        "{dim} coordinates, {n_clients} updates ({n_rejected} rejected): {:.1} ms, {:.0} updates per second, peak {:.1} MB",
        1e3 * seconds,
        n_clients as f64 / seconds,
        peak_megabytes()
    );
    Ok(())
}
