//! `dp audit-personalize`: the run of `dp personalize`, repeated many times with planted users.

use dp_audit::{AuditedRun, AuditedTrainer};
use dp_mechanism::Trainer;
use dp_personalize::{LevelSums, PriorVotes};

use super::ADJACENCY;
use super::held_out::HeldOut;
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::metric_release::{with_audited_metrics, with_metrics};
use crate::personal::{SubspaceFit, Task};
use crate::settings::AuditPersonalizeSettings;
use crate::watch::{Watch, go_on};
use crate::workflows::audit::{AuditOutcome, Audited, PlantedRows, Trials};

/// Default number of planted users.
const USUAL_CANARIES: usize = 30;
/// Maximum number of rows of a planted user.
const ROWS: usize = 8;
/// Norm of the features in a planted user's rows, and labels far beyond what they could explain.
const LENGTH: f32 = 3.0;
const LABELS: [f32; 2] = [5e3, -3.1e3];

/// Repeats the run of `dp personalize` many times with planted users, and measures what the runs
/// reveal about them. Nothing is released, and no ledger is charged.
///
/// # Errors
/// When settings are out of range or conflict, and when a file cannot be read. A refuted claim is
/// not an error.
pub fn audit(args: &AuditPersonalizeSettings, watch: &mut dyn Watch) -> Result<AuditOutcome> {
    // everything public is checked before the data are read
    let target = args.run.guarantee.target()?;
    let run = args.training();
    let mut settings = Settings::new(&run)?;
    settings.draft_plan(target, ADJACENCY)?;
    let trials = Trials::new(&args.trials, USUAL_CANARIES)?;
    go_on(watch)?;
    tracing::info!(file = %args.run.data, "reading rows");
    let table = dp_data::read_samples(&args.run.data, &settings.columns)?;
    let inputs = settings.inputs(&table)?;
    let max_rows = run.run.columns.max_rows;
    let held_out = HeldOut::new(&run.held_out, max_rows, &inputs, table)?;
    settings.plan(&inputs, target, ADJACENCY)?; // refuses numbers of features that are not supported
    let axes_each = match settings.fit.subspace {
        SubspaceFit::Residual(_) => 2,
        SubspaceFit::AltMin(_) => 1,
    };
    let room = settings.most_features().saturating_sub(inputs.dim()) / axes_each;
    if trials.n_canaries > room {
        return Err(Error::Usage(format!(
            "`n_canaries` is {}; expected {room} at most: each needs features of its own in addition to the {} of the data",
            trials.n_canaries,
            inputs.dim()
        )));
    }
    let n_rows = args.run.columns.max_rows.min(ROWS);
    let row = |at: usize| match inputs.task {
        Task::Regression => (LENGTH, LABELS[usize::from(!at.is_multiple_of(axes_each))]),
        Task::Classification { .. } => (LENGTH, if at % 4 == 3 { -1.0 } else { 1.0 }),
    };
    let size = (trials.n_canaries, axes_each, n_rows);
    let planted = PlantedRows::new(held_out.train().samples(), size, row)?;
    let metrics = settings.metrics.as_ref();
    let whole = with_metrics(&settings.fit, metrics, target);
    let (plan, canaries) = (
        whole.plan(planted.dim, target, ADJACENCY)?,
        &planted.canaries,
    );
    let trainer: Box<dyn AuditedRun> = with_audited_metrics(metrics, &plan, canaries, |plan| {
        let audited = AuditedTrainer::on_samples(settings.fit, &planted.nobody, target, ADJACENCY)?;
        Ok(audited
            .with_plan(plan)
            .sharing(&[LevelSums::LABEL, PriorVotes::LABEL]))
    })?;
    let what = Audited {
        data: Some(&args.run.data),
        dim: Some(args.run.rank),
        run: format!(
            "a subspace of dimension {} in {} features, {} of them of planted users alone",
            args.run.rank,
            planted.dim,
            planted.dim - inputs.dim()
        ),
    };
    what.measure(&*trainer, &planted.canaries, &trials, watch)
}
