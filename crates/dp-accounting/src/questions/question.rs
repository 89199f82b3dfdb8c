//! A case that was read: mechanisms, neighbours and one query.

use dp_core::{Adjacency, DpEvent, params};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::calibration::{Calibration, Trial};
use super::conversion;
use super::engine::{self, Counted};
use super::error::{QuestionError, Result};
use super::mechanism::{Frame, Mechanism, Neighbour, Toward, events, probability};
use super::query::{Formula, Given, Named, Query};
use super::{Answer, Quantity};
use crate::Method;

/// The members of a case that matter.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Question {
    neighbour: Neighbour,
    #[serde(rename = "events")]
    mechanisms: Vec<Mechanism>,
    query: Query,
}

/// The note on `zero_out`.
const ZERO_OUT: &str = "zero_out compares the same pairs of distributions as add_remove";

impl Question {
    pub(super) fn answer(&self, default_orders: Option<&RawValue>) -> Result<Answer> {
        let note = (self.neighbour == Neighbour::ZeroOut).then_some(ZERO_OUT);
        let answer = match &self.query {
            Query::EpsilonAtDelta {
                delta: given,
                formula,
                accountant,
                orders,
            }
            | Query::DeltaAtEpsilon {
                epsilon: given,
                formula,
                accountant,
                orders,
            } => {
                let given = match self.query {
                    Query::EpsilonAtDelta { .. } => Given::Delta(*given),
                    _ => Given::Epsilon(*given),
                };
                let orders = orders
                    .as_ref()
                    .map(|o| o.list(default_orders))
                    .transpose()?;
                self.profile(given.checked()?, *formula, *accountant, orders)
            }
            &Query::RdpAtAlpha { alpha } => conversion::divergence(self, alpha),
            Query::AmplifiedEpsilon {} => self.amplified(),
            Query::SigmaForEpsilonDelta { .. }
            | Query::ScaleForEpsilonDelta { .. }
            | Query::RateForEpsilonDelta { .. }
            | Query::SamplingProbabilityForEpsilonDelta { .. }
            | Query::MaxCountForEpsilonDelta { .. } => self.calibrated(),
        };
        Ok(answer?.with_note(note))
    }

    pub(super) fn mechanisms(&self) -> &[Mechanism] {
        &self.mechanisms
    }

    fn frame(&self) -> Frame {
        Frame::of(self.neighbour, &self.mechanisms)
    }

    pub(super) fn adjacency(&self) -> Adjacency {
        self.frame().adjacency()
    }

    pub(super) fn events(&self, toward: Toward) -> Result<Vec<(DpEvent, u64)>> {
        events(&self.mechanisms, self.frame(), toward)
    }

    /// Asks once with the events of the file, or twice where a ratio had to be rounded.
    pub(super) fn ask(&self, ask: impl Fn(&Counted) -> Result<Answer>) -> Result<Answer> {
        let costlier = self.events(Toward::Costlier)?;
        let cheaper = self.events(Toward::Cheaper)?;
        let answer = ask(&costlier)?;
        if cheaper == costlier {
            return Ok(answer);
        }
        Ok(answer.down_to(ask(&cheaper)?))
    }

    fn profile(
        &self,
        given: Given,
        formula: Option<Formula>,
        accountant: Option<Named>,
        orders: Option<Vec<f64>>,
    ) -> Result<Answer> {
        if orders.is_some() && accountant != Some(Named::Rdp) {
            let reason = "orders belong to \"accountant\": \"rdp\"";
            return Err(QuestionError::Formula { reason });
        }
        if let Some(formula) = formula {
            return conversion::by_formula(self, given, formula, orders);
        }
        let adjacency = self.adjacency();
        self.ask(|events| {
            let bound = match accountant {
                None => engine::profile(events, adjacency, given),
                Some(Named::Rdp) => engine::renyi_profile(events, adjacency, orders.clone(), given),
            };
            Answer::of_bound(given.asked(), bound?)
        })
    }

