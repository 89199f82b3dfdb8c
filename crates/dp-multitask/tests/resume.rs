//! Runs that are interrupted after each step: what is paid, what is on disk, what comes out.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use dp_accounting::{Budget, Ledger, Plan};
use dp_core::{Adjacency, ApproxDp};
use dp_data::{LongTailRatings, RatingSplit, SplitFractions};
use dp_mechanism::NoiseSource;
use dp_multitask::{
    CheckpointFolder, Error, FactorizationParams, FittedModel, MatrixFactorization,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
const N_ITEMS: usize = 60;
const N_ROUNDS: usize = 3;
/// Counts, then the rounds.
const N_STEPS: usize = 1 + N_ROUNDS;

fn target() -> ApproxDp {
    ApproxDp::target(10.0, 1e-5).unwrap()
}

fn ratings() -> RatingSplit {
    LongTailRatings::new(500, N_ITEMS, 15_000)
        .generate(&mut ChaCha20Rng::seed_from_u64(4))
        .unwrap()
        .split(SplitFractions::default(), 1)
}

fn fit() -> MatrixFactorization {
    let mut params = FactorizationParams::adadpals_for_target(target());
    params.dim = Some(3);
    params.n_rounds = N_ROUNDS;
    params.check().unwrap()
}

fn plan() -> Plan {
    fit().plan(N_ITEMS, target(), ADJACENCY).unwrap()
}

/// A budget with room for steps that are paid twice.
fn open(folder: &Path) -> Ledger {
    let room = ApproxDp::target(30.0, 1e-5).unwrap();
    let budget = Budget::new(room, ADJACENCY).unwrap();
    Ledger::open(folder.join("ledger"), "ratings", budget).unwrap()
}

/// Where a run ends before its time.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Crash {
    Never,
    /// Before step `.0` is paid.
    BeforePay(usize),
    /// After step `.0` is paid, before anything is released.
    AfterPay(usize),
}

