//! Parses `--size KEY=VALUE`.

use dp_personal::error::{Error, Result};

/// Passes each key and value to `set`, which returns whether it knows the key.
pub(crate) fn apply(
    sizes: &[String],
    known: &str,
    mut set: impl FnMut(&str, f64) -> bool,
) -> Result<()> {
    for given in sizes {
        let parsed = given
            .split_once('=')
            .and_then(|(key, value)| Some((key, value.parse::<f64>().ok()?)));
        let parsed = parsed.filter(|(_, value)| value.is_finite() && *value >= 0.0);
        if !parsed.is_some_and(|(key, value)| set(key, value)) {
            return Err(Error::Usage(format!(
                "--size {given}: expected KEY=NUMBER from 0, KEY one of {known}"
            )));
        }
    }
    Ok(())
}

/// A whole number, or 0, which is not valid for any size.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates; sizes out of range are refused by the set-up"
)]
pub(crate) fn whole(value: f64) -> usize {
    if value.fract() == 0.0 {
        value as usize
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_numbers_must_be_known() {
        let mut n = 0;
        let mut set = |key: &str, value: f64| {
            n = whole(value);
            key == "n"
        };
        assert!(apply(&["n=12".to_owned()], "n", &mut set).is_ok());
        for bad in ["n", "n=x", "m=1", "n=-1", "n=nan", "n=inf"] {
            assert!(apply(&[bad.to_owned()], "n", &mut set).is_err(), "{bad}");
        }
        assert_eq!((whole(12.0), whole(1.5), whole(-3.0)), (12, 0, 0));
    }
}
