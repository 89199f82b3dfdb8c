//! Converts the numbers of a file to model inputs. Public rules only: no constant is computed from
//! the data.

use std::collections::HashSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A column and the public range to which its values are clipped and which is mapped to -1 to 1;
/// without a range, values are used unchanged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The two ends of its range.
    pub range: Option<[f64; 2]>,
}

/// How a user's level is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Intercept {
    /// Every user subtracts their own means from features and labels; the subspace contains slopes.
    Own,
    /// A constant feature, so that levels are in the subspace.
    Shared,
    /// Without a level.
    None,
}

/// The prediction task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Task {
    /// A number.
    Regression,
    /// Whether the target is above the threshold.
    Classification {
        /// In units of the target.
        threshold: f64,
    },
}

/// Everything a user must know to join: public, and part of the model file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// The column to predict.
    pub target: Column,
    /// The columns to predict from.
    pub features: Vec<Column>,
    /// How a user's level is modelled.
    pub intercept: Intercept,
    /// The task.
    pub task: Task,
    /// Ridge penalties from which a user chooses by leave-one-out; classification has exactly one.
    /// Without any, users average over fits of all strengths, with and without the shared part.
    pub l2_penalties: Vec<f64>,
    /// Maximum number of a user's own coefficients outside the subspace, for regression only.
    #[serde(default)]
    pub sparse: usize,
}

impl Column {
    fn encode(&self, x: f64) -> f64 {
        match self.range {
            Some([low, high]) => (2.0 * x.clamp(low, high) - low - high) / (high - low),
            None => x,
        }
    }

    /// Converts back to the units of the file, within the range.
    fn decode(&self, z: f64) -> f64 {
        match self.range {
            Some([low, high]) => (0.5 * (low + high + z * (high - low))).clamp(low, high),
            None => z,
        }
    }
}

impl Inputs {
    /// Number of model inputs per row.
    pub fn dim(&self) -> usize {
        self.features.len() + usize::from(self.intercept == Intercept::Shared)
    }

