//! Convex losses by quadratic approximations in the item vectors: Algorithm 7.

mod contribution;
mod fit;
mod loss;

pub use contribution::CurvatureContribution;
pub use fit::{ConvexSsp, ConvexSspParams};
pub use loss::{ConvexLoss, Logistic, Squared};
