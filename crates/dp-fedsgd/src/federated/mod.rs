//! Rounds between a server and clients that exchange plain messages.

mod client;
mod message;
mod server;

pub use client::Client;
pub use message::{Rejection, Reply, RoundMessage, UpdateMessage};
pub use server::{OpenRound, RoundOutcome, Server};
