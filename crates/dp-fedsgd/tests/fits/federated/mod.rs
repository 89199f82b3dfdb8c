//! Server and clients.

mod messages;
mod policy;
mod rounds;

use dp_core::{Adjacency, UserSamples};
use dp_fedsgd::{
    AdditiveModel, Client, HeldBatches, PpSgd, Rejection, RoundMessage, RoundOutcome, Run, Server,
    UpdateMessage,
};
use dp_mechanism::{ClientSampling, NoiseSource, PoissonSampling};

use crate::support::{paid, squared, trusting};

fn poisson(q: f64) -> ClientSampling {
    PoissonSampling::new(q).unwrap().into()
}

fn seeded() -> NoiseSource {
    NoiseSource::insecure_seeded(7)
}

fn clients<'a>(
    model: &'a AdditiveModel,
    rows: &'a HeldBatches<'a>,
    n: usize,
) -> Vec<Client<'a, AdditiveModel, HeldBatches<'a>>> {
    (0..n)
        .map(|user| Client::new(model, rows, user, user, trusting()).unwrap())
        .collect()
}

/// All rounds, with what every client does to its message; the final model.
fn federate(
    fit: PpSgd,
    data: &UserSamples,
    adjacency: Adjacency,
    meddle: &mut dyn FnMut(&RoundMessage, UpdateMessage) -> Vec<UpdateMessage>,
    rejected: &mut dyn FnMut(Rejection),
) -> (Vec<f64>, Vec<RoundOutcome>, Vec<Vec<f64>>) {
    let dim = data.n_features();
    let model = squared(dim);
    let rows = HeldBatches::new(data, 2).unwrap();
    let plan = fit.plan_with_noise(dim, 2.0, 1e-5, adjacency).unwrap();
    let mut noise = seeded();
    let run = Run::new(&plan, paid(&plan), &mut noise).unwrap();
    let mut server = Server::new(fit, dim, run).unwrap();
    let mut everybody = clients(&model, &rows, data.users().len());
    let mut outcomes = Vec::new();
    while let Some(round) = server.open_round(everybody.len()).unwrap() {
        // over the wire and back
        let text = serde_json::to_string(round.message()).unwrap();
        let message: RoundMessage = serde_json::from_str(&text).unwrap();
        assert_eq!(message, *round.message());
        let mut updates = Vec::new();
        for (number, client) in everybody.iter_mut().enumerate() {
            let asked = round.asked().binary_search(&number).is_ok();
            if let Some(update) = client.receive(&message, asked).unwrap().update() {
                updates.extend(meddle(&message, update));
            }
        }
        updates.reverse(); // order does not matter
        outcomes.push(round.close(updates, rejected).unwrap());
    }
    let served = server.finish().unwrap();
    assert!(!served.certificate.verify().unwrap().is_private()); // seeded
    let own = everybody.iter().map(|c| c.local().to_vec()).collect();
    (served.model.last().to_vec(), outcomes, own)
}

fn no_rejection(rejection: Rejection) {
    panic!("{rejection}");
}

/// A whole number below 2^50 that a few roundings have moved.
fn whole(z: f64) -> i128 {
    assert!((z - z.round()).abs() < 0.1, "{z}");
    #[allow(clippy::cast_possible_truncation, reason = "whole numbers below 2^53")]
    let whole = z.round() as i128;
    whole
}
