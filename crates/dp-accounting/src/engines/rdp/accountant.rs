use dp_core::{Adjacency, DpEvent, ParamError, params};

use super::converse;
use super::conversion::log_tail;
use super::curve::{Curve, no_finite_order};
use super::search::{default_orders, minimum, minimum_on, sorted};
use crate::engines::accountant::{Accountant, Method, PrivacyBound};
use crate::engines::composition::Composition;
use crate::engines::loss::Direction;
use crate::{Error, Result};

/// Golden-section steps between the two neighbours of the best order, and the number if it lies at
/// an end.
const REFINEMENTS: (u32, u32) = (12, 48);
/// How far s = order - 1 is searched beyond the given orders.
const FARTHEST: (f64, f64) = (1e-9, 1e10);

/// Accountant that adds up Renyi divergences at fixed orders. It supports every event. Its answers
/// are upper bounds, and its lower ends are loose.
///
/// With K the sum of ln `E_P`\[e^{sL}; L finite\] over everything composed, in each direction,
///
/// ```text
/// ε(δ) = min over s > 0 of (K(s) + s ln(s/(s+1)) - ln(s+1) + ln(1/(δ - m))) / s
/// ```
///
/// where s = order - 1 and m is the probability of an infinite loss; K(s)/s is the Renyi divergence
/// if m = 0. Source: Canonne, Kamath, Steinke, arXiv 2004.00010, Proposition 12; with m > 0 the
/// same proof bounds E[(1 - e^{ε-L})_+] on finite losses only. The basic composition of the largest
/// losses, with delta m, is also considered. The lower ends come from orders below 1.
///
/// The orders are fixed when the accountant is created and do not depend on what is composed; see
/// [`new`](Self::new) for the orders examined between them.
///
/// # Examples
/// ```
/// use dp_accounting::{Accountant, RdpAccountant};
/// use dp_core::{Adjacency, DpEvent};
/// let mut accountant = RdpAccountant::new(Adjacency::AddRemoveUser);
/// accountant.compose(&DpEvent::sampled_gaussian(1.0, 0.01), 1000)?;
/// let epsilon = accountant.epsilon(1e-5)?.upper;
/// assert!(epsilon > 2.10 && epsilon < 2.102);
/// # Ok::<(), dp_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RdpAccountant {
    composition: Composition,
    orders: Vec<f64>,
    refine: bool,
}

impl RdpAccountant {
    /// Creates an accountant without any events, with about 330 real orders from 1.0001 to 1e6:
    /// twenty per decade of order - 1, forty between 1.1 and 1001, and the integers up to 64.
    ///
    /// For an epsilon or delta it also searches between the neighbours of the best order, which is
    /// equally sound: any order gives a bound, and the composition is not secret.
    #[must_use]
    pub fn new(adjacency: Adjacency) -> Self {
        Self::of(Composition::new(adjacency))
    }

    /// An accountant for everything in `composition`.
    pub(crate) fn of(composition: Composition) -> Self {
        Self {
            composition,
            orders: default_orders(),
            refine: true,
        }
    }

    /// Creates an accountant that uses exactly these orders.
    ///
    /// # Errors
    /// [`Error::Param`] unless there is at least one and all are finite and above 1.
    pub fn with_orders(adjacency: Adjacency, orders: Vec<f64>) -> Result<Self> {
        let mut orders = orders;
        for &order in &orders {
            check_order(order)?;
        }
        if orders.is_empty() {
            return Err(bad_order(f64::NAN));
        }
        sorted(&mut orders);
        Ok(Self {
            composition: Composition::new(adjacency),
            orders,
            refine: false,
        })
    }

    /// The fixed orders, ascending.
    #[must_use]
    pub fn orders(&self) -> &[f64] {
        &self.orders
    }

    /// Renyi divergence of the composition at any real order, in the worse direction.
    ///
    /// # Returns
    /// Nats. `value` is exact, and `lower` and `upper` differ from it by its stated relative error,
    /// if every part has a known pair of distributions; otherwise an upper bound with `lower` 0.
    /// Infinite if a mechanism fails with positive probability, or if the order is above the one at
    /// which a part is known.
    ///
    /// # Errors
    /// [`Error::Param`] unless the order is finite and above 1; [`Error::NothingComposed`].
    ///
    /// # Numerics
    /// Relative error below 1e-13 + 2e-15 order for pairs, 3e-15 for Gaussians alone.
    pub fn rdp(&self, order: f64) -> Result<PrivacyBound> {
        check_order(order)?;
        let curve = Curve::of(self.composition.nonempty()?)?;
        if let Some(mu_squared) = curve.only_gaussian() {
            let value = 0.5 * mu_squared * order;
            return Ok(self.exact(value, 1e-15 * value));
        }
        let s = order - 1.0;
        let total = curve.worst(s);
        let (value, upper) = (total.value / s, total.upper() / s);
        if total.exact && value.is_finite() && self.composition.is_attained() {
            return Ok(self.exact(value, (upper - value).max(1e-15 * value)));
        }
        let adjacency = self.adjacency();
        Ok(PrivacyBound::at_most(upper, Method::Rdp, adjacency))
    }