/// One process's part of a run: steps are counted from where the checkpoint ends.
fn run(folder: &Path, split: &RatingSplit, crash: Crash) -> Result<FittedModel, Error> {
    let mut ledger = open(folder);
    let mut step = 0;
    let mut pay = |plan: &Plan| {
        let gone = || dp_accounting::Error::LedgerPoisoned {
            path: "crash".into(),
        };
        if crash == Crash::BeforePay(step) {
            return Err(gone());
        }
        let spends = ledger.reserve(plan)?;
        if crash == Crash::AfterPay(step) {
            return Err(gone());
        }
        step += 1;
        Ok(spends)
    };
    let checkpoints = CheckpointFolder::open(folder).unwrap();
    let mut noise = NoiseSource::operating_system();
    let (plan, fit) = (plan(), fit());
    fit.fit_with_checkpoints(
        &split.train,
        &plan,
        &mut pay,
        &mut noise,
        &checkpoints,
        &mut |_| {},
    )
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

fn check_whole(folder: &Path, fitted: &FittedModel, split: &RatingSplit, twice: &[usize]) {
    let summary = Ledger::audit(folder.join("ledger")).unwrap();
    let expected = mu_squared(&plan(), (0..N_STEPS).chain(twice.iter().copied()));
    let spent = summary.balance.spent;
    assert!(
        (spent / expected - 1.0).abs() < 1e-12,
        "{spent} for {expected}"
    );
    let n_twice: usize = twice.iter().map(|&step| 1 + usize::from(step > 0)).sum();
    assert_eq!(summary.releases.len(), plan().releases().len() + n_twice);
    // the certificate names lines that paid, each once, and holds
    summary.covers(&fitted.certificate).unwrap();
    let ids = fitted.certificate.releases.iter().map(|r| &r.release_id);
    assert_eq!(ids.collect::<HashSet<_>>().len(), plan().releases().len());
    let epsilon = fitted
        .certificate
        .verify()
        .unwrap()
        .guarantee
        .unwrap()
        .epsilon;
    assert!(epsilon <= 10.0 && epsilon > 9.99, "{epsilon}");
    let model = &fitted.model;
    assert_eq!(model.item_factors().len(), 3 * N_ITEMS);
    let pairs = model.predict_held_out(&split.train, &split.test).unwrap();
    let rmse = dp_data::rmse(pairs.into_exposed()).unwrap();
    assert!(rmse < 1.5, "{rmse}");
}

#[test]
fn a_run_interrupted_before_any_step_pays_for_each_step_once() {
    let split = ratings();
    for step in 0..N_STEPS {
        let folder = tempfile::tempdir().unwrap();
        assert!(run(folder.path(), &split, Crash::BeforePay(step)).is_err());
        let spent = Ledger::audit(folder.path().join("ledger"))
            .unwrap()
            .balance
            .spent;
        assert!((spent - mu_squared(&plan(), 0..step)).abs() < 1e-12);
        let fitted = run(folder.path(), &split, Crash::Never).unwrap();
        check_whole(folder.path(), &fitted, &split, &[]);
    }
}

#[test]
fn a_crash_between_payment_and_release_counts_the_step_twice() {
    let split = ratings();
    for step in 0..N_STEPS {
        let folder = tempfile::tempdir().unwrap();
        assert!(run(folder.path(), &split, Crash::AfterPay(step)).is_err());
        let fitted = run(folder.path(), &split, Crash::Never).unwrap();
        check_whole(folder.path(), &fitted, &split, &[step]);
    }
    // and in every process of a run
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..N_STEPS - 1 {
        // one step done, the next paid and lost
        assert!(run(folder.path(), &split, Crash::AfterPay(1)).is_err());
    }
    let fitted = run(folder.path(), &split, Crash::Never).unwrap();
    check_whole(folder.path(), &fitted, &split, &[1, 2, 3]);
}

#[test]
fn a_finished_run_is_not_paid_or_made_again() {
    let split = ratings();
    let folder = tempfile::tempdir().unwrap();
    let first = run(folder.path(), &split, Crash::Never).unwrap();
    let again = run(folder.path(), &split, Crash::BeforePay(0)).unwrap();
    assert_eq!(first.model, again.model);
    assert_eq!(first.certificate.releases, again.certificate.releases);
    check_whole(folder.path(), &again, &split, &[]);
}

#[test]
fn a_step_whose_save_was_lost_is_paid_again_and_gets_other_noise() {
    let split = ratings();
    for step in 0..N_STEPS - 1 {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("checkpoint.json");
        let one_more = |from: Option<&[u8]>| -> serde_json::Value {
            match from {
                Some(bytes) => fs::write(&file, bytes).unwrap(),
                None => drop(fs::remove_file(&file)),
            }
            assert!(run(folder.path(), &split, Crash::BeforePay(1)).is_err());
            serde_json::from_slice(&fs::read(&file).unwrap()).unwrap()
        };
        if step > 0 {
            assert!(run(folder.path(), &split, Crash::BeforePay(step)).is_err());
        }
        let before = fs::read(&file).ok();
        // the same step from the same state: the crash came before the rename
        let (a, b) = (one_more(before.as_deref()), one_more(before.as_deref()));
        let values = |state: &serde_json::Value| -> Vec<f64> {
            let at = if step == 0 {
                "/state/counts/values"
            } else {
                "/state/rounds/factors"
            };
            let list = state.pointer(at).unwrap().as_array().unwrap().iter();
            list.map(|v| v.as_f64().unwrap()).collect()
        };
        let (a, b) = (values(&a), values(&b));
        let n_equal = a
            .iter()
            .zip(&b)
            .filter(|(a, b)| a.to_bits() == b.to_bits())
            .count();
        assert!(n_equal < a.len() / 10, "step {step}: noise was used twice");
        let fitted = run(folder.path(), &split, Crash::Never).unwrap();
        check_whole(folder.path(), &fitted, &split, &[step]);
    }
}

#[test]
fn the_file_holds_released_values_and_no_trace_of_a_generator() {
    let split = ratings();
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), &split, Crash::BeforePay(3)).is_err());
    let file = fs::read(folder.path().join("checkpoint.json")).unwrap();
    let text = String::from_utf8(file).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut keys = HashSet::new();
    collect_keys(&value, &mut keys);
    // everything that may be in the file, by name; `init_seed` is that of the public first factors
    let allowed = "schema_version params n_items adjacency epsilon delta data_set_id releases state \
        dim rule_epsilon n_rounds round_growth weight_exponent count_share count_clip_norm count_floor \
        matrix_share clip_norm label_center label_bound bias_shrinkage training_penalties \
        fold_in_penalties item_ridge_factor item_l2_penalty init_stddev init_seed pooled_matrices offset factor \
        factor_per_record label event n_draws release_id mechanism noise_multiplier replace_factor \
        counts rounds values noise_stddev insecure factors precision feedback score_model record_sampling \
        item_update kind";
    let allowed: HashSet<&str> = allowed.split_whitespace().collect();
    for key in &keys {
        assert!(allowed.contains(key.as_str()), "`{key}` in a checkpoint");
    }
    for word in [
        "key", "stream", "nonce", "counter", "chacha", "rng", "position",
    ] {
        assert!(!keys.iter().any(|key| key.contains(word)), "{word}");
    }
    // long hexadecimal strings are the names of ledger lines and nothing else
    let summary = Ledger::audit(folder.path().join("ledger")).unwrap();
    let lines: HashSet<&str> = summary
        .releases
        .iter()
        .map(|r| r.release_id.as_str())
        .collect();
    for word in text
        .split(|c: char| !c.is_ascii_hexdigit())
        .filter(|w| w.len() > 24)
    {
        assert!(lines.contains(word), "{word}");
    }
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
fn a_checkpoint_of_another_run_is_refused_before_anything_is_paid() {
    let split = ratings();
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), &split, Crash::BeforePay(2)).is_err());
    let file = folder.path().join("checkpoint.json");
    let good = fs::read_to_string(&file).unwrap();
    let before = Ledger::audit(folder.path().join("ledger"))
        .unwrap()
        .releases
        .len();
    for (from, to) in [
        ("\"schema_version\":1", "\"schema_version\":2"),
        ("\"n_rounds\":3", "\"n_rounds\":4"),
        ("\"n_items\":60", "\"n_items\":61"),
        ("\"epsilon\":10.0", "\"epsilon\":11.0"),
        ("\"n_rounds\":1", "\"n_rounds\":2"),
        ("round 1: item matrices", "round 2: item matrices"),
        ("\"dim\":3,\"n_rounds\":1", "\"dim\":2,\"n_rounds\":1"),
        ("\"values\":[", "\"values\":[0.5,"),
        (
            "\"replace_factor\":\"two\"",
            "\"replace_factor\":\"sqrt-two\"",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        fs::write(&file, good.replacen(from, to, 1)).unwrap();
        let outcome = run(folder.path(), &split, Crash::Never);
        assert!(
            matches!(outcome, Err(Error::CheckpointMismatch { .. })),
            "{to}"
        );
    }
    for damaged in ["", "{", &good[..good.len() / 2], "null", "[1]"] {
        fs::write(&file, damaged).unwrap();
        let outcome = run(folder.path(), &split, Crash::Never);
        assert!(
            matches!(outcome, Err(Error::CheckpointDamaged { .. })),
            "{damaged}"
        );
    }
    let after = Ledger::audit(folder.path().join("ledger"))
        .unwrap()
        .releases
        .len();
    assert_eq!(before, after);
    // a half-written successor does not matter
    fs::write(&file, &good).unwrap();
    fs::write(folder.path().join("checkpoint.json.partial"), "{\"half").unwrap();
    assert!(run(folder.path(), &split, Crash::Never).is_ok());
}

