//! `dp audit-federate`: the runs of `dp federate`, repeated many times with planted users.

use dp_accounting::Plan;
use dp_audit::{
    AuditedRun, AuditedTrainer, Canaries, EpsilonAudit, PpSgdOracle, Verdict, View, audit_epsilon,
    claim_of,
};
use dp_core::{ApproxDp, Gdp, Interactions, Private};
use dp_fedsgd::{AdditiveModel, PersonalizedObjective, PpSgdTrainer};
use dp_mechanism::{NoiseSource, Run};

use super::certified::spending;
use super::settings::{Settings, by_setting};
use super::source::{Source, items_of};
use crate::error::Result;
use crate::federated::{ADJACENCY, Parts, RunSettings, Spending, objective};
use crate::metric_release::{AuditedMetrics, LABEL, MetricRelease, and_metrics};
use crate::output::SampledAuditReport;
use crate::personal::Task;
use crate::settings::AuditFederateSettings;
use crate::watch::{Watch, begins, go_on};
use crate::workflows::audit::{AuditOutcome, Audited, PlantedRows, Trials};

/// Default number of planted users.
const USUAL_CANARIES: usize = 30;
/// Maximum number of rows of a planted user.
const ROWS: usize = 4;
/// The label of a planted user's rows: after all steps of a run it is still far beyond any clipping
/// norm.
const FAR: f32 = 1e6;
/// Deltas at which the claim of sampled rounds is also tested against outputs: at a small delta so
/// few outputs show nothing.
const DELTAS: [f64; 2] = [0.05, 0.2];

/// Repeats the rounds of `dp federate` many times with planted users, and measures what they reveal
/// about them. Nothing is released, and no ledger is charged.
///
/// The audited claim is that of the rounds of all alphas and of released metrics, with the noise
/// that they have in the run. Noisy counts, the choice among the alphas and users' votes on the
/// prior of their fits, which the run also pays for, are not audited.
///
/// # Errors
/// When settings are out of range or conflict, and when a file cannot be read. A refuted claim is
/// not an error.
pub fn audit(args: &AuditFederateSettings, watch: &mut dyn Watch) -> Result<AuditOutcome> {
    // everything public is checked before the data are read
    let run = args.training();
    let settings = Settings::new(&run)?;
    let target = settings.targets[0];
    let items = items_of(&run)?;
    let n_items = items.as_ref().map(|items| items.catalogue().len());
    let mut spending = spending(&run, &settings, n_items)?;
    let metrics = settings.metrics.as_ref();
    let draft = spending.plan_with(1, target, metrics).map_err(by_setting)?;
    let trials = Trials::new(&args.trials, USUAL_CANARIES)?;
    go_on(watch)?;
    tracing::info!(file = %args.data, "reading rows");
    let source = Source::read(&run, &settings, items)?;
    let inputs = source.inputs(&settings)?;
    spending.settings = settings.run(&run, source.curvature(&inputs, &run));
    let plan = spending.resized(&draft, inputs.dim(), metrics)?;
    let mut noise = NoiseSource::operating_system();
    let mut counts = Run::new(&plan, spending.reserve_in_memory(&plan)?, &mut noise)?;
    let requests = spending.requests(inputs.dim(), target.delta)?;
    counts.begin(&and_metrics(requests, metrics, target)?, 1)?;
    let rows = source.into_rows(&mut counts)?;
    let (shares, seed) = (settings.shares_of_run(), args.held_out.split_seed);
    let max_rows = args.run.columns.max_rows;
    let parts = Parts::new(&inputs, rows.users, shares, max_rows, seed)?;
    let users = parts.trained.rows().samples();
    let n_rows = max_rows.min(ROWS);
    let row = rows_of(inputs.task, &spending.settings);
    let planted = PlantedRows::new(users, (trials.n_canaries, 1, n_rows), row)?;
    let n_here = (users.table().expose().n_users() + trials.n_canaries.div_ceil(2)) as f64;
    let declared = args
        .run
        .model
        .n_users
        .map(|n| n * (1.0 - shares.held_out_users));
    let model = objective(inputs.task, planted.dim)?;
    let rounds = Rounds::new(
        &settings.releasing(),
        (&spending.settings, declared.unwrap_or(n_here)),
        &model,
        (Spending::round_noise(&plan).unwrap_or(1.0), target.delta),
        max_rows,
    )?;
    let rounds = match metrics {
        Some(release) => rounds.releasing(release, &plan, &planted.canaries)?,
        None => rounds,
    };
    let what = format!(
        "{} rounds of each of {} ratios in {} features, {} of them of planted users alone",
        spending.settings.n_rounds,
        rounds.runs.len(),
        planted.dim,
        trials.n_canaries
    );
    match spending.settings.sampling_probability {
        None => {
            let what = Audited {
                data: Some(&args.data),
                dim: Some(inputs.dim()),
                run: what,
            };
            what.measure(&rounds, &planted.canaries, &trials, watch)
        }
        Some(probability) => {
            let audits = rounds.bound_epsilon(probability, &planted, &trials, watch)?;
            let report = SampledAuditReport {
                audits: &audits,
                data: &args.data,
                n_canaries: trials.n_canaries,
                n_runs: trials.runs.n_runs,
                dim: inputs.dim(),
                run: what,
            };
            let verdict = Verdict::of_all(audits.iter().map(|audit| audit.verdict));
            Ok(AuditOutcome {
                verdict,
                json: report.json(verdict)?,
                text: report.text(verdict),
            })
        }
    }
}

