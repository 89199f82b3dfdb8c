//! Answers as JSON.

use dp_accounting::questions::Quantity;
use serde_json::{Value, json};

use super::Answered;

/// One case: its figures, or why there are none.
pub(super) fn object(answered: &Answered<'_>) -> Value {
    let (id, seconds) = (answered.case.id(), answered.seconds);
    match &answered.answer {
        Ok(answer) => {
            let figure = |value| number(answer.quantity, value);
            let mut object = json!({
                "id": id,
                "value": figure(answer.value),
                "lower": figure(answer.lower),
                "upper": figure(answer.upper),
                "method": answer.method,
                "seconds": seconds,
            });
            if let Some(note) = answer.note {
                object["note"] = note.into();
            }
            object
        }
        Err(error) => json!({ "id": id, "error": error, "seconds": seconds }),
    }
}

/// Counts as whole numbers, everything else as it is.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are whole, not negative, and the cast saturates"
)]
pub(in crate::commands) fn number(quantity: Quantity, value: f64) -> Value {
    match quantity {
        Quantity::Count => (value as u64).into(),
        _ => value.into(),
    }
}
