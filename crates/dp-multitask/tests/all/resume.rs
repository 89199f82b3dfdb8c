//! Interrupted runs: what is paid, what is on disk, and what the result is.

use std::collections::HashSet;
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use dp_accounting::Spend;
use dp_data::RatingSplit;
use dp_mechanism::{Error as RunError, ReleaseEntry, RunFolder};
use dp_multitask::{
    Budget, Error, FactorModel, FactorizationParams, Fitted, Ledger, MatrixFactorization,
    NoiseSource, Observer, Payer, Plan, Progress, ReleaseList, Run, Trainer,
};

use crate::support::{self, ADJACENCY, error, target};

const N_ITEMS: usize = 60;
const N_ROUNDS: usize = 3;
/// Counts, then the rounds.
const N_STEPS: usize = 1 + N_ROUNDS;
const RUN: &str = "settings and everything else that is public";

fn ratings() -> RatingSplit {
    support::ratings(500, N_ITEMS, 15_000)
}

fn fit() -> MatrixFactorization {
    let mut params = FactorizationParams::adadpals_for_target(target(10.0));
    params.dim = Some(3);
    params.n_rounds = N_ROUNDS;
    params.check().unwrap()
}

fn plan() -> Plan {
    fit().plan(N_ITEMS, target(10.0), ADJACENCY).unwrap()
}

/// A budget that suffices for steps that are paid twice.
fn open(folder: &Path) -> Ledger {
    let room = target(30.0);
    let budget = Budget::new(room, ADJACENCY).unwrap();
    Ledger::open_or_create(folder.join("ledger"), "ratings", budget).unwrap()
}

fn paid(folder: &Path) -> usize {
    let summary = Ledger::audit(folder.join("ledger")).unwrap();
    summary.releases.len()
}

/// Ends a process after this many steps of a run, including replayed ones.
struct EndAfter(usize);

