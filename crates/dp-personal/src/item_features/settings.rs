//! Settings of the rounds from flags, and flags that do not apply to them.

use std::path::Path;

use dp_core::{ApproxDp, ParamError};
use dp_pubfeat::{AmImplicitSspParams, AmResidualSspParams, PriorVariances};
use serde::Serialize;

use super::rounds::Rounds;
use crate::error::{Error, Result};
use crate::output::TrainSettings as ReleasedSettings;
use crate::settings::{FactorSettings, FeatureSettings, FeedbackKind, TrainSettings};
use crate::workflows::input::check_feedback;

/// Defaults from the target and the kind of records, overridden by flags; flags of other methods
/// are refused.
pub(super) fn settings(args: &TrainSettings, target: ApproxDp) -> Result<Rounds> {
    let settings = &args.settings;
    if let Some(name) = settings.without_features() {
        let instead = instead_of_range(settings, target).filter(|_| name == "rating_range");
        let instead = instead.unwrap_or_default();
        return usage(&format!(
            "`{name}` has no meaning with `method` am-ssp{instead}"
        ));
    }
    check_feedback(&args.feedback, settings)?;
    refuse_repeats(args.features.feature_cols.as_deref().unwrap_or_default())?;
    Ok(match args.feedback.feedback {
        FeedbackKind::Explicit => Rounds::Ratings(for_ratings(settings, target)?.check()?),
        FeedbackKind::Implicit => Rounds::Likes(for_likes(settings, target).check()?),
    })
}

/// The flags that are equivalent to a rating range.
fn instead_of_range(settings: &FactorSettings, target: ApproxDp) -> Option<String> {
    let &[low, high] = settings.rating_range.as_deref()? else {
        return None;
    };
    let bound = AmResidualSspParams::for_target(target).bound.first * (high - low) / 4.0;
    let center = f64::midpoint(low, high);
    Some(format!(
        ": give `label_center` {center} and `label_bound` {bound} instead"
    ))
}

fn for_ratings(settings: &FactorSettings, target: ApproxDp) -> Result<AmResidualSspParams> {
    let mut params = AmResidualSspParams::for_target(target);
    if let Some(bound) = settings.label_bound {
        let scale = in_label_range(bound)? / params.bound.first;
        params = params.in_units(scale);
    }
    params.dim = settings.dim.unwrap_or(params.dim);
    params.n_rounds = settings.n_rounds.unwrap_or(params.n_rounds);
    params.taste_norm = settings.clip_norm.unwrap_or(params.taste_norm);
    let center = &mut params.user_step.label_center;
    *center = settings.label_center.unwrap_or(*center);
    Ok(params)
}

fn for_likes(settings: &FactorSettings, target: ApproxDp) -> AmImplicitSspParams {
    let mut params = AmImplicitSspParams::for_target(target);
    params.dim = settings.dim.unwrap_or(params.dim);
    params.n_rounds = settings.n_rounds.unwrap_or(params.n_rounds);
    params.taste_norm = settings.clip_norm.unwrap_or(params.taste_norm);
    params
}

/// A column given twice would give two categories with the same names, which the weights file
/// cannot represent.
fn refuse_repeats(columns: &[String]) -> Result<()> {
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].contains(column) {
            return usage(&format!("`feature_cols` names {column} twice"));
        }
    }
    Ok(())
}

/// Checks that the bound is in a range in which the other values derived from it are valid.
fn in_label_range(bound: f64) -> Result<f64> {
    if (0.01..=300.0).contains(&bound) {
        return Ok(bound);
    }
    Err(Error::from(ParamError {
        name: "label_bound",
        value: bound,
        expected: "a number from 0.01 to 300",
    }))
}

/// The table of items, which is required for features.
pub(super) fn items_path(args: &TrainSettings) -> Result<&Path> {
    match &args.input.items {
        Some(path) => Ok(path),
        None => {
            usage("`method` am-ssp needs `items`: a table of public items with columns of names")
        }
    }
}

/// Refuses feature flags if the method has no features.
pub(crate) fn refuse_flags(args: &FeatureSettings) -> Result<()> {
    if args.feature_cols.is_some() || args.min_items.is_some() {
        return usage("`feature_cols` and `min_items` need `method` am-ssp");
    }
    Ok(())
}

fn usage<T>(text: &str) -> Result<T> {
    Err(Error::Usage(text.to_owned()))
}

/// Settings of the rounds, by the kind of records.
#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
pub(crate) enum RoundSettings<'a> {
    Ratings(&'a AmResidualSspParams),
    Likes(&'a AmImplicitSspParams),
}

/// The report entries of a run, and the files of its feature weights and of the items' features.
#[derive(Serialize)]
pub(super) struct Featured<'a> {
    #[serde(flatten)]
    pub(super) params: RoundSettings<'a>,
    pub(super) prior_variances: &'a PriorVariances,
    pub(super) feature_columns: &'a [String],
    pub(super) n_features: usize,
    #[serde(skip)]
    pub(super) files: [(&'static str, Vec<u8>); 2],
}

impl ReleasedSettings for Featured<'_> {
    fn n_rounds(&self) -> usize {
        match self.params {
            RoundSettings::Ratings(params) => params.n_rounds,
            RoundSettings::Likes(params) => params.n_rounds,
        }
    }

    fn dim_by_rule(&self) -> bool {
        false
    }

    fn more_files(&self) -> Vec<(&'static str, Vec<u8>)> {
        self.files.to_vec()
    }
}
