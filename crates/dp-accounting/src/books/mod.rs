//! Spending: plans, the ledger that records what they cost, and the certificate that states the
//! result.
//!
//! From the bottom up: [`allowance`], the sampler's part of delta; [`schedule`], the cost of a list
//! of events; [`filter`], budgets for events chosen step by step; [`plan`], [`pace`] and [`spend`];
//! [`ledger`]; [`certificate`]; [`statement`], the guarantee in words. The engines compute the cost
//! of an event.

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
