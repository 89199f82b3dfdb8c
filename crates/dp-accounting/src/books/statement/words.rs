//! The statement in words.

use std::fmt;

use super::PrivacyStatement;
use crate::books::certificate::{ReleasedOutput, Status};
use crate::books::figures::rounded_up;

/// The statement for a terminal, two spaces in.
impl fmt::Display for PrivacyStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  data set  {}", self.data_set_id)?;
        writeln!(f, "  unit      {}", self.unit)?;
        if let Status::NotPrivate { reason } = &self.status {
            writeln!(f, "\n  NOT PRIVATE: {reason}. Nothing is guaranteed.")?;
        }
        if let Some(guarantee) = &self.guarantee {
            writeln!(f, "  delta     {:e}", guarantee.delta)?;
        }
        for (neighbours, epsilon) in self.epsilons() {
            writeln!(f, "  epsilon   {epsilon:<8}  {neighbours}")?;
        }
        if let Some(method) = self.method_line() {
            writeln!(f, "            {method}")?;
        }
        if self.guarantee.is_some() {
            writeln!(f, "\n  what it means")?;
        }
        for sentence in self.meaning() {
            wrapped(f, &sentence)?;
        }
        let released =
            |output: &ReleasedOutput| format!("{} (seen by: {})", output.what, output.to);
        let covered: Vec<String> = self.released.iter().map(released).collect();
        let title = if self.guarantee.is_some() {
            "covered"
        } else {
            "released"
        };
        list(f, title, &covered)?;
        list(f, "not covered", &self.not_covered)?;
        list(f, "assumed", &self.assumptions)?;
        if self.guarantee.is_some() {
            list(f, "tuning", &[self.tuning_line().to_owned()])?;
        }
        Ok(())
    }
}

/// Lines of about 90 characters, four spaces in.
fn wrapped(f: &mut fmt::Formatter<'_>, sentence: &str) -> fmt::Result {
    let mut length = 0;
    for word in sentence.split(' ') {
        let fits = length > 0 && length + word.len() < 90;
        match (length, fits) {
            (0, _) => write!(f, "    {word}")?,
            (_, true) => write!(f, " {word}")?,
            (_, false) => write!(f, "\n    {word}")?,
        }
        length = word.len() + if fits { length + 1 } else { 0 };
    }
    writeln!(f)
}

fn list(f: &mut fmt::Formatter<'_>, title: &str, entries: &[String]) -> fmt::Result {
    if entries.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n  {title}")?;
    entries
        .iter()
        .try_for_each(|entry| writeln!(f, "    {entry}"))
}

/// At least `value`, to three digits.
pub(super) fn short(value: f64) -> String {
    if !value.is_finite() || value >= 1e6 {
        return rounded_up(value);
    }
    let scale = if value < 10.0 { 100.0 } else { 1.0 };
    format!("{}", (value * scale * (1.0 - 1e-12)).ceil() / scale)
}

/// At least a probability, in per cent.
pub(super) fn percent(probability: f64) -> String {
    let tenths = (probability * 1000.0 * (1.0 - 1e-12)).ceil();
    format!("{}", (tenths / 10.0).min(100.0))
}