impl Observer for EndAfter {
    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        self.0 = self.0.saturating_sub(1);
        match self.0 {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// One process's part of a run, which ends after step `end` at the latest.
fn run(folder: &Path, split: &RatingSplit, end: usize) -> Result<Fitted<FactorModel>, Error> {
    let (ledgers, noise) = (&mut [open(folder)], &mut NoiseSource::operating_system());
    let observer = &mut EndAfter(end);
    RunFolder::new(folder).train(&fit(), &split.train, &plan(), ledgers, RUN, noise, observer)
}

const TO_THE_END: usize = usize::MAX;

/// Pays, and dies after payment `.1`.
struct DiesAfterPaying(Ledger, usize);

impl Payer for DiesAfterPaying {
    fn pay(
        &mut self,
        plan: &Plan,
        releases: Range<usize>,
        account: usize,
    ) -> dp_accounting::Result<Vec<Spend>> {
        let spends = self.0.pay(plan, releases, account)?;
        let path = "crash".into();
        self.1 = (self.1)
            .checked_sub(1)
            .ok_or(dp_accounting::Error::LedgerPoisoned { path })?;
        Ok(spends)
    }

    fn has_paid(&self, line: &dp_mechanism::PaidLine) -> bool {
        self.0.has_paid(line)
    }
}

/// A process that dies between payment and release of the step after `n_steps` more.
fn die(folder: &Path, split: &RatingSplit, n_steps: usize) {
    let (plan, noise) = (plan(), &mut NoiseSource::operating_system());
    let list = RunFolder::new(folder).list_path();
    let list = ReleaseList::open(list, RUN, &plan).unwrap();
    let mut payer = DiesAfterPaying(open(folder), n_steps);
    let run = Run::paying(&plan, &mut payer, noise).unwrap();
    assert!(fit().run(&split.train, run.listed_in(list)).is_err());
}

fn mu_squared(plan: &Plan, steps: impl IntoIterator<Item = usize>) -> f64 {
    let cost = |step: usize| -> f64 {
        let releases = match step {
            0 => 0..1,
            round => 2 * round - 1..2 * round + 1,
        };
        let noise = plan.releases()[releases]
            .iter()
            .map(|r| r.noise_multiplier().unwrap());
        noise.map(|z| z.powi(-2)).sum()
    };
    steps.into_iter().map(cost).sum()
}

fn check_whole(folder: &Path, fitted: &Fitted<FactorModel>, split: &RatingSplit, twice: &[usize]) {
    let summary = Ledger::audit(folder.join("ledger")).unwrap();
    let expected = mu_squared(&plan(), (0..N_STEPS).chain(twice.iter().copied()));
    let spent = summary.balance.spent;
    assert!(
        (spent / expected - 1.0).abs() < 1e-12,
        "{spent} for {expected}"
    );
    let n_twice: usize = twice.iter().map(|&step| 1 + usize::from(step > 0)).sum();
    assert_eq!(summary.releases.len(), plan().releases().len() + n_twice);
    // the certificate names ledger lines, each once, and verifies
    summary.covers(&fitted.certificate).unwrap();
    let ids = fitted.certificate.releases.iter().map(|r| &r.release_id);
    assert_eq!(ids.collect::<HashSet<_>>().len(), plan().releases().len());
    let verified = fitted.certificate.verify().unwrap();
    assert!(verified.is_private());
    let epsilon = verified.guarantee.unwrap().epsilon;
    assert!(epsilon <= 10.0 && epsilon > 9.99, "{epsilon}");
    let model = &fitted.model;
    assert_eq!(model.item_factors().len(), 3 * N_ITEMS);
    let rmse = error(model, split);
    assert!(rmse < 1.5, "{rmse}");
}

#[test]
fn a_run_interrupted_after_any_step_pays_for_each_step_once() {
    let split = ratings();
    for made in 1..=N_STEPS {
        let folder = tempfile::tempdir().unwrap();
        let ended = run(folder.path(), &split, made);
        assert!(matches!(ended, Err(Error::Mechanism(RunError::Cancelled))));
        let summary = Ledger::audit(folder.path().join("ledger")).unwrap();
        assert!((summary.balance.spent - mu_squared(&plan(), 0..made)).abs() < 1e-12);
        let fitted = run(folder.path(), &split, TO_THE_END).unwrap();
        check_whole(folder.path(), &fitted, &split, &[]);
    }
}

#[test]
fn a_crash_between_payment_and_release_counts_the_step_twice() {
    let split = ratings();
    for step in 0..N_STEPS {
        let folder = tempfile::tempdir().unwrap();
        die(folder.path(), &split, step);
        let fitted = run(folder.path(), &split, TO_THE_END).unwrap();
        check_whole(folder.path(), &fitted, &split, &[step]);
    }
    // and in every process of a run: one step done, the next one paid and lost
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..N_STEPS - 1 {
        die(folder.path(), &split, 1);
    }
    let fitted = run(folder.path(), &split, TO_THE_END).unwrap();
    check_whole(folder.path(), &fitted, &split, &[1, 2, 3]);
}

#[test]
fn a_finished_run_is_not_paid_or_made_again() {
    let split = ratings();
    let folder = tempfile::tempdir().unwrap();
    let first = run(folder.path(), &split, TO_THE_END).unwrap();
    let again = run(folder.path(), &split, TO_THE_END).unwrap();
    assert_eq!(first.model, again.model);
    assert_eq!(first.releases_hash, again.releases_hash);
    assert_eq!(first.certificate.releases, again.certificate.releases);
    check_whole(folder.path(), &again, &split, &[]);
}

/// Records the entries of the list.
struct Entries(Vec<ReleaseEntry>);

impl Observer for Entries {
    fn listed(&mut self, entry: &ReleaseEntry) {
        self.0.push(entry.clone());
    }
}

fn entries(folder: &Path) -> Vec<ReleaseEntry> {
    let (plan, mut entries) = (plan(), Entries(Vec::new()));
    let list = ReleaseList::read(RunFolder::new(folder).list_path(), RUN, &plan).unwrap();
    let run = Run::replay(&plan, list).unwrap();
    let nobody = dp_multitask::InteractionsBuilder::new(N_ITEMS).build().0;
    let nobody = dp_multitask::Private::new(nobody);
    drop(fit().run(&nobody, run.observed_by(&mut entries)));
    entries.0
}

#[test]
fn a_step_whose_entry_was_lost_is_paid_again_and_gets_other_noise() {
    let split = ratings();
    for step in 0..N_STEPS - 1 {
        let folder = tempfile::tempdir().unwrap();
        let file = RunFolder::new(folder.path()).list_path();
        if step > 0 {
            assert!(run(folder.path(), &split, step).is_err());
        }
        let before = fs::read(&file).ok();
        // the same step from the same list: the crash came before the entry was complete
        let one_more = || {
            match &before {
                Some(bytes) => fs::write(&file, bytes).unwrap(),
                None => drop(fs::remove_file(&file)),
            }
            assert!(run(folder.path(), &split, step + 1).is_err());
            entries(folder.path())[step].integers().to_vec()
        };
        let (a, b) = (one_more(), one_more());
        let n_equal = a.iter().zip(&b).filter(|(a, b)| a == b).count();
        assert!(n_equal < a.len() / 10, "step {step}: noise was used twice");
        let fitted = run(folder.path(), &split, TO_THE_END).unwrap();
        check_whole(folder.path(), &fitted, &split, &[step]);
    }
}

#[test]
fn the_file_holds_released_integers_and_no_trace_of_a_generator() {
    let split = ratings();
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), &split, 3).is_err());
    let allowed = "step release paid insecure width integers_sha256 previous_hash kind labels grids n_integers n_candidates \
        noise_multiplier clip_norm log2_sigma l2_bound account data_set release_id";
    let allowed: HashSet<&str> = allowed.split_whitespace().collect();
    let mut n_bytes = 0;
    for entry in entries(folder.path()) {
        let bytes = entry.to_bytes().unwrap();
        n_bytes += bytes.len();
        let end = bytes.iter().position(|&byte| byte == b'\n').unwrap();
        let tab = bytes.iter().position(|&byte| byte == b'\t').unwrap();
        let head: serde_json::Value = serde_json::from_slice(&bytes[..tab]).unwrap();
        assert_eq!(&bytes[tab + 1..end], entry.hash().as_bytes());
        let mut keys = HashSet::new();
        collect_keys(&head, &mut keys);
        for key in &keys {
            assert!(allowed.contains(key.as_str()), "`{key}` in a list");
        }
        // after the line only the integers follow
        let width = head["width"].as_u64().unwrap() as usize;
        assert_eq!(bytes.len() - end - 2, width * entry.integers().len());
    }
    let file = fs::read(RunFolder::new(folder.path()).list_path()).unwrap();
    let header = file.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    assert_eq!(file.len(), header + n_bytes);
}

