//! Checks for column names that conflict.

use crate::error::{Error, Result};

/// Refuses a column that two flags name: one of them must be a mistake, and the model would be
/// meaningless.
pub(crate) fn refuse_shared(flags: &[(&str, Option<&String>)]) -> Result<()> {
    for (at, (flag, column)) in flags.iter().enumerate() {
        let Some(name) = column else { continue };
        if let Some((other, _)) = flags[..at].iter().find(|(_, named)| named == column) {
            let text = format!("`{other}` and `{flag}` both name the column {name}; expected two");
            return Err(Error::Usage(text));
        }
    }
    Ok(())
}

/// Refuses features that are named twice, or that are the target.
pub(crate) fn refuse_repeated(features: &[String], target: &str) -> Result<()> {
    for (at, name) in features.iter().enumerate() {
        let what = match (name == target, features[..at].contains(name)) {
            (true, _) => "is the target",
            (_, true) => "stands there twice",
            _ => continue,
        };
        let text =
            format!("`feature_cols` names {name}, which {what}; expected other columns, each once");
        return Err(Error::Usage(text));
    }
    Ok(())
}

/// Parses the two ends of a range.
pub(crate) fn pair(flag: &str, given: Option<&[f64]>) -> Result<Option<[f64; 2]>> {
    match given {
        None => Ok(None),
        Some(&[low, high]) if low < high && (high - low).is_finite() => Ok(Some([low, high])),
        Some(_) => Err(Error::Usage(format!(
            "`{flag}` takes a number and a larger one, as in -1,1"
        ))),
    }
}
