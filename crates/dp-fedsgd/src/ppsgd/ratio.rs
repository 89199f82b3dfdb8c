//! A ratio of steps in files: a number, or `"inf"`, which JSON has no number for.

use serde::{Deserialize, Deserializer, Serializer};

const INFINITE: &str = "inf";

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(f64),
    Word(String),
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(super) fn serialize<S: Serializer>(ratio: &f64, to: S) -> Result<S::Ok, S::Error> {
    if ratio.is_infinite() && *ratio > 0.0 {
        return to.serialize_str(INFINITE);
    }
    to.serialize_f64(*ratio)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    match Written::deserialize(from)? {
        Written::Number(ratio) => Ok(ratio),
        Written::Word(word) if word == INFINITE => Ok(f64::INFINITY),
        Written::Word(_) => Err(serde::de::Error::custom("expected a number or \"inf\"")),
    }
}