fn collect_keys(value: &serde_json::Value, keys: &mut HashSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, inner) in map {
                keys.insert(key.clone());
                collect_keys(inner, keys);
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|v| collect_keys(v, keys)),
        _ => {}
    }
}

#[test]
fn the_list_of_another_run_or_a_damaged_one_is_refused_before_anything_is_paid() {
    let split = ratings();
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), &split, 3).is_err());
    let before = paid(folder.path());
    let other = |run: &str, epsilon: f64, n_rounds: usize| {
        let mut params = fit().params().clone();
        params.n_rounds = n_rounds;
        let fit = params.check().unwrap();
        let plan = fit.plan(N_ITEMS, target(epsilon), ADJACENCY).unwrap();
        let (ledgers, noise) = (
            &mut [open(folder.path())],
            &mut NoiseSource::operating_system(),
        );
        RunFolder::new(folder.path()).train(&fit, &split.train, &plan, ledgers, run, noise, &mut ())
    };
    for refused in [
        other("other settings", 10.0, N_ROUNDS),
        other(RUN, 11.0, N_ROUNDS),
        other(RUN, 10.0, N_ROUNDS + 1),
    ] {
        let of_another = matches!(
            refused,
            Err(Error::Mechanism(RunError::ListOfAnotherRun { .. }))
        );
        assert!(of_another);
    }
    let file = RunFolder::new(folder.path()).list_path();
    let good = fs::read(&file).unwrap();
    let mut damaged = good.clone();
    let before_the_last = good.len() / 3;
    damaged[before_the_last] ^= 1;
    fs::write(&file, &damaged).unwrap();
    assert!(run(folder.path(), &split, TO_THE_END).is_err());
    assert_eq!(paid(folder.path()), before);
    // half an entry at the end does not matter: nobody has seen it
    fs::write(&file, [&good[..], b"{\"half"].concat()).unwrap();
    let fitted = run(folder.path(), &split, TO_THE_END).unwrap();
    check_whole(folder.path(), &fitted, &split, &[]);
}

#[test]
fn a_ledger_that_did_not_pay_is_told_apart() {
    let split = ratings();
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert!(run(folder.path(), &split, 2).is_err());
    assert!(run(other.path(), &split, 2).is_err());
    fs::copy(other.path().join("ledger"), folder.path().join("ledger")).unwrap();
    let before = paid(folder.path());
    let refused = run(folder.path(), &split, TO_THE_END);
    assert!(matches!(
        refused,
        Err(Error::Mechanism(RunError::List { .. }))
    ));
    assert_eq!(paid(folder.path()), before);
}

#[test]
fn a_run_without_room_for_its_last_step_still_gives_a_model() {
    let split = ratings();
    let folder = tempfile::tempdir().unwrap();
    die(folder.path(), &split, 3);
    let plan = plan();
    let list = ReleaseList::read(RunFolder::new(folder.path()).list_path(), RUN, &plan).unwrap();
    assert_eq!(fit().n_rounds_after(list.paid_before().len()), 2);
    let run = Run::replay(&plan, list).unwrap();
    let fitted = fit().run(&split.train, run).unwrap();
    Ledger::audit(folder.path().join("ledger"))
        .unwrap()
        .covers(&fitted.certificate)
        .unwrap();
    let verified = fitted.certificate.verify().unwrap();
    assert!(verified.is_private());
    let epsilon = verified.guarantee.unwrap().epsilon;
    assert!(epsilon < 10.0 && epsilon > 1.0, "{epsilon}");
    assert_eq!(fitted.model.item_factors().len(), 3 * N_ITEMS);
}
