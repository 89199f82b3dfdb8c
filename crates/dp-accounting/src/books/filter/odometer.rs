use dp_core::{Adjacency, ApproxDp, DpEvent, Gdp, ParamError, params};

use crate::engines::gdp::{self, finite_cost, from_mu_squared, repeated_cost};
use crate::engines::rounding::UpwardSum;
use crate::{Error, Result};

/// Growth of mu^2 from one level of an [`Odometer`] to the next.
const GROWTH: f64 = 2.0;

/// Reports at any time what Gaussian mechanisms chosen step by step have cost so far.
///
/// The running root of Σ mu² is not a guarantee by itself: someone who stops when the outputs look
/// revealing has stopped at a moment that depends on them. An odometer fixes a ladder of budgets in
/// advance and reports the first rung that covers what was spent:
///
/// ```text
/// b_j = b_0 g^j,   δ_j = δ / ((j+1)(j+2)),   Σ_j δ_j = δ
/// reading:  ε_J,   the exact epsilon of √b_J-GDP at δ_J,   J = min { j : Σ mu_i^2 <= b_j }
/// ```
///
/// > For every rule that stops by looking at the outputs, every set S of transcripts and all
/// > neighbours P, Q:  P(S) <= E_Q\[e^(ε_J); S\] + δ.  In particular, a rule that stops only
/// > while the reading is at most ε is an (ε, δ)-DP mechanism.
/// >
/// > Proof. Let M_j be the same interaction behind a [`crate::GaussianFilter`] of budget b_j; it
/// > is √b_j-GDP. If J = j then nothing ever exceeded b_j, so the transcript is that of M_j, and
/// > P(S, J = j) <= e^(ε_j) Q(S, J = j) + δ_j. Sum over j.
///
/// The definition is that of Rogers, Roth, Ullman, Vadhan, arXiv 1605.08294; the ladder is the
/// simplest of several (Whitehouse, Ramdas, Rogers, Wu, arXiv 2203.05481, have smoother ones).
/// Compared with a filter of exactly the right budget it loses at most a factor √g of mu and the
/// logarithm of (j+1)(j+2), so start the ladder near the expected total.
///
/// # Examples
/// ```
/// use dp_accounting::Odometer;
/// use dp_core::{Adjacency, DpEvent, Gdp};
/// let mut odometer = Odometer::new(1e-5, Adjacency::AddRemoveUser, Gdp { mu: 0.5 })?;
/// assert_eq!(odometer.reading()?.epsilon, 0.0);
/// odometer.compose(&DpEvent::gaussian(4.0), 1)?;
/// let first = odometer.reading()?.epsilon;
/// odometer.compose(&DpEvent::gaussian(1.0), 1)?;
/// assert!(first > 1.9 && odometer.reading()?.epsilon > first);
/// # Ok::<(), dp_accounting::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Odometer {
    delta: f64,
    adjacency: Adjacency,
    /// `b_0`.
    first: f64,
    growth: f64,
    spent: UpwardSum,
}

impl Odometer {
    /// Creates an odometer at zero whose first rung is `first`. Each rung doubles mu^2.
    ///
    /// # Errors
    /// [`Error::Param`] unless delta lies strictly between 0 and 1 and both `first` and its square
    /// are finite and positive.
    pub fn new(delta: f64, adjacency: Adjacency, first: Gdp) -> Result<Self> {
        params::finite_positive("mu", first.mu)?;
        Ok(Self {
            delta: params::open_unit("delta", delta)?,
            adjacency,
            first: params::finite_positive("mu", first.mu * first.mu)?,
            growth: GROWTH,
            spent: UpwardSum::EMPTY,
        })
    }

    /// Sets another growth factor of mu^2 from rung to rung. Only allowed before anything is
    /// composed.
    ///
    /// # Errors
    /// [`Error::Param`] unless it is finite and at least 1.01, or if something was composed
    /// already.
    pub fn with_growth(self, growth: f64) -> Result<Self> {
        let started = self.spent != UpwardSum::EMPTY;
        if started || !growth.is_finite() || growth < 1.01 {
            return Err(Error::Param(ParamError {
                name: "growth",
                value: growth,
                expected: "a finite number, 1.01 or above, set before the first event",
            }));
        }
        Ok(Self { growth, ..self })
    }

    /// Adds `count` runs of `event`. On an error, nothing changes.
    ///
    /// # Errors
    /// The errors of [`gdp::mu_squared`].
    pub fn compose(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        let cost = repeated_cost(event, count, self.adjacency)?;
        let spent = self.spent.plus(cost);
        finite_cost(spent.total())?;
        self.spent = spent;
        Ok(())
    }

    /// The guarantee so far; zero before the first event.
    ///
    /// # Errors
    /// [`Error::Param`] if the rung's epsilon is not finite.
    pub fn reading(&self) -> Result<ApproxDp> {
        let total = self.spent.total();
        let mut epsilon = 0.0;
        if total > 0.0 {
            let (level, budget) = self.rung(total);
            let share = (self.delta / ((level + 1.0) * (level + 2.0))).next_down();
            epsilon = gdp::epsilon(from_mu_squared(budget).mu, share);
        }
        Ok(ApproxDp {
            epsilon: params::finite("epsilon", epsilon)?,
            delta: self.delta,
        })
    }

    /// What has been spent, rounded up. This is not a guarantee at a moment that depends on
    /// outputs.
    #[must_use]
    pub fn spent(&self) -> Gdp {
        from_mu_squared(self.spent.total())
    }

    /// The first rung that covers `total`: its number and its mu^2. The rungs are one fixed list of
    /// numbers, so it does not matter how their product rounds.
    fn rung(&self, total: f64) -> (f64, f64) {
        let (mut level, mut budget) = (0.0, self.first);
        while budget < total {
            level += 1.0;
            budget *= self.growth;
        }
        (level, budget)
    }
}
