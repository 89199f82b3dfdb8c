//! Runs that were interrupted.

use dp_accounting::{Budget, Ledger, Plan};
use dp_data::RatingSplit;
use dp_mechanism::NoiseSource;
use dp_multitask::{CheckpointFolder, Error, FactorizationParams, FittedModel, ItemUpdate};

use crate::support::{
    ADJACENCY, N_ITEMS, error, gradient, params, pooled, ratings, residual, target, user_mean,
};

/// Runs until `crash_after` steps were made in this process, or to the end.
fn resumable(
    split: &RatingSplit,
    params: &FactorizationParams,
    folder: &std::path::Path,
    crash_after: usize,
) -> Result<FittedModel, Error> {
    let fit = params.clone().check().unwrap();
    let plan = fit.plan(N_ITEMS, target(5.0), ADJACENCY).unwrap();
    let budget = Budget::new(target(5.0), ADJACENCY).unwrap();
    let mut ledger = Ledger::open(folder.join("ledger"), "ratings", budget).unwrap();
    let mut steps = 0;
    let mut pay = |plan: &Plan| {
        if steps == crash_after {
            let path = "crash".into();
            return Err(dp_accounting::Error::LedgerPoisoned { path });
        }
        steps += 1;
        ledger.reserve(plan)
    };
    let checkpoints = CheckpointFolder::open(folder).unwrap();
    let mut noise = NoiseSource::operating_system();
    fit.fit_with_checkpoints(
        &split.train,
        &plan,
        &mut pay,
        &mut noise,
        &checkpoints,
        &mut |_| {},
    )
}

#[test]
fn interrupted_runs_go_on_where_they_ended_and_pay_every_step_once() {
    let split = ratings();
    let own = [gradient(), residual(2)].map(|update| params(5.0, update));
    for params in own.into_iter().chain([pooled(5.0, residual(2))]) {
        let folder = tempfile::tempdir().unwrap();
        let mut n_crashes = 0;
        let fitted = loop {
            // one step in each process
            match resumable(&split, &params, folder.path(), 1) {
                Ok(fitted) => break fitted,
                Err(Error::Accounting(_)) => n_crashes += 1,
                Err(other) => panic!("{other}"),
            }
        };
        assert!(n_crashes >= 5, "{n_crashes}");
        let paid = Ledger::audit(folder.path().join("ledger")).unwrap();
        paid.covers(&fitted.certificate).unwrap();
        assert_eq!(paid.releases.len(), fitted.certificate.releases.len());
        assert!(error(&fitted.model, &split) < user_mean(&split));
    }
}

#[test]
fn a_checkpoint_without_what_later_rounds_need_is_refused() {
    let split = ratings();
    for (params, pointer, member) in [
        (params(5.0, gradient()), "/state", "scales"),
        (params(5.0, residual(2)), "/state/rounds", "matrices"),
        (pooled(5.0, residual(2)), "/state/rounds", "matrices"),
        (pooled(5.0, ItemUpdate::Ssp), "/state", "scales"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        assert!(resumable(&split, &params, folder.path(), 4).is_err());
        let file = folder.path().join("checkpoint.json");
        let text = std::fs::read_to_string(&file).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let members = json.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
        assert!(members.remove(member).is_some());
        std::fs::write(&file, json.to_string()).unwrap();
        let outcome = resumable(&split, &params, folder.path(), 1);
        assert!(matches!(outcome, Err(Error::CheckpointMismatch { .. })));
    }
}
