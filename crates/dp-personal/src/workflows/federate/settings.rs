//! Public settings of a run, from flags.

use std::path::Path;

use dp_core::{ApproxDp, ParamError, params};
use dp_data::{ColumnRole, SampleColumns};

use super::runs::Shape;
use crate::error::{Error, Result};
use crate::federated::{HoldOut, OWN_ROWS, RunSettings};
use crate::metric_release::MetricRelease;
use crate::personal::{Column, Inputs, Ranges, columns_of, task_of};
use crate::settings::{DataFormat, FederateSettings};

/// Default range from which ratings are mapped unless `target_range` is given: one to five stars.
const STARS: [f64; 2] = [1.0, 5.0];
const MAX_ALPHAS: usize = 32;
/// Maximum number of features of a model, including a constant one.
const MAX_FEATURES: usize = 1 << 16;

/// All values that are known before any file is read.
pub(super) struct Settings {
    pub(super) format: DataFormat,
    pub(super) columns: SampleColumns,
    pub(super) targets: Vec<ApproxDp>,
    /// In order, without repeats.
    pub(super) alphas: Vec<f64>,
    /// The settings of the release of held-out metrics.
    pub(super) metrics: Option<MetricRelease>,
    shares: HoldOut,
    ranges: Ranges,
    draft: Inputs,
}

impl Settings {
    pub(super) fn new(args: &FederateSettings) -> Result<Self> {
        let targets = args
            .epsilon
            .iter()
            .map(|&e| ApproxDp::target(e, args.delta));
        let format = format_of(args)?;
        let ranges = Ranges::new(&args.run.ranges)?;
        let (usual, target) = match format {
            DataFormat::Ratings => (Some(STARS), ColumnRole::Rating),
            _ => (None, ColumnRole::Target),
        };
        let settings = Self {
            format,
            metrics: MetricRelease::of_rows(
                &args.output.metrics,
                args.run.model.task,
                ranges.target().or(usual),
                OWN_ROWS,
            )?,
            columns: columns_of(&args.run.columns, target)?,
            targets: targets.collect::<Result<_, _>>()?,
            alphas: alphas_of(&args.run.alpha_grid)?,
            shares: shares_of(args)?,
            ranges,
            draft: draft_of(args)?,
        };
        if format == DataFormat::Ratings && args.run.ranges.bounds.is_some() {
            let text = "`bounds` has no meaning with ratings: their features are 0 or 1";
            return Err(Error::Usage(text.to_owned()));
        }
        settings
            .run(args, 1.0)
            .fit(1.0, args.run.model.n_users.unwrap_or(1.0))
            .map_err(by_setting)?;
        if settings.metrics.is_some() && settings.targets.len() > 1 {
            let text = "`release_metrics` is for one `epsilon`: an exploration releases nothing";
            return Err(Error::Usage(text.to_owned()));
        }
        params::at_least_one("batch_size", args.run.model.batch_size.unwrap_or(1))?;
        if settings.has_choice() && settings.shares.validation <= 0.0 {
            let text = "`validation_share` 0 leaves no rows to compare alphas on: give a share above 0, or one ratio";
            return Err(Error::Usage(text.to_owned()));
        }
        if let Some(n) = args.run.n_features {
            check_width("n_features", n, settings.draft.dim() + n)?;
        }
        Ok(settings)
    }

    /// Settings of a run in which users' losses have at most this curvature.
    pub(super) fn run(&self, args: &FederateSettings, curvature: f64) -> RunSettings {
        let model = &args.run.model;
        RunSettings {
            n_rounds: model.n_rounds,
            learning_rate: model.learning_rate.unwrap_or(1.0 / curvature),
            clip_norm: model.clip_norm,
            shrink: model.shrink,
            batch_size: model.batch_size.unwrap_or(args.run.columns.max_rows),
            sampling_probability: model.sampling_probability,
        }
    }

    /// Alphas for which something is released.
    pub(super) fn releasing(&self) -> Vec<f64> {
        self.alphas.iter().copied().filter(|&a| a > 0.0).collect()
    }

    /// Whether one of several alphas is chosen.
    pub(super) fn has_choice(&self) -> bool {
        self.targets.len() == 1 && self.alphas.len() > 1
    }

    /// Held-out shares: comparison rows only if alphas are compared.
    pub(super) fn shares_of_run(&self) -> HoldOut {
        let validation = if self.has_choice() {
            self.shares.validation
        } else {
            0.0
        };
        HoldOut {
            validation,
            ..self.shares
        }
    }

    /// Inputs that determine the runs of all alphas in addition to their settings.
    pub(super) fn shape(&self, args: &FederateSettings) -> Shape {
        Shape {
            alphas: self.alphas.clone(),
            delta: args.delta,
            n_users: args.run.model.n_users,
            loss_range: args.run.choice.loss_range,
            shares: self.shares_of_run(),
            max_rows: args.run.columns.max_rows,
            split_seed: args.held_out.split_seed,
        }
    }

