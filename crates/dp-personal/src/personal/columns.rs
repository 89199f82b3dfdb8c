//! Settings of several workflows about columns, their public ranges and held-out rows.

use std::collections::{HashMap, HashSet};

use dp_core::{ParamError, params};
use dp_data::{ColumnRole, SampleColumns, SampleShares, SampleTable};

use super::inputs::{Column, Inputs, Task, ranges_of_file};
use crate::columns::{pair, refuse_repeated, refuse_shared};
use crate::error::{Error, Result};
use crate::settings::{ColumnSettings, RangeSettings, TaskKind};

/// Public ranges by column.
pub struct Ranges {
    by_column: Vec<(String, [f64; 2])>,
    feature: Option<[f64; 2]>,
    target: Option<[f64; 2]>,
}

impl Ranges {
    /// The ranges given by settings and their file.
    ///
    /// # Errors
    /// When a range is invalid, or the file cannot be read.
    pub fn new(args: &RangeSettings) -> Result<Self> {
        Ok(Self {
            by_column: match &args.bounds {
                Some(path) => ranges_of_file(path)?,
                None => Vec::new(),
            },
            feature: pair("feature_range", args.feature_range.as_deref())?,
            target: pair("target_range", args.target_range.as_deref())?,
        })
    }

    /// The range of the target, if settings give it.
    pub(crate) const fn target(&self) -> Option<[f64; 2]> {
        self.target
    }

    /// Whether settings give the range of the target, as far as that is known before the header is read: under its name in the file of ranges,
    /// or under a usual name if it is not named.
    pub(crate) fn has_target(&self, name: Option<&str>) -> bool {
        let is_target = |column: &str| match name {
            Some(name) => column == name,
            None => dp_data::is_usual_column(column, ColumnRole::Target),
        };
        self.target.is_some() || self.by_column.iter().any(|(column, _)| is_target(column))
    }

    /// Model inputs from the columns of a table.
    ///
    /// # Errors
    /// When a column is named twice, or the file of ranges names one that is not in use.
    pub fn inputs(&self, draft: &Inputs, table: &SampleTable) -> Result<Inputs> {
        let target = table.target().unwrap_or_default();
        refuse_repeated(table.features(), target)?;
        self.inputs_of(draft, table.features(), target)
    }

    /// Model inputs from the names of the columns.
    ///
    /// # Errors
    /// When the file of ranges names a column that is not in use.
    pub fn inputs_of(&self, draft: &Inputs, features: &[String], target: &str) -> Result<Inputs> {
        let by_column = self.by_column.iter();
        let by_column: HashMap<&str, [f64; 2]> = by_column
            .map(|(column, range)| (column.as_str(), *range))
            .collect();
        let known = |name: &str| by_column.get(name).copied();
        let mut inputs = draft.clone();
        inputs.target = Column {
            range: known(target).or(self.target),
            name: target.to_owned(),
        };
        inputs.features = features
            .iter()
            .map(|name| Column {
                name: name.clone(),
                range: known(name).or(self.feature),
            })
            .collect();
        let used: HashSet<&str> = features.iter().map(String::as_str).collect();
        let unused = |name: &str| name != target && !used.contains(name);
        if let Some((name, _)) = self.by_column.iter().find(|(name, _)| unused(name)) {
            let text = format!("`bounds` has a range for {name}, which is not a column in use");
            return Err(Error::Usage(text));
        }
        Ok(inputs)
    }
}

/// The columns to read, after checking `max_rows`. `target` is the role of the column to predict.
///
/// # Errors
/// When settings are out of range or conflict.
pub fn columns_of(args: &ColumnSettings, target: ColumnRole) -> Result<SampleColumns> {
    params::in_range(
        "max_rows",
        args.max_rows,
        1,
        1 << 16,
        "a whole number from 1 to 65536",
    )?;
    refuse_shared(&[
        ("user_col", ColumnRole::User, args.user_col.as_ref()),
        ("target_col", target, args.target_col.as_ref()),
    ])?;
    let (features, target) = (args.feature_cols.as_deref(), args.target_col.as_deref());
    refuse_repeated(features.unwrap_or_default(), target.unwrap_or_default())?;
    Ok(SampleColumns {
        user: args.user_col.clone(),
        target: args.target_col.clone(),
        features: args.feature_cols.clone(),
        names: args.header.clone(),
        ..SampleColumns::default()
    })
}

/// The prediction task.
///
/// # Errors
/// When settings are out of range or conflict.
pub fn task_of(kind: TaskKind, threshold: Option<f64>) -> Result<Task> {
    match (kind, threshold) {
        (TaskKind::Regression, None) => Ok(Task::Regression),
        (TaskKind::Regression, Some(_)) => {
            let text = "`threshold` needs `task` classification";
            Err(Error::Usage(text.to_owned()))
        }
        (TaskKind::Classification, threshold) => Ok(Task::Classification {
            threshold: threshold.unwrap_or(0.5),
        }),
    }
}

/// The held-out shares, checked: none with `no_split`.
///
/// # Errors
/// When settings are out of range or conflict.
pub fn shares_of(no_split: bool, shares: SampleShares) -> Result<SampleShares> {
    if no_split {
        return Ok(SampleShares {
            test_rows: 0.0,
            held_out_users: 0.0,
        });
    }
    match shares.check() {
        Ok(()) => Ok(shares),
        Err(dp_data::Error::Param(error)) => Err(Error::Param(ParamError {
            name: match error.name {
                "test_rows" => "test_share",
                _ => "held_out_users",
            },
            ..error
        })),
        Err(other) => Err(other.into()),
    }
}
