//! A run that is interrupted and resumed: no noise is used twice.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use dp_accounting::{Budget, Ledger, Plan};
use dp_audit::audit_independence;
use dp_audit::statistics::normal_upper_tail;
use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private};
use dp_mechanism::{
    Error, Fitted, NoiseSource, Observer, Progress, ReleaseEntry, ReleaseList, Run, RunFolder,
    Trainer,
};
use dp_multitask::{FactorModel, FactorizationParams, MatrixFactorization};

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

/// Users who contribute nothing, so that the releases are noise.
fn nobody() -> Private<Interactions> {
    let mut builder = InteractionsBuilder::new(N_ITEMS);
    builder.ensure_users(3);
    Private::new(builder.build().0)
}

fn plan() -> Plan {
    fit().plan(N_ITEMS, target(), ADJACENCY).unwrap()
}

const RUN: &str = "r";

/// Kills a process after this many releases, including replayed ones, and keeps them.
struct Killed {
    left: usize,
    listed: Vec<ReleaseEntry>,
}

impl Observer for Killed {
    fn listed(&mut self, entry: &ReleaseEntry) {
        self.listed.push(entry.clone());
    }

    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        self.left -= 1;
        if self.left == 0 {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// One process that is killed when the run has made `n_steps` of its steps: the numbers of the last
/// step, in standard deviations.
fn go_on(folder: &Path, n_steps: usize) -> Vec<f64> {
    let room = ApproxDp::target(30.0, 1e-5).unwrap();
    let budget = Budget::new(room, ADJACENCY).unwrap();
    let ledgers = &mut [Ledger::open_or_create(folder.join("ledger"), "d", budget).unwrap()];
    let mut killed = Killed {
        left: n_steps,
        listed: Vec::new(),
    };
    let noise = &mut NoiseSource::operating_system();
    let ended =
        RunFolder::new(folder).train(&fit(), &nobody(), &plan(), ledgers, RUN, noise, &mut killed);
    assert!(matches!(
        ended,
        Err(dp_multitask::Error::Mechanism(Error::Cancelled))
    ));
    let last = killed.listed.last().unwrap();
    let sigma = 2.0_f64.powi(last.form().grids[0].log2_sigma.cast_signed());
    let middles = last.integers().iter().map(|&z| z as f64 + 0.5);
    middles.map(|z| z / sigma).collect()
}

/// The model that follows from the list.
fn so_far(folder: &Path) -> Fitted<FactorModel> {
    let plan = plan();
    let list = ReleaseList::read(RunFolder::new(folder).list_path(), RUN, &plan).unwrap();
    let run = Run::replay(&plan, list).unwrap();
    fit().run(&nobody(), run).unwrap()
}

/// A lost entry: the step is repeated from the same list.
#[test]
fn a_step_that_is_made_again_gets_other_noise() {
    let folder = tempfile::tempdir().unwrap();
    let made = || {
        drop(fs::remove_file(RunFolder::new(folder.path()).list_path()));
        go_on(folder.path(), 1)
    };
    let pair = [("counts".to_owned(), made()), ("again".to_owned(), made())];
    let checks = audit_independence(&pair, LEVEL);
    assert!(checks.iter().all(|c| c.passed()), "{checks:?}");
}

/// Compares the step after the interruption with the one before: given the factors `f` of the
/// round, `sum_i c_i w_i / |w|` with `w_i = |f_i| - mean` is exactly N(0, 1) if the noise `c` of
/// the counts was not used for them.
#[test]
fn steps_before_and_after_an_interruption_share_no_noise() {
    let folder = tempfile::tempdir().unwrap();
    let counts = go_on(folder.path(), 1);
    go_on(folder.path(), 2);
    let made = so_far(folder.path()).model;
    let (factors, dim) = (made.item_factors(), made.dim());
    let sizes: Vec<f64> = factors.chunks(dim).map(|f| f[0].abs()).collect();
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    let weights = sizes.iter().map(|s| s - mean);
    let norm = weights.clone().map(|w| w * w).sum::<f64>().sqrt();
    let score: f64 = weights.zip(&counts).map(|(w, c)| w * c).sum::<f64>() / norm;
    assert!(2.0 * normal_upper_tail(score.abs()) > LEVEL, "{score}");
}
