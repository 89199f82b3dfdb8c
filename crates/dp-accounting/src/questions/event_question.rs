use std::ops::Range;

use dp_core::{Adjacency, ApproxDp, DpEvent};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{Calibration, QuestionError, Result, Trial, profile};
use super::question::{Given, Word, quoted_non_numbers, words};
use super::{Answer, Quantity};
use crate::engines::accountant::PrivacyBound;

/// An event file: one [`DpEvent`] and one question about it.
///
/// ```text
/// {"adjacency": A, "event": E, "delta": d}                epsilon at delta
/// {"adjacency": A, "event": E, "epsilon": e}              delta at epsilon
/// {"adjacency": A, "event": E, "epsilon": e, "delta": d}  the parameter that is null in E
/// ```
///
/// The adjacency is `add-remove-user` if none is given. The parameters that may be null are
/// `noise_multiplier`, `sigma`, `rate`, `sampling_probability` and `count`.
///
/// # Examples
/// ```
/// use dp_accounting::questions::EventQuestion;
/// let question = EventQuestion::from_json(
///     r#"{"event": {"mechanism": "repeated", "count": 100, "event":
///         {"mechanism": "gaussian", "noise_multiplier": 10, "replace_factor": "two"}},
///         "delta": 1e-5}"#,
/// )?;
/// let epsilon = question.answer()?;
/// assert!(epsilon.lower <= 4.377178095681 && 4.377178095681 <= epsilon.upper);
/// # Ok::<(), dp_accounting::questions::QuestionError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct EventQuestion {
    adjacency: Adjacency,
    event: String,
    asked: Asked,
}

#[derive(Debug, Clone, PartialEq)]
enum Asked {
    Profile(Given),
    Parameter {
        quantity: Quantity,
        place: Range<usize>,
        target: ApproxDp,
    },
}

/// A calibrated event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Solved {
    /// The value of the parameter.
    pub answer: Answer,
    /// The event with the parameter filled in, at the value that certainly meets the target.
    pub event: DpEvent,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    adjacency: Adjacency,
    event: Box<RawValue>,
    epsilon: Option<f64>,
    delta: Option<f64>,
}

impl EventQuestion {
    /// Reads an event file.
    ///
    /// # Errors
    /// [`QuestionError::Syntax`]; [`QuestionError::Unclear`] unless exactly one quantity is asked
    /// for; [`QuestionError::NotAsked`] for a null parameter that cannot be solved for;
    /// [`QuestionError::Accounting`] for an epsilon or a delta out of range.
    pub fn from_json(text: &str) -> Result<Self> {
        let file: File = serde_json::from_str(&quoted_non_numbers(text))?;
        let event: String = file.event.get().to_owned();
        let is_null = |word: &Word| &event[word.place.clone()] == "null";
        let nulls: Vec<Word> = words(&event).into_iter().filter(is_null).collect();
        let asked = match (nulls.as_slice(), file.epsilon, file.delta) {
            ([], None, Some(delta)) => Asked::Profile(Given::Delta(delta).checked()?),
            ([], Some(epsilon), None) => Asked::Profile(Given::Epsilon(epsilon).checked()?),
            ([null], Some(epsilon), Some(delta)) => Asked::Parameter {
                quantity: solvable(&event, null)?,
                place: null.place.clone(),
                target: ApproxDp::target(epsilon, delta)?,
            },
            _ => return Err(QuestionError::Unclear),
        };
        let question = Self {
            adjacency: file.adjacency,
            event,
            asked,
        };
        let trial = match question.asked {
            Asked::Profile(_) => None,
            Asked::Parameter { quantity, .. } => Some(Trial::anything(quantity)),
        };
        question.with(trial)?;
        Ok(question)
    }

    /// The adjacency of the question.
    #[must_use]
    pub const fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// The same question for the same unit under the other neighbouring relation.
    #[must_use]
    pub fn under_other_neighbours(&self) -> Self {
        let adjacency = other(self.adjacency);
        Self {
            adjacency,
            ..self.clone()
        }
    }

