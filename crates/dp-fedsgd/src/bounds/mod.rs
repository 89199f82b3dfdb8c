//! Excess-risk bounds of Bietti et al. 2022, for planning.
//!
//! Theorems 4.5, 5.2 and B.4 hold with the constants given here, for jointly convex losses that are `L`-smooth in
//! `(w, theta_i)`, gradients within the clip (so that it does nothing), a fresh minibatch in every round, the average iterate,
//! the best constant step ([`ExcessRisk::learning_rate`]) and full knowledge of the norms and variances at the minimiser. All that is
//! rarely known: compare settings with them, do not promise accuracy.
//!
//! `alpha` is the paper's here: for `N` users it is [`PpSgdParams::alpha`](crate::PpSgdParams::alpha) over `N`.
//! `noise_stddev` is that of the noise on the *mean*, `z C / (q N)` in the terms of [`PpSgd`](crate::PpSgd), `z C / (q M)` for sums of rows.
//!
//! ```
//! use dp_fedsgd::bounds::{ExcessRisk, norm_squared_for_equal_users};
//! // 1000 equal users with ||v|| = 1: noise makes large alpha pay
//! let risk = |alpha: f64, noise_stddev: f64| {
//!     let noise = ExcessRisk::theorem_4_5(alpha, 1e3, 2.0, (1.0, 1.0), 100, noise_stddev);
//!     noise.bound(norm_squared_for_equal_users(1.0, alpha, 1e3), 1e4)
//! };
//! assert!(risk(1.0, 0.0) < risk(1e-6, 0.0));
//! assert!(risk(1.0, 1.0) > risk(1e-6, 1.0));
//! ```

mod excess_risk;
mod minimal_norm;
mod threshold;

pub use excess_risk::{ExcessRisk, SampledUsers};
pub use minimal_norm::{alpha_norm_squared, minimal_norm_shared, norm_squared_for_equal_users};
pub use threshold::rounds_until_local_learning_wins;

#[cfg(test)]
mod tests;
