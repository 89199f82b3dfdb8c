//! Checks for column names that conflict.

use dp_data::{ColumnRole, is_usual_column};

use crate::error::{Error, Result};

/// A setting that names a column, the role of that column, and the name if one is given.
pub(crate) type Named<'a> = (&'a str, ColumnRole, Option<&'a String>);

/// Refuses a column that two settings name, and one that another setting finds by its usual name:
/// one of them must be a mistake, and the model would be meaningless.
pub(crate) fn refuse_shared(settings: &[Named<'_>]) -> Result<()> {
    for (at, &(setting, _, name)) in settings.iter().enumerate() {
        let Some(name) = name else { continue };
        let earlier = &settings[..at];
        if let Some((other, ..)) = earlier.iter().find(|(.., named)| *named == Some(name)) {
            let text =
                format!("`{other}` and `{setting}` both name the column {name}; expected two");
            return Err(Error::Usage(text));
        }
        let finds = |(_, role, named): &&Named<'_>| named.is_none() && is_usual_column(name, *role);
        if let Some((other, role, _)) = settings.iter().find(finds) {
            return Err(Error::Usage(format!(
                "`{setting}` names the column {name}, which is also a usual name of the {role} column: give `{other}`, the name of that column, as well"
            )));
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