    /// Upper bounds on the Renyi divergences at the fixed orders, as an RDP filter tracks them.
    pub(crate) fn divergences(composition: &Composition, orders: &[f64]) -> Result<Vec<f64>> {
        let curve = Curve::of(composition)?;
        let at = |order: &f64| curve.worst(order - 1.0).upper() / (order - 1.0);
        Ok(orders.iter().map(at).collect())
    }

    fn exact(&self, value: f64, error: f64) -> PrivacyBound {
        let value = value.max(0.0);
        PrivacyBound::bracket(
            value,
            (value - error).max(0.0),
            value + error,
            Method::Rdp,
            self.adjacency(),
        )
    }

    /// The reported value is an upper bound, together with how far it may be from the true value.
    fn between(&self, lower: f64, upper: f64) -> PrivacyBound {
        let lower = lower.min(upper);
        PrivacyBound::bracket(upper, lower, upper, Method::Rdp, self.adjacency())
    }

    /// The smallest of `f(s)` over the orders, and around the best one if that is allowed.
    fn best(&self, curve: &Curve, f: impl Fn(f64) -> f64) -> f64 {
        let mut points: Vec<f64> = self.orders.clone();
        if self.refine {
            points.extend(curve.corners());
            sorted(&mut points);
        }
        points.iter_mut().for_each(|order| *order -= 1.0);
        let jumps = curve.pieces();
        let (i, best) = minimum_on(&points, jumps.as_deref(), &f);
        if !self.refine || best == f64::INFINITY {
            return best;
        }
        let last = points.len() - 1;
        let low = if i == 0 { FARTHEST.0 } else { points[i - 1] };
        let high = if i == last {
            FARTHEST.1.max(points[i])
        } else {
            points[i + 1]
        };
        let n = if i == 0 || i == last {
            REFINEMENTS.1
        } else {
            REFINEMENTS.0
        };
        minimum(low, high, n, f).1.min(best)
    }

    fn epsilon_in(&self, curve: &Curve, direction: Direction, delta: f64) -> Result<f64> {
        let infinite_mass = curve.infinite_mass(direction);
        let rest = delta - infinite_mass;
        if rest < 0.0 {
            return Err(Error::NoFiniteEpsilon {
                delta,
                infinite_mass,
            });
        }
        let pure = curve.max_loss(direction);
        if rest == 0.0 {
            return if pure.is_finite() {
                Ok(pure)
            } else {
                Err(no_finite_order())
            };
        }
        let log_inverse = -libm::log(rest * (1.0 - 2.0 * f64::EPSILON));
        let best = self.best(curve, |s| {
            let tail = log_tail(s);
            let rounding = 1e-15 * (tail.abs() + log_inverse.abs());
            (curve.total(direction, s).upper() + tail + log_inverse + rounding) / s
        });
        let best = best.min(pure);
        if best.is_finite() {
            Ok(best.max(0.0))
        } else {
            Err(no_finite_order())
        }
    }

    fn delta_in(&self, curve: &Curve, direction: Direction, epsilon: f64) -> f64 {
        let infinite_mass = curve.infinite_mass(direction);
        if curve.max_loss(direction) <= epsilon {
            return infinite_mass;
        }
        let log_delta = self.best(curve, |s| {
            let (k, tail) = (curve.total(direction, s).upper(), log_tail(s));
            let rounding = 1e-15 * (tail.abs() + s * epsilon);
            k - s * epsilon + tail + rounding
        });
        (infinite_mass + libm::exp(log_delta)).min(1.0)
    }
}

impl Accountant for RdpAccountant {
    fn adjacency(&self) -> Adjacency {
        self.composition.adjacency()
    }

    fn compose(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        self.composition.add(event, count)
    }

    fn epsilon(&self, delta: f64) -> Result<PrivacyBound> {
        params::open_unit("delta", delta)?;
        let curve = Curve::of(self.composition.nonempty()?)?;
        let mut worst = 0.0_f64;
        for &direction in curve.directions() {
            worst = worst.max(self.epsilon_in(&curve, direction, delta)?);
        }
        let lower = converse::epsilon(&self.composition, delta);
        Ok(self.between(lower, worst))
    }

    fn delta(&self, epsilon: f64) -> Result<PrivacyBound> {
        params::finite_non_negative("epsilon", epsilon)?;
        let curve = Curve::of(self.composition.nonempty()?)?;
        let deltas = curve.directions().iter();
        let worst = deltas
            .map(|&direction| self.delta_in(&curve, direction, epsilon))
            .fold(0.0, f64::max);
        let lower = converse::delta(&self.composition, epsilon);
        Ok(self.between(lower, worst).as_delta_at(epsilon))
    }
}

fn check_order(order: f64) -> Result<()> {
    if order.is_finite() && order > 1.0 {
        return Ok(());
    }
    Err(bad_order(order))
}

const fn bad_order(value: f64) -> Error {
    Error::Param(ParamError {
        name: "order",
        value,
        expected: "finite numbers above 1, at least one",
    })
}