    /// ln(1 + q (e^epsilon - 1)) (Balle, Barthe, Gaboardi, arXiv 1807.01647, Theorem 8), which
    /// holds where leaving the record out of the sample is as good as not having it.
    fn amplified(&self) -> Result<Answer> {
        let one = match self.mechanisms.as_slice() {
            [only] if self.neighbour != Neighbour::ReplaceOne => only,
            _ => return Err(not_amplified()),
        };
        let &Mechanism::PoissonSubsampledApproximateDp {
            count: Some(1),
            epsilon,
            delta,
            sampling_probability,
        } = one
        else {
            return Err(not_amplified());
        };
        params::finite_non_negative("epsilon", epsilon)?;
        params::closed_unit("delta", delta)?;
        let (value, error) = log_mixed(probability(sampling_probability)?, epsilon);
        let ends = ((value - error).max(0.0), value + error);
        Answer::new(Quantity::Epsilon, value, ends, Method::Profile)
    }

    fn calibrated(&self) -> Result<Answer> {
        let Some(asked) = self.query.calibration() else {
            return Err(not_amplified());
        };
        let (quantity, target) = asked?;
        let at = self.blank(quantity)?;
        let event = |trial, toward| self.with(at, trial, toward);
        // Whatever else is wrong is found before anything is solved.
        event(Trial::anything(quantity), Toward::Costlier)?;
        let (answer, _) = Calibration {
            quantity,
            unit: self.mechanisms[at].sensitivity()?,
            target,
            adjacency: self.adjacency(),
            costlier: &|trial| event(trial, Toward::Costlier).unwrap_or(DpEvent::NonPrivate),
            cheaper: &|trial| event(trial, Toward::Cheaper).unwrap_or(DpEvent::NonPrivate),
        }
        .solve()?;
        Ok(answer)
    }

    /// The place of the only mechanism with a null, which is the parameter asked for.
    fn blank(&self, asked: Quantity) -> Result<usize> {
        let nulls: Vec<(usize, Quantity)> = (self.mechanisms.iter().enumerate())
            .flat_map(|(at, mechanism)| mechanism.unknowns().into_iter().map(move |q| (at, q)))
            .collect();
        if let Some((_, other)) = nulls.iter().find(|(_, quantity)| *quantity != asked) {
            let name = other.name().to_owned();
            return Err(QuestionError::NotAsked { name });
        }
        match nulls.as_slice() {
            [(at, _)] => Ok(*at),
            _ => Err(QuestionError::Unknowns {
                asked,
                found: nulls.len(),
            }),
        }
    }

    /// Everything composed, with the null of one mechanism filled in.
    fn with(&self, at: usize, trial: Trial, toward: Toward) -> Result<DpEvent> {
        let mut mechanisms = self.mechanisms.clone();
        mechanisms[at] = match trial {
            Trial::Real(x) => mechanisms[at].filled(x),
            Trial::Whole(n) => mechanisms[at].repeated(n),
        };
        let events = events(&mechanisms, self.frame(), toward)?;
        let repeated = |(event, count): (DpEvent, u64)| event.repeated(count);
        Ok(DpEvent::Composed {
            events: events.into_iter().map(repeated).collect(),
        })
    }
}

const fn not_amplified() -> QuestionError {
    QuestionError::WrongMechanism {
        query: "amplified_epsilon",
        expected: "one poisson_subsampled_approximate_dp of count 1 under add_remove or zero_out",
    }
}

/// ln(1 - q + q e^epsilon) and a bound on its rounding error.
fn log_mixed(q: f64, epsilon: f64) -> (f64, f64) {
    const ULPS: f64 = 4.0 * f64::EPSILON;
    if epsilon < 700.0 {
        let value = libm::log1p(q * libm::expm1(epsilon));
        return (value, ULPS * value);
    }
    let log_q = libm::log(q);
    let value = epsilon + log_q + libm::log1p((1.0 - q) / q * libm::exp(-epsilon));
    (value.max(0.0), ULPS * (epsilon - log_q))
}
