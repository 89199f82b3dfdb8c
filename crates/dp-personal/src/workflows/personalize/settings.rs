//! Public settings of a run, from flags and the file of ranges.

use dp_accounting::Plan;
use dp_core::{Adjacency, ApproxDp, ParamError};
use dp_data::{ColumnRole, SampleColumns, SampleTable};
use dp_mechanism::Trainer;
use dp_personalize::ConvexLoss;

use crate::error::{Error, Result};
use crate::metric_release::{MetricRelease, with_metrics};
use crate::personal::{
    Column, Fit, Inputs, Intercept, Method, MethodName, MethodSettings, PriorShares, Ranges, Task,
    columns_of, shares_of, task_of,
};
use crate::settings::{PersonalModelSettings, PersonalizeSettings, TaskKind};

/// Candidate ridge penalties for users with own coefficients outside the subspace.
const L2_PENALTIES: [f64; 6] = [1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0];

/// All values that are known before the data are read.
pub(super) struct Settings {
    pub(super) columns: SampleColumns,
    pub(super) method: MethodSettings,
    pub(super) fit: Fit,
    ranges: Ranges,
    /// The settings of the release of held-out metrics.
    pub(super) metrics: Option<MetricRelease>,
    /// Without the features, which the header may have to name.
    draft: Inputs,
}

impl Settings {
    pub(super) fn new(args: &PersonalizeSettings) -> Result<Self> {
        let model = &args.run.model;
        let ranges = Ranges::new(&args.run.ranges)?;
        let draft = draft_of(args)?;
        let has_range = ranges.has_target(args.run.columns.target_col.as_deref());
        let mut method = method_of(model, args.run.rank)?;
        let usual = PriorShares::default();
        method.prior = draft.has_prior().then(|| PriorShares {
            level: usual.level.filter(|_| has_range && draft.has_own_levels()),
            ..usual
        });
        let columns = columns_of(&args.run.columns, ColumnRole::Target)?;
        shares_of(args.held_out.no_split, args.held_out.shares.given())?;
        let fit = method.check(&draft).map_err(by_setting)?;
        fit.check_rows(args.run.columns.max_rows)
            .map_err(by_setting)?;
        Ok(Self {
            columns,
            draft,
            metrics: MetricRelease::of_rows(
                &args.output.metrics,
                model.task,
                ranges.target(),
                MethodName::OwnRidge.words(),
            )?,
            fit,
            method,
            ranges,
        })
    }

    /// The plan before the number of features is known, which affects neither noise nor cost.
    pub(super) fn draft_plan(&self, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        let trainer = with_metrics(&self.fit, self.metrics.as_ref(), target);
        let plan = trainer.plan(self.method.rank, target, adjacency);
        plan.map_err(by_setting)
    }

    /// Model inputs from these columns, and the method for them, at the same cost.
    pub(super) fn inputs(&mut self, table: &SampleTable) -> Result<Inputs> {
        let inputs = self.ranges.inputs(&self.draft, table)?;
        inputs.check().map_err(Error::Usage)?;
        let has_level = self.method.prior.is_some_and(|prior| prior.level.is_some());
        if has_level && !inputs.has_level_prior() {
            return Err(Error::Usage(format!(
                "the target is {}, and `bounds` has no range for it but for another column that is usually a target: name it in `target_col`",
                inputs.target.name
            )));
        }
        self.fit = self.method.check(&inputs)?;
        Ok(inputs)
    }

    /// The largest number of features, including a shared intercept.
    pub(super) fn most_features(&self) -> usize {
        match self.method.method {
            Method::Residual => 256,
            _ => 256.min(1024 / self.method.rank),
        }
    }

    /// The plan; if the number of features is not supported, the error names the relevant flag.
    pub(super) fn plan(
        &self,
        inputs: &Inputs,
        target: ApproxDp,
        adjacency: Adjacency,
    ) -> Result<Plan> {
        let dim = inputs.dim();
        check_rank(self.method.rank, dim, self.most_features())?;
        with_metrics(&self.fit, self.metrics.as_ref(), target).plan(dim, target, adjacency)
    }
}

/// Checks a rank against the number of features, of which at most `most` are supported.
pub(crate) fn check_rank(rank: usize, dim: usize, most: usize) -> Result<()> {
    if (rank..=most).contains(&dim) {
        return Ok(());
    }
    let limit = match dim < rank {
        true => format!("it can be at most {dim}"),
        false => format!("at most {most} are supported"),
    };
    Err(Error::Usage(format!(
        "`rank` is {rank}, and there are {dim} features (with the constant one of a shared intercept): {limit}"
    )))
}

fn method_of(args: &PersonalModelSettings, rank: usize) -> Result<MethodSettings> {
    let (usual, loss) = match args.task {
        TaskKind::Regression => (Method::Residual, ConvexLoss::Squared),
        TaskKind::Classification => (Method::Gradient, ConvexLoss::Logistic),
    };
    let method = args.method.unwrap_or(usual);
    if method == Method::Projectors && args.n_steps.is_some() {
        let text = "`n_steps` has no meaning with `method` projectors";
        return Err(Error::Usage(text.to_owned()));
    }
    if method == Method::Alternating && args.task != TaskKind::Regression {
        let text = "`method` alternating is for the squared loss: not with `task` classification";
        return Err(Error::Usage(text.to_owned()));
    }
    let usual = MethodSettings::new(method, rank, loss);
    let of_gradient = |flag, given, usual| of_gradient(method, flag, given, usual);
    Ok(MethodSettings {
        steps: args.n_steps,
        gradient_clip: of_gradient("gradient_clip", args.gradient_clip, usual.gradient_clip)?,
        learning_rate: of_gradient("learning_rate", args.learning_rate, usual.learning_rate)?,
        ..usual
    })
}

/// A setting of `gradient` only.
fn of_gradient(method: Method, flag: &str, given: Option<f64>, usual: f64) -> Result<f64> {
    if method != Method::Gradient && given.is_some() {
        let text = format!("`{flag}` has no meaning without `method` gradient");
        return Err(Error::Usage(text));
    }
    Ok(given.unwrap_or(usual))
}

fn draft_of(args: &PersonalizeSettings) -> Result<Inputs> {
    let model = &args.run.model;
    let task = task_of(model.task, model.threshold)?;
    let intercept = match task {
        Task::Regression => Intercept::Own,
        Task::Classification { .. } => Intercept::Shared,
    };
    let sparse = model.sparse.unwrap_or(0);
    // without any, users average over fits of all strengths
    let penalties = if sparse > 0 && task == Task::Regression {
        L2_PENALTIES.to_vec()
    } else {
        Vec::new()
    };
    let draft = Inputs {
        target: Column {
            name: String::new(),
            range: None,
        },
        features: Vec::new(),
        intercept: model.intercept.unwrap_or(intercept),
        task,
        l2_penalties: model.l2_penalty.clone().unwrap_or(penalties),
        sparse,
    };
    if task != Task::Regression && draft.l2_penalties.len() > 1 {
        let text = "`l2_penalty` takes one number with `task` classification";
        return Err(Error::Usage(text.to_owned()));
    }
    draft.check_draft().map_err(Error::Usage)?;
    Ok(draft)
}

/// Renames parameters to the settings that determine them.
fn by_setting(error: Error) -> Error {
    let Error::Param(error) = error else {
        return error;
    };
    Error::Param(ParamError {
        name: match error.name {
            // for a draft with as many features as dimensions
            "dim" => "rank",
            "n_rounds" => "n_steps",
            other => other,
        },
        ..error
    })
}
