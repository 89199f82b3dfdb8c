//! Every release type and the trainer under audit, false-alarm level 1e-9 a check. With
//! `--cfg privacy_mutants` these are the tests that each deliberate bug has to turn red.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod accounts;
mod discrete;
mod kernel;
mod nights;
mod personalized;
mod private_sgd;
mod public_features;
mod quantiles;
mod reference_values;
mod regressions;
mod resume;
mod rounds;
mod runs;
mod sampling;
mod scalars;
mod selections;
mod shares;
mod support;
mod workers;
