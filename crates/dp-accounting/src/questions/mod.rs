//! Questions about privacy written in JSON, and their answers.
//!
//! Two layouts are read. A *question file* holds many cases, each a list of mechanisms and one query:
//!
//! ```text
//! {"schema_version": 1, "units": "nats", "default_orders": [...], "cases": [
//!   {"id": "a", "neighbour": "add_remove",
//!    "events": [{"mechanism": "gaussian", "count": 4, "sigma": 2.0, "sensitivity": 1}],
//!    "query": {"kind": "epsilon_at_delta", "delta": 1e-5}}]}
//! ```
//!
//! An *event file* holds one [`DpEvent`](dp_core::DpEvent) and is answered for both kinds of
//! neighbours:
//!
//! ```text
//! {"adjacency": "add-remove-user", "event": {"mechanism": "laplace", "noise_multiplier": 3}, "delta": 1e-5}
//! ```
//!
//! A parameter that is `null` is the unknown of a calibration.
//!
//! # What a question file means
//!
//! `sensitivity` is the distance between the outputs on the two neighbours, whatever `neighbour` says;
//! only for `poisson_subsampled_gaussian` under `replace_one` is it the largest norm of one record.
//! (A [`DpEvent`](dp_core::DpEvent) states sensitivities for add/remove instead.) `zero_out`, where one
//! record is exchanged for an empty one, compares the same pairs of distributions as `add_remove`
//! at the same distance, and is answered with them.
//!
//! Mechanisms in a case are composed. What is read is checked whole: an unknown mechanism, a
//! missing or superfluous parameter, a number out of range end in a [`QuestionError`] for that case
//! alone. Members of a case beside the four above are not looked at.
//!
//! # Numerics
//!
//! Where sigma/sensitivity is no f64, the question is asked twice, with the ratio rounded either
//! way, so that a bracket holds for the numbers in the file and not only for the rounded ones.

mod answer;
mod case;
mod event_question;
mod mechanism;
mod question;

pub use answer::{Answer, Quantity, QuestionError};
pub use case::{Case, QuestionFile};
pub use event_question::{EventQuestion, Solved};
