//! Renyi divergences, and formulas that turn them into epsilon or delta.

use super::engine::{self, Counted};
use super::error::{QuestionError, Result};
use super::mechanism::{Mechanism, Toward};
use super::query::{Formula, Given, order};
use super::question::Question;
use super::{Answer, Quantity};
use crate::{Method, gdp};

/// Renyi divergence of order `alpha` of everything composed.
pub(super) fn divergence(question: &Question, alpha: f64) -> Result<Answer> {
    let alpha = order("alpha", alpha)?;
    question.ask(|events| {
        let bounds = engine::renyi(events, question.adjacency(), &[alpha])?;
        let bound = bounds.into_iter().next().ok_or(QuestionError::Formula {
            reason: "no divergence is known",
        })?;
        Answer::of_bound(Quantity::RenyiDivergence, bound)
    })
}

/// The figure of `formula`: minimised over `orders` where they are given, at the one order of
/// `rdp_point`, or minimised over all real orders where divergence is rho times the order.
pub(super) fn by_formula(
    question: &Question,
    given: Given,
    formula: Formula,
    orders: Option<Vec<f64>>,
) -> Result<Answer> {
    let costlier = question.events(Toward::Costlier)?;
    let to = Converter { given, formula };
    if let Some(orders) = orders {
        return question.ask(|events| to.least_of(events, question, &orders));
    }
    if let Some((order, rdp)) = one_point(question.mechanisms())? {
        return to.answer(order, rdp, Method::Rdp);
    }
    let rho = rho(&costlier, question)?;
    let order = to.best_order(rho)?;
    to.answer(order, rho * order, Method::Zcdp)
}

/// The common order of mechanisms that are all known at one order, and their divergence.
fn one_point(mechanisms: &[Mechanism]) -> Result<Option<(f64, f64)>> {
    let mut found: Option<(f64, f64)> = None;
    for mechanism in mechanisms {
        let (&Mechanism::RdpPoint { alpha, rdp, .. }, Some(count)) = (mechanism, mechanism.count())
        else {
            return Ok(None);
        };
        let alpha = order("alpha", alpha)?;
        let rdp = dp_core::params::finite_non_negative("rdp", rdp)? * count as f64;
        found = match found {
            None => Some((alpha, rdp)),
            Some((same, sum)) if same.total_cmp(&alpha).is_eq() => Some((alpha, sum + rdp)),
            Some(_) => {
                let reason = "divergences of different orders do not add";
                return Err(QuestionError::Formula { reason });
            }
        };
    }
    Ok(found)
}

/// rho of mechanisms whose divergence of order a is known to be rho a.
fn rho(events: &Counted, question: &Question) -> Result<f64> {
    let mut sum = 0.0;
    for ((event, count), mechanism) in events.iter().zip(question.mechanisms()) {
        let one = match *mechanism {
            Mechanism::Zcdp { rho, .. } => dp_core::params::finite_positive("rho", rho)?,
            Mechanism::Gaussian { .. } | Mechanism::BinaryTreeGaussian { .. } => {
                0.5 * gdp::mu_squared(event, question.adjacency())?
            }
            _ => {
                let reason = "state orders; only rdp_point, zcdp and gaussian do without";
                return Err(QuestionError::Formula { reason });
            }
        };
        sum += one * *count as f64;
    }
    Ok(dp_core::params::finite("rho", sum)?)
}

/// A formula and what it starts from.
#[derive(Clone, Copy)]
struct Converter {
    given: Given,
    formula: Formula,
}

impl Converter {
    fn convert(self, order: f64, rdp: f64) -> Result<f64> {
        Ok(engine::converted(order, rdp, self.given, self.formula)?)
    }

    /// The figure at one order, with the rounding error of the formula on either side.
    fn answer(self, order: f64, rdp: f64, method: Method) -> Result<Answer> {
        let value = self.convert(order, rdp)?;
        let error = self.rounding(value, order, rdp);
        let ends = self.within_range(value - error, value + error);
        Answer::new(self.given.asked(), value, ends, method)
    }

    fn least_of(self, events: &Counted, question: &Question, orders: &[f64]) -> Result<Answer> {
        let bounds = engine::renyi(events, question.adjacency(), orders)?;
        let (mut lower, mut value, mut upper) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
        for (&order, bound) in orders.iter().zip(&bounds) {
            // An order whose divergence is beyond the range of f64 says nothing.
            if !bound.upper.is_finite() {
                continue;
            }
            let figure = |rdp| -> Result<(f64, f64)> {
                let figure = self.convert(order, rdp)?;
                Ok((figure, self.rounding(figure, order, rdp)))
            };
            let (low, high) = (figure(bound.lower)?, figure(bound.upper)?);
            lower = lower.min(low.0 - low.1);
            upper = upper.min(high.0 + high.1);
            value = value.min(figure(bound.value)?.0);
        }
        let ends = self.within_range(lower, upper);
        Answer::new(self.given.asked(), value, ends, Method::Rdp)
    }

    /// Delta is a probability; an epsilon by formula may be negative.
    fn within_range(self, lower: f64, upper: f64) -> (f64, f64) {
        match self.given {
            Given::Delta(_) => (lower, upper),
            Given::Epsilon(_) => (lower.max(0.0), upper.min(1.0)),
        }
    }

    /// Bound on the error of evaluating a formula in f64.
    fn rounding(self, value: f64, order: f64, rdp: f64) -> f64 {
        const ULPS: f64 = 16.0 * f64::EPSILON;
        // The formula of Asoodeh et al. has no closed form: its minimum is found to about 1e-12.
        let search = if self.formula == Formula::Asoodeh2020 {
            1e-11
        } else {
            0.0
        };
        match self.given {
            Given::Delta(delta) => {
                let logs = libm::log(delta).abs() + libm::log(order);
                ULPS * (rdp.abs() + logs / (order - 1.0) + 1.0 / order) + search * value.abs()
            }
            Given::Epsilon(epsilon) => {
                let exponent = (order - 1.0) * (rdp.abs() + epsilon) + libm::log(order);
                value.abs() * (ULPS * (1.0 + exponent) + search)
            }
        }
    }

    /// The order at which divergence rho a gives the least: the best of a grid in ln(a - 1),
    /// then golden sections around it.
    fn best_order(self, rho: f64) -> Result<f64> {
        const POINTS: i32 = 280;
        let at = |t: f64| {
            let order = 1.0 + libm::exp(t);
            self.convert(order, rho * order)
        };
        let grid = |i: i32| -30.0 + f64::from(i) * 0.25;
        let (mut best, mut least) = (0, f64::INFINITY);
        for i in 0..=POINTS {
            let figure = at(grid(i))?;
            if figure < least {
                (best, least) = (i, figure);
            }
        }
        let (mut low, mut high) = (grid(best - 1), grid(best + 1));
        let ratio = 0.5 * (5.0_f64.sqrt() - 1.0);
        while high - low > 1e-9 {
            let (a, b) = (high - ratio * (high - low), low + ratio * (high - low));
            if at(a)? <= at(b)? {
                high = b;
            } else {
                low = a;
            }
        }
        Ok(1.0 + libm::exp(0.5 * (low + high)))
    }
}