#[test]
fn a_ledger_that_did_not_pay_is_told_apart() {
    let split = ratings();
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert!(run(folder.path(), &split, Crash::BeforePay(2)).is_err());
    assert!(run(other.path(), &split, Crash::BeforePay(2)).is_err());
    let checkpoint = CheckpointFolder::open(folder.path())
        .unwrap()
        .load()
        .unwrap()
        .unwrap();
    let ledger = |folder: &Path| Ledger::audit(folder.join("ledger")).unwrap();
    checkpoint.check_paid(&ledger(folder.path())).unwrap();
    assert!(checkpoint.check_paid(&ledger(other.path())).is_err());
}

#[test]
fn a_run_without_room_for_its_last_step_still_gives_a_model() {
    let split = ratings();
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), &split, Crash::AfterPay(3)).is_err());
    let checkpoint = CheckpointFolder::open(folder.path())
        .unwrap()
        .load()
        .unwrap()
        .unwrap();
    assert_eq!(checkpoint.n_rounds(), 2);
    let fitted = fit().model_so_far(checkpoint, &plan()).unwrap();
    Ledger::audit(folder.path().join("ledger"))
        .unwrap()
        .covers(&fitted.certificate)
        .unwrap();
    let epsilon = fitted
        .certificate
        .verify()
        .unwrap()
        .guarantee
        .unwrap()
        .epsilon;
    assert!(epsilon < 10.0 && epsilon > 1.0, "{epsilon}");
    assert_eq!(fitted.model.item_factors().len(), 3 * N_ITEMS);
}

#[test]
fn seeded_noise_cannot_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let mut pay = |_: &Plan| -> dp_accounting::Result<Vec<dp_accounting::Spend>> {
        panic!("paid for a run that cannot be")
    };
    let outcome = fit().fit_with_checkpoints(
        &ratings().train,
        &plan(),
        &mut pay,
        &mut NoiseSource::insecure_seeded(1),
        &CheckpointFolder::open(folder.path()).unwrap(),
        &mut |_| {},
    );
    assert!(matches!(outcome, Err(Error::SeededCheckpoint)));
}
