//! A run that is interrupted and goes on: no noise is used twice.

use std::fs;
use std::path::Path;

use dp_accounting::{Budget, Error, Ledger, Plan};
use dp_audit::audit_independence;
use dp_audit::statistics::normal_upper_tail;
use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private};
use dp_mechanism::NoiseSource;
use dp_multitask::{CheckpointFolder, FactorizationParams, MatrixFactorization};

use crate::support::LEVEL;

const N_ITEMS: usize = 4000;
const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

fn target() -> ApproxDp {
    ApproxDp::target(5.0, 1e-5).unwrap()
}

fn fit() -> MatrixFactorization {
    let mut params = FactorizationParams::adadpals_for_target(target());
    params.dim = Some(1);
    params.n_rounds = 2;
    params.check().unwrap()
}

/// Users who add nothing: what is released is noise.
fn nobody() -> Private<Interactions> {
    let mut builder = InteractionsBuilder::new(N_ITEMS);
    builder.ensure_users(3);
    Private::new(builder.build().0)
}

/// One process that makes up to `n_steps` further steps and is then killed before it pays.
fn go_on(folder: &Path, n_steps: usize) {
    let room = ApproxDp::target(30.0, 1e-5).unwrap();
    let budget = Budget::new(room, ADJACENCY).unwrap();
    let mut ledger = Ledger::open(folder.join("ledger"), "d", budget).unwrap();
    let mut left = n_steps;
    let mut pay = |step: &Plan| {
        if left == 0 {
            return Err(Error::LedgerPoisoned {
                path: "killed".into(),
            });
        }
        left -= 1;
        ledger.reserve(step)
    };
    let plan = fit().plan(N_ITEMS, target(), ADJACENCY).unwrap();
    let folder = CheckpointFolder::open(folder).unwrap();
    let noise = &mut NoiseSource::operating_system();
    let killed =
        fit().fit_with_checkpoints(&nobody(), &plan, &mut pay, noise, &folder, &mut |_| {});
    assert!(killed.is_err());
}

fn numbers(folder: &Path, at: &str) -> Vec<f64> {
    let file = fs::read(folder.join("checkpoint.json")).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&file).unwrap();
    let list = state.pointer(at).unwrap().as_array().unwrap().iter();
    list.map(|v| v.as_f64().unwrap()).collect()
}

/// The released counts in standard deviations.
fn counts(folder: &Path) -> Vec<f64> {
    let file = fs::read(folder.join("checkpoint.json")).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&file).unwrap();
    let stddev = state.pointer("/state/counts/noise_stddev").unwrap();
    let values = numbers(folder, "/state/counts/values");
    values
        .iter()
        .map(|v| v / stddev.as_f64().unwrap())
        .collect()
}

/// A save that was lost: the step is made again from the same state.
#[test]
fn a_step_that_is_made_again_gets_other_noise() {
    let folder = tempfile::tempdir().unwrap();
    let made = || {
        drop(fs::remove_file(folder.path().join("checkpoint.json")));
        go_on(folder.path(), 1);
        counts(folder.path())
    };
    let pair = [("counts".to_owned(), made()), ("again".to_owned(), made())];
    let checks = audit_independence(&pair, LEVEL);
    assert!(checks.iter().all(|c| c.passed()), "{checks:?}");
}

/// The step after the interruption against the one before: given the factors `f` of the round,
/// `sum_i c_i w_i / |w|` with `w_i = |f_i| - mean` is exactly N(0, 1) if the noise `c` of the counts was
/// not used for them.
#[test]
fn steps_before_and_after_an_interruption_share_no_noise() {
    let folder = tempfile::tempdir().unwrap();
    go_on(folder.path(), 1);
    let counts = counts(folder.path());
    go_on(folder.path(), 1);
    let factors = numbers(folder.path(), "/state/rounds/factors");
    let dim = factors.len() / N_ITEMS;
    let sizes: Vec<f64> = factors.chunks(dim).map(|f| f[0].abs()).collect();
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    let weights = sizes.iter().map(|s| s - mean);
    let norm = weights.clone().map(|w| w * w).sum::<f64>().sqrt();
    let score: f64 = weights.zip(&counts).map(|(w, c)| w * c).sum::<f64>() / norm;
    assert!(2.0 * normal_upper_tail(score.abs()) > LEVEL, "{score}");
}
