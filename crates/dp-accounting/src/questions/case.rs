use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::answer::{QuestionError, Result};
use super::question::{Query, Question, quoted_non_numbers};
use super::{Answer, EventQuestion};

/// Layout of question files that this version reads.
const SCHEMA: u64 = 1;

/// The questions of one file.
#[derive(Debug, Clone)]
pub struct QuestionFile {
    cases: Vec<Case>,
}

/// One question: a case of a question file, or an event file under one adjacency.
///
/// It is parsed when it is answered, so an invalid case is an error of that case only.
#[derive(Debug, Clone)]
pub struct Case {
    id: String,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Case {
        text: Arc<RawValue>,
        default_orders: Option<Arc<RawValue>>,
    },
    Event(EventQuestion),
}

/// The members that distinguish the two layouts.
#[derive(Deserialize)]
struct Kind {
    event: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct File {
    schema_version: u64,
    units: Option<String>,
    default_orders: Option<Box<RawValue>>,
    cases: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Id {
    id: String,
}

impl QuestionFile {
    /// Reads a question file or an event file. The cases are not parsed yet.
    ///
    /// # Errors
    /// [`QuestionError::Syntax`] for a text that is neither, [`QuestionError::Schema`] and
    /// [`QuestionError::Units`]; for an event file also the errors of [`EventQuestion::from_json`].
    pub fn from_json(text: &str) -> Result<Self> {
        let text = quoted_non_numbers(text);
        let kind: Kind = serde_json::from_str(&text)?;
        let cases = if kind.event.is_some() {
            event_cases(EventQuestion::from_json(&text)?)
        } else {
            file_cases(serde_json::from_str(&text)?)?
        };
        Ok(Self { cases })
    }

    /// The questions in the order of the file. For an event file, one for each adjacency, starting
    /// with that of the file.
    #[must_use]
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }
}

fn file_cases(file: File) -> Result<Vec<Case>> {
    if file.schema_version != SCHEMA {
        let found = file.schema_version;
        return Err(QuestionError::Schema { found });
    }
    if let Some(found) = file.units.filter(|units| units != "nats") {
        return Err(QuestionError::Units { found });
    }
    let default_orders: Option<Arc<RawValue>> = file.default_orders.map(Arc::from);
    let case = |(place, text): (usize, Box<RawValue>)| Case {
        id: serde_json::from_str(text.get())
            .map_or_else(|_| format!("#{}", place + 1), |Id { id }| id),
        body: Body::Case {
            text: text.into(),
            default_orders: default_orders.clone(),
        },
    };
    Ok(file.cases.into_iter().enumerate().map(case).collect())
}

fn event_cases(question: EventQuestion) -> Vec<Case> {
    let other = question.under_other_neighbours();
    [question, other]
        .map(|question| Case {
            id: question.adjacency().name().to_owned(),
            body: Body::Event(question),
        })
        .into()
}

impl Case {
    /// The id in the file, or its position as `#1`, `#2` and so on; for an event file the
    /// adjacency.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A short description of what is asked; empty if it cannot be parsed.
    #[must_use]
    pub fn asked(&self) -> String {
        match &self.body {
            Body::Event(question) => question.asked(),
            Body::Case { text, .. } => {
                #[derive(Deserialize)]
                struct Asked {
                    query: Query,
                }
                let asked = serde_json::from_str(text.get());
                asked.map_or_else(|_| String::new(), |Asked { query }| query.to_string())
            }
        }
    }

    /// The answer.
    ///
    /// # Errors
    /// [`QuestionError`] if this question cannot be answered.
    pub fn answer(&self) -> Result<Answer> {
        match &self.body {
            Body::Event(question) => question.answer(),
            Body::Case {
                text,
                default_orders,
            } => {
                let question: Question = serde_json::from_str(text.get())?;
                question.answer(default_orders.as_deref())
            }
        }
    }
}
