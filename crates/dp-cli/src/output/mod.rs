//! What commands leave on disk and on the screen.

mod folder;
mod model_file;

pub(crate) use folder::OutputFolder;
pub(crate) use model_file::{CERTIFICATE, read_model, write_model};