    /// A short description of what is asked.
    #[must_use]
    pub fn asked(&self) -> String {
        match &self.asked {
            Asked::Profile(given) => given.to_string(),
            Asked::Parameter {
                quantity, target, ..
            } => format!("{quantity} for ({}, {:e})", target.epsilon, target.delta),
        }
    }

    /// The answer.
    ///
    /// # Errors
    /// [`QuestionError`] if the question cannot be answered.
    pub fn answer(&self) -> Result<Answer> {
        match &self.asked {
            &Asked::Profile(given) => {
                let events = [(self.with(None)?, 1)];
                let bound = profile(&events, self.adjacency, given)?;
                Answer::of_bound(given.asked(), bound)
            }
            Asked::Parameter { .. } => Ok(self.solve()?.answer),
        }
    }

    /// The target, if a parameter is asked for.
    #[must_use]
    pub const fn target(&self) -> Option<ApproxDp> {
        match self.asked {
            Asked::Profile(_) => None,
            Asked::Parameter { target, .. } => Some(target),
        }
    }

    /// Solves for the parameter that is null.
    ///
    /// # Errors
    /// [`QuestionError::Unclear`] if nothing is null; otherwise as [`answer`](Self::answer).
    pub fn solve(&self) -> Result<Solved> {
        let &Asked::Parameter {
            quantity, target, ..
        } = &self.asked
        else {
            return Err(QuestionError::Unclear);
        };
        let event = |trial| self.with(Some(trial)).unwrap_or(DpEvent::NonPrivate);
        let calibration = Calibration {
            quantity,
            unit: 1.0,
            target,
            adjacency: self.adjacency,
            costlier: &event,
            cheaper: &event,
        };
        let (answer, trial) = calibration.solve()?;
        Ok(Solved {
            answer,
            event: event(trial),
        })
    }

    /// The event, with a value in place of the null.
    fn with(&self, trial: Option<Trial>) -> Result<DpEvent> {
        let text = match (&self.asked, trial) {
            (Asked::Parameter { place, .. }, Some(trial)) => {
                let (before, after) = (&self.event[..place.start], &self.event[place.end..]);
                match trial {
                    Trial::Real(x) => format!("{before}{x:e}{after}"),
                    Trial::Whole(n) => format!("{before}{n}{after}"),
                }
            }
            _ => self.event.clone(),
        };
        Ok(serde_json::from_str(&text)?)
    }
}

impl Solved {
    /// Epsilon at `delta` under `adjacency` with the parameter as solved.
    ///
    /// # Errors
    /// The errors of [`crate::Accountant`].
    pub fn epsilon(&self, adjacency: Adjacency, delta: f64) -> crate::Result<PrivacyBound> {
        let events = [(self.event.clone(), 1)];
        profile(&events, adjacency, Given::Delta(delta))
    }
}

/// The quantity of a null parameter, determined by the name of its member.
fn solvable(event: &str, null: &Word) -> Result<Quantity> {
    let name = null.key.clone().map_or("", |key| &event[key]);
    match name {
        "noise_multiplier" => Ok(Quantity::NoiseMultiplier),
        "sigma" => Ok(Quantity::Sigma),
        "rate" => Ok(Quantity::Rate),
        "sampling_probability" => Ok(Quantity::SamplingProbability),
        "count" => Ok(Quantity::Count),
        _ => {
            let name = name.to_owned();
            Err(QuestionError::NotAsked { name })
        }
    }
}

const fn other(adjacency: Adjacency) -> Adjacency {
    match adjacency {
        Adjacency::AddRemoveUser => Adjacency::ReplaceUser,
        Adjacency::ReplaceUser => Adjacency::AddRemoveUser,
        Adjacency::AddRemoveRecord => Adjacency::ReplaceRecord,
        Adjacency::ReplaceRecord => Adjacency::AddRemoveRecord,
    }
}
