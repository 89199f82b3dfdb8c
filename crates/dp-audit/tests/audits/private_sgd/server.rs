//! The effect of messages on a server, with equal seeds: exact.

use dp_accounting::{Budget, Ledger};
use dp_core::Adjacency;
use dp_fedsgd::{PpSgdParams, Rejection, Run, Server, UpdateMessage};
use dp_mechanism::{NoiseSource, PoissonSampling};

use super::{DELTA, plan};

const N: usize = 40;

/// The shared parameters after two rounds in which all clients are asked, given the messages of the
/// second, and the rejections.
fn after(sent: impl Fn(usize) -> Option<(u32, Vec<i64>)>) -> (Vec<f64>, Vec<Rejection>) {
    let all = PoissonSampling::new(1.0).unwrap().into();
    let params = PpSgdParams::new(1.0, 1.0, 0.5, 2, N as f64).sampled(all);
    let plan = plan(params, 2, 2.0, DELTA, Adjacency::AddRemoveUser);
    let budget = Budget::schedule(plan.target(), plan.adjacency()).unwrap();
    let spends = Ledger::in_memory("server", budget).unwrap().reserve(&plan);
    let (noise, mut rejected) = (&mut NoiseSource::insecure_seeded(3), Vec::new());
    let run = Run::new(&plan, spends.unwrap(), noise).unwrap();
    let mut server = Server::new(params.check().unwrap(), 2, run).unwrap();
    for round in 1..=2 {
        let open = server.open_round(N).unwrap().unwrap();
        let run = open.message().run.clone();
        let message = |client| {
            let (round, integers) = sent(client).filter(|_| round == 2)?;
            let run = run.clone();
            Some(UpdateMessage {
                run,
                round,
                client,
                integers,
            })
        };
        let updates: Vec<_> = (0..N).filter_map(message).collect();
        open.close(updates, &mut |one| rejected.push(one)).unwrap();
    }
    (server.shared().to_vec(), rejected)
}

/// The noise and the weight of a message are the same whoever else answers: a message changes the
/// model by its integers divided by the public number of users. A message of another round or above
/// the bound changes nothing and is reported.
#[test]
fn a_message_weighs_the_same_whoever_else_answers() {
    let grid = dp_mechanism::Grid::new(2.0, 0.5).unwrap();
    let (bound, step) = (grid.l2_bound().cast_signed(), grid.step());
    let own = |client: usize| vec![bound / (2 + client as i64), -bound / 2];
    let nobody = after(|_| None).0;
    for answering in [1, 7, N] {
        let (shared, rejected) = after(|client| (client < answering).then(|| (2, own(client))));
        assert!(rejected.is_empty());
        for at in 0..2 {
            let sum: i64 = (0..answering).map(|client| own(client)[at]).sum();
            let expected = nobody[at] - sum as f64 * step / N as f64;
            assert!((shared[at] - expected).abs() < 1e-12, "{answering}");
        }
    }
    for (bad, reason) in [
        (
            (1, own(0)),
            Rejection::Round {
                client: 4,
                found: 1,
                expected: 2,
            },
        ),
        ((2, vec![bound, 2]), Rejection::Norm { client: 4 }),
    ] {
        let (shared, rejected) = after(|client| (client == 4).then(|| bad.clone()));
        assert_eq!(rejected, [reason]);
        assert_eq!(shared, nobody);
    }
}