/// Norm and label of a planted user's rows. Features are so short that all steps of the run
/// together do not reach the label; for classes they are long enough for the clipping norm, and one
/// row in four contradicts the others.
#[allow(
    clippy::cast_possible_truncation,
    reason = "lengths are far inside the range of f32"
)]
fn rows_of(task: Task, settings: &RunSettings) -> impl Fn(usize) -> (f32, f32) + use<> {
    let slow = (0.1 / (settings.learning_rate * settings.n_rounds as f64)).sqrt();
    let clip = settings.clip_norm;
    move |at| match task {
        Task::Regression => (slow.clamp(1e-2, 3.0) as f32, FAR),
        Task::Classification { .. } => {
            let label = if at % 4 == 3 { -1.0 } else { 1.0 };
            ((8.0 * clip) as f32, label)
        }
    }
}

type AuditedPpSgd<'a> =
    AuditedTrainer<PpSgdTrainer<'a, AdditiveModel>, PpSgdOracle<'a, AdditiveModel>>;

/// The runs of all alphas as one.
struct Rounds<'a> {
    runs: Vec<AuditedPpSgd<'a>>,
    /// The release after them.
    metrics: Option<AuditedMetrics>,
    /// Plan of all rounds together, and of the metrics.
    plan: Plan,
    noise_multiplier: f64,
}

impl<'a> Rounds<'a> {
    fn new(
        alphas: &[f64],
        (settings, n_users): (&RunSettings, f64),
        model: &'a AdditiveModel,
        (noise_multiplier, delta): (f64, f64),
        max_rows: usize,
    ) -> Result<Self> {
        let (mut runs, mut releases) = (Vec::new(), Vec::new());
        for &alpha in alphas {
            let fit = settings.fit(alpha, n_users)?;
            let fit = match alphas.len() {
                1 => fit,
                _ => fit.naming_alpha(),
            };
            let plan = fit.plan_with_noise(model.n_shared(), noise_multiplier, delta, ADJACENCY)?;
            releases.extend_from_slice(plan.releases());
            let size = (max_rows, settings.batch_size);
            runs.push(AuditedPpSgd::on_batches(fit, model, plan, size));
        }
        Ok(Self {
            plan: Plan::with_noise_multipliers(delta, ADJACENCY, releases)?,
            noise_multiplier,
            metrics: None,
            runs,
        })
    }

