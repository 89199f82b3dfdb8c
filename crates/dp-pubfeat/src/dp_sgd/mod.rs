//! Private SGD on an encoder's parameters: Algorithm 6.

mod contribution;
mod fit;

pub use contribution::{EncoderGradients, GradientScratch};
pub use fit::{DpSgd, DpSgdParams};
