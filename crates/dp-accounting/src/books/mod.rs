//! What was spent: plans, the ledger that pays for them, the certificate that states the outcome.
//!
//! From the ground up: [`allowance`], the sampler's part of delta; [`schedule`], what a list of
//! events is worth; [`filter`], budgets for events chosen on the way; [`plan`], [`pace`] and [`spend`]; [`ledger`];
//! [`certificate`]; [`statement`], the guarantee in words. What an event costs is asked of the
//! engines.

pub(crate) mod allowance;
pub(crate) mod certificate;
pub(crate) mod figures;
pub(crate) mod filter;
pub(crate) mod ledger;
pub(crate) mod pace;
pub(crate) mod plan;
pub(crate) mod schedule;
pub(crate) mod spend;
pub(crate) mod statement;
