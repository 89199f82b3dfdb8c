//! How the numbers of a mechanism are read.

use serde::{Deserialize, Deserializer};

/// A number that may be null but not absent.
pub(super) fn nullable<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<f64>, D::Error> {
    Option::deserialize(from)
}

pub(super) fn count<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<u64>, D::Error> {
    let number = Option::<Whole>::deserialize(from)?;
    number.map(Whole::number).transpose()
}

pub(super) fn whole<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<u64, D::Error> {
    Whole::deserialize(from)?.number()
}

/// A whole number, perhaps written as 1e6.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number")]
enum Whole {
    Integer(u64),
    Float(f64),
}

impl Whole {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and at most 2^53"
    )]
    fn number<E: serde::de::Error>(self) -> std::result::Result<u64, E> {
        match self {
            Self::Integer(n) => Ok(n),
            Self::Float(x) if x.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&x) => {
                Ok(x as u64)
            }
            Self::Float(x) => Err(E::custom(format_args!("{x} is no whole number"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mechanism;

    const GAUSSIAN: &str = r#"{"mechanism":"gaussian","count":1,"sigma":3,"sensitivity":2}"#;

    #[test]
    fn counts_may_be_written_as_floats_and_nothing_else() {
        let gaussian = |count: &str| {
            let text = GAUSSIAN.replace("\"count\":1", &format!("\"count\":{count}"));
            serde_json::from_str::<Mechanism>(&text).map(|m| m.count())
        };
        assert_eq!(gaussian("1e6").unwrap(), Some(1_000_000));
        assert_eq!(gaussian("18446744073709551615").unwrap(), Some(u64::MAX));
        assert_eq!(gaussian("null").unwrap(), None);
        for bad in [
            "-1",
            "1.5",
            "1e17",
            "18446744073709551616",
            "\"1\"",
            "true",
            "[]",
        ] {
            assert!(gaussian(bad).is_err(), "{bad}");
        }
    }
}
