//! Commands: convert flags to settings, run the workflow, print the result.

pub(crate) mod account;
mod answers;
pub(crate) mod calibrate;
pub(crate) mod ledger;
pub(crate) mod nightly;
mod runs;
mod tools;
mod users;

pub(crate) use runs::{
    audit, audit_federate, audit_personalize, audit_tune, evaluate, federate, personalize, train,
    tune,
};
pub(crate) use tools::{completions, demo, evidence, publish, report, synth, verify};
pub(crate) use users::{predict, recommend, similar};