    /// The same with the metrics that the run with this plan releases at its end.
    fn releasing(
        mut self,
        release: &MetricRelease,
        plan: &Plan,
        canaries: &Canaries,
    ) -> Result<Self> {
        let (own, whole) = (self.plan.releases(), plan.releases());
        let releases = own.iter().chain(whole.last()).cloned().collect();
        let delta = self.plan.target().delta;
        self.metrics = Some(AuditedMetrics::new(release, plan, canaries)?);
        self.plan = Plan::with_noise_multipliers(delta, ADJACENCY, releases)?;
        Ok(self)
    }

    /// Lower bounds on epsilon of sampled rounds: planted users are present in every other run.
    fn bound_epsilon(
        &self,
        probability: f64,
        planted: &PlantedRows,
        trials: &Trials,
        watch: &mut dyn Watch,
    ) -> Result<Vec<EpsilonAudit>> {
        let (n_canaries, n_runs) = (planted.canaries.len(), trials.runs.n_runs);
        let first = planted.dim - n_canaries;
        let mut scores = [Vec::new(), Vec::new()];
        for run in 0..n_runs {
            begins(watch, run, n_runs);
            let side = |canary: usize| (canary + run) % 2;
            let present: Vec<bool> = (0..n_canaries).map(|canary| side(canary) == 1).collect();
            let data = planted.canaries.with(&present)?;
            let noise = &mut NoiseSource::operating_system();
            let mut views = self.train(&data, planted.canaries.users(), noise)?;
            let metrics = self.metrics.as_ref().and_then(|_| views.pop());
            for (canary, &is_here) in present.iter().enumerate() {
                let score = views.iter().map(|view| {
                    // the gradient points away from the label
                    let y = view.integers[first + canary] as f64 + 0.5;
                    self.score(probability, -y / view.layout.sigma() as f64)
                });
                // the noise is common to all planted users: use one of them per run, alternately
                // present and absent
                let of_metrics = metrics.as_ref().filter(|_| canary == run / 2 % n_canaries);
                let of_metrics = of_metrics.map_or(0.0, |view| whole_score(view, canary, is_here));
                scores[side(canary)].push(score.sum::<f64>() + of_metrics);
            }
        }
        let thresholds: Vec<f64> = (-20..=20).map(|k| 0.4 * f64::from(k)).collect();
        let claims = std::iter::once(self.plan.target().delta).chain(DELTAS);
        let audits = claims.map(|delta| {
            let releases = self.plan.releases().to_vec();
            let plan = Plan::with_noise_multipliers(delta, ADJACENCY, releases)?;
            let (claim, confidence) = (plan.guarantee(), trials.runs.confidence);
            let [without, with] = &scores;
            let found = audit_epsilon("rounds", claim, without, with, &thresholds, confidence);
            Ok(found?)
        });
        audits.collect()
    }

    /// Log-likelihood ratio of a round's coordinate, for a user who may have been sampled against
    /// no user: the most powerful score.
    fn score(&self, probability: f64, x: f64) -> f64 {
        let mu = 1.0 / self.noise_multiplier;
        (1.0 - probability + probability * (mu * x - 0.5 * mu * mu).exp()).ln()
    }
}

/// Log-likelihood ratio of a release on all users, for a canary who is present against no user,
/// given all others.
fn whole_score(view: &View, canary: usize, is_here: bool) -> f64 {
    let (sigma, residuals) = (view.layout.sigma() as f64, view.residuals());
    let of_entry = |&(at, z): &(usize, i64)| {
        let mu = z as f64 / sigma;
        let x = residuals[at] + if is_here { mu } else { 0.0 };
        mu * x - 0.5 * mu * mu
    };
    view.canaries[canary].iter().map(of_entry).sum()
}

impl AuditedRun for Rounds<'_> {
    fn is_shared(&self, label: &str) -> bool {
        self.metrics.is_some() && label == LABEL
    }

    fn claim(&self) -> (ApproxDp, Gdp) {
        claim_of(&self.plan)
    }

    fn train(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> dp_audit::Result<Vec<View>> {
        let mut views = Vec::new();
        for run in &self.runs {
            views.extend(run.train(data, canaries, noise)?);
        }
        if let Some(metrics) = &self.metrics {
            views.extend(metrics.views(data, canaries, noise)?);
        }
        Ok(views)
    }
}