    /// Model inputs from the columns of a table; their number is checked here, before anything is
    /// spent.
    pub(super) fn inputs(&self, features: &[String], target: &str) -> Result<Inputs> {
        let mut inputs = self.ranges.inputs_of(&self.draft, features, target)?;
        if self.format == DataFormat::Ratings {
            inputs
                .features
                .iter_mut()
                .for_each(|column| column.range = None);
            inputs.target.range = inputs.target.range.or(Some(STARS));
        }
        check_width("number of features", inputs.features.len(), inputs.dim())?;
        Ok(inputs)
    }
}

/// Refuses invalid numbers of features: of the data, and including a constant one.
fn check_width(name: &'static str, n_features: usize, dim: usize) -> Result<()> {
    let expected = "a whole number from 1 to 65536, a constant feature counted";
    for n in [n_features, dim] {
        params::in_range(name, n, 1, MAX_FEATURES, expected)?;
    }
    Ok(())
}

fn format_of(args: &FederateSettings) -> Result<DataFormat> {
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    let format = args.run.format.unwrap_or_else(|| match &args.run.items {
        Some(_) => DataFormat::Ratings,
        None if args.data.file().is_some_and(is_json) => DataFormat::Leaf,
        None => DataFormat::Csv,
    });
    let named = [&args.run.columns.user_col, &args.run.columns.target_col];
    match format {
        DataFormat::Csv | DataFormat::Ratings if args.run.label_index.is_some() => {
            usage("`label_index` is for LEAF JSON")
        }
        DataFormat::Csv | DataFormat::Ratings if args.run.n_features.is_some() => usage(
            "`n_features` is for LEAF JSON: elsewhere columns or items say how many there are",
        ),
        DataFormat::Ratings if args.run.items.is_none() => {
            usage("ratings need `items`, the public list of what is rated")
        }
        DataFormat::Csv | DataFormat::Leaf if args.run.items.is_some() => {
            usage("`items` is for ratings: leave `format` out")
        }
        DataFormat::Ratings if args.run.columns.feature_cols.is_some() => {
            usage("`feature_cols` has no meaning with ratings: features are those of `items`")
        }
        DataFormat::Leaf
            if args.run.columns.feature_cols.is_some()
                || args.run.columns.header.is_some()
                || named.iter().any(|name| name.is_some()) =>
        {
            usage(
                "columns have no names in LEAF JSON: leave `user_col`, `target_col`, `feature_cols` and `header` out",
            )
        }
        DataFormat::Leaf if args.run.n_features.is_none() => usage(
            "LEAF JSON needs `n_features`, the public number of features of a row: a row must not decide it",
        ),
        known => Ok(known),
    }
}

fn is_json(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.ends_with(".json")
}

fn alphas_of(given: &[f64]) -> Result<Vec<f64>> {
    for &alpha in given {
        if alpha.is_nan() || alpha < 0.0 {
            return Err(Error::Param(ParamError {
                name: "alpha_grid",
                value: alpha,
                expected: "numbers from 0, infinity (inf) included",
            }));
        }
    }
    let mut alphas = given.to_vec();
    alphas.sort_by(f64::total_cmp);
    alphas.dedup_by(|a, b| a.total_cmp(b).is_eq() || (*a <= 0.0 && *b <= 0.0));
    params::in_range(
        "alpha_grid",
        alphas.len(),
        1,
        MAX_ALPHAS,
        "1 to 32 different ratios",
    )?;
    if alphas.iter().all(|&alpha| alpha <= 0.0) {
        let text = "`alpha_grid` needs a ratio above 0: with 0 alone nothing is learned together or released";
        return Err(Error::Usage(text.to_owned()));
    }
    Ok(alphas)
}

fn shares_of(args: &FederateSettings) -> Result<HoldOut> {
    let held_out = &args.held_out;
    let tested = crate::personal::shares_of(held_out.no_split, held_out.shares.given())?;
    let (name, validation) = ("validation_share", args.run.choice.validation_share);
    if !(0.0..1.0).contains(&validation) {
        return Err(Error::Param(ParamError {
            name,
            value: validation,
            expected: "from 0 to below 1",
        }));
    }
    Ok(HoldOut {
        test: tested.test_rows,
        validation,
        held_out_users: tested.held_out_users,
    })
}

fn draft_of(args: &FederateSettings) -> Result<Inputs> {
    let draft = Inputs {
        target: Column {
            name: String::new(),
            range: None,
        },
        features: Vec::new(),
        intercept: args.run.model.intercept,
        task: task_of(args.run.model.task, args.run.model.threshold)?,
        l2_penalties: Vec::new(),
        sparse: 0,
    };
    draft.check().map_err(Error::Usage)?;
    Ok(draft)
}

/// Renames parameters to the settings that determine them.
pub(super) fn by_setting(error: Error) -> Error {
    let Error::Param(error) = error else {
        return error;
    };
    Error::Param(ParamError {
        name: match error.name {
            "loss_bound" => "loss_range",
            other => other,
        },
        ..error
    })
}
