//! Private SGD on an encoder's parameters: Algorithm 6.

mod contribution;
mod fit;
mod passes;

pub use contribution::{EncoderGradients, GradientScratch};
pub use fit::{Alternating, DpSgd, DpSgdParams};
