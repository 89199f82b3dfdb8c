//! Privacy questions written in JSON, and their answers.
//!
//! Two layouts are supported. A *question file* contains many cases, each with a list of mechanisms
//! and one query:
//!
//! ```text
//! {"schema_version": 1, "units": "nats", "default_orders": [...], "cases": [
//!   {"id": "a", "neighbour": "add_remove",
//!    "events": [{"mechanism": "gaussian", "count": 4, "sigma": 2.0, "sensitivity": 1}],
//!    "query": {"kind": "epsilon_at_delta", "delta": 1e-5}}]}
//! ```
//!
//! An *event file* contains one [`DpEvent`](dp_core::DpEvent) and is answered for both neighbouring
//! relations:
//!
//! ```text
//! {"adjacency": "add-remove-user", "event": {"mechanism": "laplace", "noise_multiplier": 3}, "delta": 1e-5}
//! ```
//!
//! A parameter that is `null` is the unknown of a calibration.
//!
//! # Interpretation of a question file
//!
//! `sensitivity` is the distance between the outputs on the two neighbours, whatever `neighbour`
//! is, with one exception: for `poisson_subsampled_gaussian` under `replace_one` it is the largest
//! norm of one record. (A [`DpEvent`](dp_core::DpEvent) states sensitivities for add/remove
//! instead.) `zero_out`, where one record is replaced by an empty one, compares the same pairs of
//! distributions as `add_remove` at the same distance, and is answered in the same way.
//!
//! The mechanisms in a case are composed. Input is checked completely: an unknown mechanism, a
//! missing or superfluous parameter, or a number out of range is a [`QuestionError`] for that case
//! alone. Other members of a case than the four above are ignored.
//!
//! # Numerics
//!
//! If sigma/sensitivity is not exactly an f64, the question is answered twice, with the ratio
//! rounded in both directions, so that the bracket is valid for the numbers in the file and not
//! only for the rounded ones.

mod answer;
mod case;
mod event_question;
mod mechanism;
mod question;

pub use answer::{Answer, Quantity, QuestionError};
pub use case::{Case, QuestionFile};
pub use event_question::{EventQuestion, Solved};