    /// Names of the model inputs.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let constant = (self.intercept == Intercept::Shared).then(|| "(constant)".to_owned());
        let names = self.features.iter().map(|column| column.name.clone());
        names.chain(constant)
    }

    /// Whether public ranges keep all features between -1 and 1.
    pub fn has_ranges(&self) -> bool {
        self.features.iter().all(|column| column.range.is_some())
    }

    /// Features as model inputs.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "tables of samples are in single precision"
    )]
    pub fn encode(&self, x: &[f32], out: &mut Vec<f32>) {
        out.clear();
        let columns = self.features.iter().zip(x);
        out.extend(columns.map(|(column, &x)| column.encode(x.into()) as f32));
        if self.intercept == Intercept::Shared {
            out.push(1.0);
        }
    }

    /// A label as used by the model.
    pub fn label(&self, y: f32) -> f64 {
        match self.task {
            Task::Regression => self.target.encode(y.into()),
            Task::Classification { threshold } if f64::from(y) > threshold => 1.0,
            Task::Classification { .. } => -1.0,
        }
    }

    /// Converts a score to a value of the target, or to the probability that it is above the
    /// threshold.
    pub fn answer(&self, score: f64) -> f64 {
        match self.task {
            Task::Regression => self.target.decode(score),
            Task::Classification { .. } => 1.0 / (1.0 + (-score).exp()),
        }
    }

    /// Squared error of a score in units of the target, or for classification 1 for the wrong side
    /// of the threshold.
    pub fn error(&self, score: f64, y: f32) -> f64 {
        match self.task {
            Task::Regression => (self.answer(score) - f64::from(y)).powi(2),
            Task::Classification { .. } if (score > 0.0) == (self.label(y) > 0.0) => 0.0,
            Task::Classification { .. } => 1.0,
        }
    }

    /// Name of the metric computed from the mean of [`error`](Self::error).
    pub fn metric(&self) -> &'static str {
        match self.task {
            Task::Regression => "RMSE",
            Task::Classification { .. } => "accuracy",
        }
    }

    /// The metric for a mean error.
    pub fn figure(&self, mean_error: f64) -> f64 {
        match self.task {
            Task::Regression => mean_error.sqrt(),
            Task::Classification { .. } => 1.0 - mean_error,
        }
    }

    /// Ends of an interval of the metric, from those of the first metric of the task, which for
    /// classification is the error rate.
    pub(crate) const fn interval(&self, [lower, upper]: [f64; 2]) -> [f64; 2] {
        match self.task {
            Task::Regression => [lower, upper],
            Task::Classification { .. } => [1.0 - upper, 1.0 - lower],
        }
    }

    /// Checks values that come from flags or from a file.
    ///
    /// # Errors
    /// The reason, if a value is out of range.
    pub fn check(&self) -> Result<(), String> {
        let (most, dim) = (self.sparse, self.dim());
        if most > dim {
            return Err(format!(
                "`sparse` is {most}, more than the {dim} features (a shared intercept included)"
            ));
        }
        self.check_draft()
    }

    /// The same check before the features are known.
    ///
    /// # Errors
    /// The reason, if a value is out of range.
    pub fn check_draft(&self) -> Result<(), String> {
        let columns = self.features.iter().chain([&self.target]);
        for column in columns {
            if let Some(range) = column.range {
                check_range(range)
                    .map_err(|reason| format!("range of {}: {reason}", column.name))?;
            }
        }
        match self.task {
            Task::Classification { threshold } if !threshold.is_finite() => {
                return Err("the threshold (`threshold`) is not finite".to_owned());
            }
            Task::Classification { .. } if self.intercept == Intercept::Own => {
                return Err(
                    "classes have no own means: the intercept (`intercept`) must be shared or none"
                        .to_owned(),
                );
            }
            Task::Classification { .. } if self.sparse > 0 => {
                return Err("`sparse` is for regression, not for classes".to_owned());
            }
            _ => {}
        }
        let usable = |&penalty: &f64| penalty.is_finite() && penalty > 0.0;
        if self.sparse > 0 && self.l2_penalties.is_empty() {
            return Err("`sparse` needs `l2_penalty`".to_owned());
        }
        if !self.l2_penalties.iter().all(usable) {
            return Err("every ridge (`l2_penalty`) must be finite and above 0".to_owned());
        }
        Ok(())
    }
}

/// Checks that the lower end is below the upper one, and that both are finite and not too far apart
/// to divide by.
pub(super) fn check_range([low, high]: [f64; 2]) -> Result<(), String> {
    let width = high - low;
    if low.is_finite() && high.is_finite() && width > 0.0 && width.is_finite() {
        return Ok(());
    }
    Err(format!(
        "{low} to {high} is not from a number to a larger one"
    ))
}

/// Public ranges by column: csv or tsv with `column,lower,upper`.
pub(super) fn ranges_of_file(path: &Path) -> Result<Vec<(String, [f64; 2])>> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::read(path, e))?;
    let bad = |line: usize, reason: &str| {
        Error::model(
            path,
            format!("line {line}: {reason}; expected column,lower,upper"),
        )
    };
    let mut lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty());
    let cut = |line: &str, separator: char| -> Vec<String> {
        line.split(separator)
            .map(|part| part.trim().trim_matches('"').to_owned())
            .collect()
    };
    let header = lines.next().map_or("", |(_, header)| header);
    let is_header = |separator: &char| cut(header, *separator) == ["column", "lower", "upper"];
    let Some(separator) = ['\t', ',', ';'].into_iter().find(is_header) else {
        return Err(bad(1, "no such header"));
    };
    let (mut ranges, mut seen) = (Vec::new(), HashSet::new());
    for (at, line) in lines {
        let fields = cut(line, separator);
        let [name, low, high] = fields.as_slice() else {
            return Err(bad(at, "not three fields"));
        };
        // between semicolons, decimal commas are accepted too
        let number = |text: &String| text.replace(',', ".").parse();
        let (Ok(low), Ok(high)) = (number(low), number(high)) else {
            return Err(bad(at, "not two numbers"));
        };
        check_range([low, high]).map_err(|reason| bad(at, &reason))?;
        if !seen.insert(name.clone()) {
            return Err(bad(at, "a column a second time"));
        }
        ranges.push((name.clone(), [low, high]));
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests;
