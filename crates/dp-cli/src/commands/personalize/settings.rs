//! Public settings of a run, from flags and the file of ranges.

use dp_accounting::Plan;
use dp_core::{Adjacency, ApproxDp, ParamError, params};
use dp_data::{SampleColumns, SampleTable};
use dp_personalize::ConvexLoss;

use super::held_out::shares;
use crate::args::{ModelArgs, PersonalizeArgs, TaskKind};
use crate::error::{Error, Result};
use crate::personal::{
    Column, Fit, Inputs, Intercept, Method, MethodSettings, Task, ranges_of_file,
};

/// Ridges that users choose from.
const L2_PENALTIES: [f64; 6] = [1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0];
/// The ridge of a logistic fit: labels of few rows are separable.
const LOGISTIC_PENALTY: f64 = 0.1;

/// All that is known before the data is read.
pub(super) struct Settings {
    pub(super) columns: SampleColumns,
    pub(super) method: MethodSettings,
    pub(super) fit: Fit,
    ranges: Vec<(String, [f64; 2])>,
    feature_range: Option<[f64; 2]>,
    target_range: Option<[f64; 2]>,
    /// Without the features, which the header may have to name.
    draft: Inputs,
}

impl Settings {
    pub(super) fn new(args: &PersonalizeArgs) -> Result<Self> {
        let model = &args.model;
        let method = method_of(model, args.rank)?;
        let ranges = match &args.ranges.bounds {
            Some(path) => ranges_of_file(path)?,
            None => Vec::new(),
        };
        params::in_range(
            "--max-rows",
            args.columns.max_rows,
            1,
            1 << 16,
            "a whole number from 1 to 65536",
        )?;
        check_shares(args)?;
        Ok(Self {
            columns: SampleColumns {
                user: args.columns.user_col.clone(),
                target: args.columns.target_col.clone(),
                features: args.columns.feature_cols.clone(),
                ..SampleColumns::default()
            },
            draft: draft_of(args)?,
            feature_range: pair("--feature-range", args.ranges.feature_range.as_deref())?,
            target_range: pair("--target-range", args.ranges.target_range.as_deref())?,
            fit: method.check().map_err(by_flag)?,
            method,
            ranges,
        })
    }

    /// The plan before the number of features is known, which changes neither noise nor cost.
    pub(super) fn draft_plan(&self, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        let plan = self.fit.plan(self.method.rank, target, adjacency);
        plan.map_err(by_flag)
    }

    /// What models see of these columns.
    pub(super) fn inputs(&self, table: &SampleTable) -> Result<Inputs> {
        let features = table.features();
        let known = |name: &str| self.ranges.iter().find(|(column, _)| column == name);
        let known = |name: &str| known(name).map(|(_, range)| *range);
        let mut inputs = self.draft.clone();
        let target = table.target().unwrap_or_default().to_owned();
        inputs.target = Column {
            range: known(&target).or(self.target_range),
            name: target,
        };
        inputs.features = features
            .iter()
            .map(|name| Column {
                name: name.clone(),
                range: known(name).or(self.feature_range),
            })
            .collect();
        let target = &inputs.target.name;
        if let Some((name, _)) =
            (self.ranges.iter()).find(|(name, _)| name != target && !features.contains(name))
        {
            let text = format!("--bounds has a range for {name}, which is no column in use");
            return Err(Error::Usage(text));
        }
        Ok(inputs)
    }

    /// The plan, with a number of features that does not fit told by the flag that does.
    pub(super) fn plan(
        &self,
        inputs: &Inputs,
        target: ApproxDp,
        adjacency: Adjacency,
    ) -> Result<Plan> {
        let (dim, rank) = (inputs.dim(), self.method.rank);
        let most = if self.method.method == Method::Residual {
            256
        } else {
            256.min(1024 / rank)
        };
        if !(rank..=most).contains(&dim) {
            let text = format!(
                "{dim} features (a shared intercept included) and --rank {rank}; expected from {rank} to \
                 {most} features: choose another --rank or fewer --feature-cols"
            );
            return Err(Error::Usage(text));
        }
        self.fit.plan(dim, target, adjacency)
    }
}

fn method_of(args: &ModelArgs, rank: usize) -> Result<MethodSettings> {
    let (usual, loss) = match args.task {
        TaskKind::Regression => (Method::Residual, ConvexLoss::Squared),
        TaskKind::Classification => (Method::Gradient, ConvexLoss::Logistic),
    };
    let method = args.method.unwrap_or(usual);
    if method == Method::Projectors && args.steps.is_some() {
        let text = "--steps has no meaning with --method projectors";
        return Err(Error::Usage(text.to_owned()));
    }
    if method == Method::Alternating && args.task != TaskKind::Regression {
        let text = "--method alternating is for the squared loss: not with --task classification";
        return Err(Error::Usage(text.to_owned()));
    }
    Ok(MethodSettings {
        steps: args.steps,
        gradient_clip: args.gradient_clip,
        learning_rate: args.learning_rate,
        ..MethodSettings::new(method, rank, loss)
    })
}

fn draft_of(args: &PersonalizeArgs) -> Result<Inputs> {
    let model = &args.model;
    let task = match (model.task, model.threshold) {
        (TaskKind::Regression, None) => Task::Regression,
        (TaskKind::Regression, Some(_)) => {
            let text = "--threshold needs --task classification";
            return Err(Error::Usage(text.to_owned()));
        }
        (TaskKind::Classification, threshold) => Task::Classification {
            threshold: threshold.unwrap_or(0.5),
        },
    };
    let (intercept, penalties) = match task {
        Task::Regression => (Intercept::Own, L2_PENALTIES.to_vec()),
        Task::Classification { .. } => (Intercept::Shared, vec![LOGISTIC_PENALTY]),
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
        sparse: model.sparse.unwrap_or(0),
    };
    if task != Task::Regression && draft.l2_penalties.len() > 1 {
        let text = "--l2-penalty takes one number with --task classification";
        return Err(Error::Usage(text.to_owned()));
    }
    draft.check().map_err(Error::Usage)?;
    Ok(draft)
}

fn check_shares(args: &PersonalizeArgs) -> Result<()> {
    match shares(args).check() {
        Err(dp_data::Error::Param(error)) => Err(Error::Param(ParamError {
            name: match error.name {
                "test_rows" => "--test-share",
                _ => "--held-out-users",
            },
            ..error
        })),
        other => Ok(other?),
    }
}

/// Two ends of a range.
fn pair(flag: &str, given: Option<&[f64]>) -> Result<Option<[f64; 2]>> {
    match given {
        None => Ok(None),
        Some(&[low, high]) if low < high && (high - low).is_finite() => Ok(Some([low, high])),
        Some(_) => Err(Error::Usage(format!(
            "{flag} takes a number and a larger one, as in -1,1"
        ))),
    }
}

/// Names settings by the flags that set them.
fn by_flag(error: Error) -> Error {
    let Error::Param(error) = error else {
        return error;
    };
    Error::Param(ParamError {
        name: match error.name {
            // of a draft with as many features as dimensions
            "rank" | "--dim" => "--rank",
            "n_steps" | "n_iterations" => "--steps",
            "gradient_clip" => "--gradient-clip",
            "learning_rate" => "--learning-rate",
            other => other,
        },
        ..error
    })
}
