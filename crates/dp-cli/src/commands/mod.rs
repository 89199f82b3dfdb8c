//! One file a command.

pub(crate) mod demo;
pub(crate) mod recommend;
pub(crate) mod train;
pub(crate) mod verify;
