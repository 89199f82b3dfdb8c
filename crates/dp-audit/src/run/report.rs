//! The report in words.

use std::fmt;

use crate::report::write_failures;

use super::RunAudit;

/// Epsilon of a Gaussian mechanism at `delta`; 0 for nothing.
pub(super) fn epsilon_of(mu: f64, delta: f64) -> f64 {
    if mu > 0.0 {
        dp_accounting::gdp::epsilon(mu, delta)
    } else {
        0.0
    }
}

impl fmt::Display for RunAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let delta = self.claimed.delta;
        writeln!(f, "{} in {} training runs", self.verdict, self.n_runs)?;
        writeln!(
            f,
            "  claimed      epsilon {:.4} at delta {delta:e} (mu {:.4})",
            self.claimed.epsilon, self.claimed_mu
        )?;
        writeln!(
            f,
            "  measured     epsilon {:.4} (mu {:.4} within {:.2} %): canaries worth {:.2} % of the \
             claim, at the noise that came out",
            self.white_box_epsilon,
            self.white_box_mu,
            100.0 * self.white_box_error,
            100.0 * self.canary_mu / self.claimed_mu
        )?;
        writeln!(
            f,
            "  lower bound  epsilon {:.4} (mu {:.4}) with confidence {} from outputs alone, {} + {} \
             of them; mu {:.2} at every stopping time",
            self.lower_bound_epsilon,
            self.black_box.lower_bound_mu,
            self.black_box.confidence,
            self.black_box.n_without,
            self.black_box.n_with,
            self.anytime_lower_bound_mu
        )?;
        for release in &self.releases {
            write!(f, "  {release}")?;
            writeln!(f)?;
        }
        write_failures(f, &self.checks)
    }
}
