//! SSP-c among clients, an aggregator and a server: Algorithm 8.

mod aggregator;
mod client;
mod message;
mod server;

pub use aggregator::Aggregator;
pub use client::Client;
pub use message::{ExamplesMessage, Invitation, Rejection, StatisticsMessage};
pub use server::Server;
