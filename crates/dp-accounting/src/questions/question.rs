//! A parsed case: mechanisms, neighbouring relation and one query.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use dp_core::{Adjacency, ApproxDp, DpEvent, ParamError, params};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{self, Calibration, Counted, QuestionError, Result, Trial};
use super::mechanism::{Frame, Mechanism, Neighbour, Toward, events, probability};
use super::{Answer, Quantity};
use crate::engines::accountant::Method;
use crate::engines::gdp;

/// The members of a case that are used.
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
            &Query::RdpAtAlpha { alpha } => divergence(self, alpha),
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

    /// Answers once with the events of the file, or twice if a ratio had to be rounded.
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
            return by_formula(self, given, formula, orders);
        }
        let adjacency = self.adjacency();
        self.ask(|events| {
            let bound = match accountant {
                None => answer::profile(events, adjacency, given),
                Some(Named::Rdp) => answer::renyi_profile(events, adjacency, orders.clone(), given),
            };
            Answer::of_bound(given.asked(), bound?)
        })
    }

    /// ln(1 + q (e^epsilon - 1)) (Balle, Barthe, Gaboardi, arXiv 1807.01647, Theorem 8), which
    /// holds if leaving the record out of the sample is equivalent to not having it.
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
        // Other errors are detected before anything is solved.
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

    /// The position of the only mechanism with a null parameter, which must be the requested one.
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

    /// The whole composition, with the null parameter of one mechanism filled in.
    fn with(&self, at: usize, trial: Trial, toward: Toward) -> Result<DpEvent> {
        let mut mechanisms = self.mechanisms.clone();
        mechanisms[at] = match trial {
            Trial::Real(x) => mechanisms[at].filled(x),
            Trial::Whole(n) => mechanisms[at].repeated(n),
        };
        let events = events(&mechanisms, self.frame(), toward)?;
        let repeated = |(event, count): (DpEvent, u64)| event.repeated(count);
        Ok(DpEvent::composed(
            events.into_iter().map(repeated).collect(),
        ))
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

/// Renyi divergence of order `alpha` of the whole composition.
fn divergence(question: &Question, alpha: f64) -> Result<Answer> {
    let alpha = order("alpha", alpha)?;
    question.ask(|events| {
        let bounds = answer::renyi(events, question.adjacency(), &[alpha])?;
        let bound = bounds.into_iter().next().ok_or(QuestionError::Formula {
            reason: "no divergence is known",
        })?;
        Answer::of_bound(Quantity::RenyiDivergence, bound)
    })
}

/// The value given by `formula`: minimised over `orders` if they are given, at the single order of
/// `rdp_point`, or minimised over all real orders if the divergence is rho times the order.
fn by_formula(
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

/// The common order of mechanisms that are all known at one order, and their total divergence.
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

/// A conversion formula and its input.
#[derive(Clone, Copy)]
struct Converter {
    given: Given,
    formula: Formula,
}

impl Converter {
    fn convert(self, order: f64, rdp: f64) -> Result<f64> {
        Ok(answer::converted(order, rdp, self.given, self.formula)?)
    }

    /// The value at one order, with the rounding error of the formula on either side.
    fn answer(self, order: f64, rdp: f64, method: Method) -> Result<Answer> {
        let value = self.convert(order, rdp)?;
        let error = self.rounding(value, order, rdp);
        let ends = self.within_range(value - error, value + error);
        Answer::new(self.given.asked(), value, ends, method)
    }

    fn least_of(self, events: &Counted, question: &Question, orders: &[f64]) -> Result<Answer> {
        let bounds = answer::renyi(events, question.adjacency(), orders)?;
        let (mut lower, mut value, mut upper) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
        for (&order, bound) in orders.iter().zip(&bounds) {
            // An order whose divergence is beyond the range of f64 gives no bound.
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
        // The formula of Asoodeh et al. has no closed form: its minimum is computed to about 1e-12.
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

    /// The order at which divergence rho a gives the smallest value: the best of a grid in ln(a -
    /// 1), then golden-section search around it.
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

/// A query of the question file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Query {
    DeltaAtEpsilon {
        epsilon: f64,
        formula: Option<Formula>,
        accountant: Option<Named>,
        orders: Option<Orders>,
    },
    EpsilonAtDelta {
        delta: f64,
        formula: Option<Formula>,
        accountant: Option<Named>,
        orders: Option<Orders>,
    },
    RdpAtAlpha {
        alpha: f64,
    },
    SigmaForEpsilonDelta {
        epsilon: f64,
        delta: f64,
    },
    ScaleForEpsilonDelta {
        epsilon: f64,
        delta: f64,
    },
    #[serde(alias = "max_rate_for_epsilon_delta")]
    RateForEpsilonDelta {
        epsilon: f64,
        delta: f64,
    },
    #[serde(alias = "max_sampling_probability_for_epsilon_delta")]
    SamplingProbabilityForEpsilonDelta {
        epsilon: f64,
        delta: f64,
    },
    MaxCountForEpsilonDelta {
        epsilon: f64,
        delta: f64,
    },
    AmplifiedEpsilon {},
}

/// A conversion from Renyi divergence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Formula {
    Mironov2017,
    Cks2020,
    Asoodeh2020,
}

/// An accountant requested by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Named {
    Rdp,
}

/// Renyi orders to minimise over.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Orders {
    Named(DefaultOrders),
    Listed(Vec<f64>),
}

/// The list given in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DefaultOrders {
    Default,
}

impl Orders {
    /// The orders, each above 1; those of the file if the query says `default`.
    pub(super) fn list(&self, default: Option<&RawValue>) -> Result<Vec<f64>> {
        let orders = match (self, default) {
            (Self::Listed(orders), _) => orders.clone(),
            (Self::Named(DefaultOrders::Default), Some(text)) => serde_json::from_str(text.get())?,
            (Self::Named(DefaultOrders::Default), None) => Vec::new(),
        };
        if orders.is_empty() {
            let reason = "no orders are listed";
            return Err(QuestionError::Formula { reason });
        }
        orders.into_iter().map(|a| order("orders", a)).collect()
    }
}

/// Which of the two parameters of the privacy profile is given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Given {
    /// Epsilon is requested at this delta.
    Delta(f64),
    /// Delta is requested at this epsilon.
    Epsilon(f64),
}

impl Given {
    pub(super) fn checked(self) -> Result<Self> {
        match self {
            Self::Delta(delta) => params::open_unit("delta", delta)?,
            Self::Epsilon(epsilon) => params::finite_non_negative("epsilon", epsilon)?,
        };
        Ok(self)
    }

    pub(super) const fn asked(self) -> Quantity {
        match self {
            Self::Delta(_) => Quantity::Epsilon,
            Self::Epsilon(_) => Quantity::Delta,
        }
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delta(delta) => write!(f, "epsilon at delta {}", plain(*delta)),
            Self::Epsilon(epsilon) => write!(f, "delta at epsilon {}", plain(*epsilon)),
        }
    }
}

impl Query {
    /// The parameter to solve for and the target, if this is a calibration.
    pub(super) fn calibration(&self) -> Option<Result<(Quantity, ApproxDp)>> {
        let (quantity, epsilon, delta) = match *self {
            Self::SigmaForEpsilonDelta { epsilon, delta } => (Quantity::Sigma, epsilon, delta),
            Self::ScaleForEpsilonDelta { epsilon, delta } => (Quantity::Scale, epsilon, delta),
            Self::RateForEpsilonDelta { epsilon, delta } => (Quantity::Rate, epsilon, delta),
            Self::SamplingProbabilityForEpsilonDelta { epsilon, delta } => {
                (Quantity::SamplingProbability, epsilon, delta)
            }
            Self::MaxCountForEpsilonDelta { epsilon, delta } => (Quantity::Count, epsilon, delta),
            Self::DeltaAtEpsilon { .. }
            | Self::EpsilonAtDelta { .. }
            | Self::RdpAtAlpha { .. }
            | Self::AmplifiedEpsilon {} => return None,
        };
        Some(
            ApproxDp::target(epsilon, delta)
                .map(|target| (quantity, target))
                .map_err(Into::into),
        )
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeltaAtEpsilon {
                epsilon, formula, ..
            } => write!(f, "{}{}", Given::Epsilon(*epsilon), by(*formula)),
            Self::EpsilonAtDelta { delta, formula, .. } => {
                write!(f, "{}{}", Given::Delta(*delta), by(*formula))
            }
            Self::RdpAtAlpha { alpha } => write!(f, "Renyi divergence of order {}", plain(*alpha)),
            Self::AmplifiedEpsilon {} => f.write_str("amplified epsilon"),
            Self::SigmaForEpsilonDelta { epsilon, delta } => target(f, "sigma", *epsilon, *delta),
            Self::ScaleForEpsilonDelta { epsilon, delta } => target(f, "scale", *epsilon, *delta),
            Self::RateForEpsilonDelta { epsilon, delta } => target(f, "rate", *epsilon, *delta),
            Self::SamplingProbabilityForEpsilonDelta { epsilon, delta } => {
                target(f, "sampling probability", *epsilon, *delta)
            }
            Self::MaxCountForEpsilonDelta { epsilon, delta } => {
                target(f, "count", *epsilon, *delta)
            }
        }
    }
}

fn by(formula: Option<Formula>) -> &'static str {
    match formula {
        None => "",
        Some(Formula::Mironov2017) => ", mironov2017",
        Some(Formula::Cks2020) => ", cks2020",
        Some(Formula::Asoodeh2020) => ", asoodeh2020",
    }
}

fn target(f: &mut fmt::Formatter<'_>, name: &str, epsilon: f64, delta: f64) -> fmt::Result {
    write!(f, "{name} for ({}, {})", plain(epsilon), plain(delta))
}

/// The shorter of the two notations 0.001 and 1e-3.
fn plain(x: f64) -> String {
    let (fixed, scientific) = (format!("{x}"), format!("{x:e}"));
    if fixed.len() <= scientific.len() + 1 {
        fixed
    } else {
        scientific
    }
}

/// An order of a Renyi divergence.
fn order(name: &'static str, value: f64) -> Result<f64> {
    if value.is_finite() && value > 1.0 {
        return Ok(value);
    }
    let expected = "a finite number above 1";
    Err(ParamError::new(name, value, expected).into())
}

/// A number, `null` or any other bare word of JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// Its position.
    pub(super) place: Range<usize>,
    /// The member it belongs to: the position of the last name before a colon, without the quotes.
    pub(super) key: Option<Range<usize>>,
}

/// All bare words of `text` in order. If the text is not JSON, the result is unspecified.
pub(super) fn words(text: &str) -> Vec<Word> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    let (mut string, mut key) = (None, None);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'"' => {
                at = end_of_string(bytes, at + 1);
                string = Some(start + 1..at);
            }
            b':' => key.clone_from(&string),
            byte if in_word(byte) => {
                while at + 1 < bytes.len() && in_word(bytes[at + 1]) {
                    at += 1;
                }
                let (place, key) = (start..at + 1, key.clone());
                found.push(Word { place, key });
            }
            _ => {}
        }
        at += 1;
    }
    found
}

const fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

/// The closing quote of a string whose first character is at `at`, or the end of the text.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// The same text with the words NaN, Infinity and -Infinity in quotes. Some programs write them
/// although JSON does not have them; in quotes they invalidate one case instead of the whole file.
pub(super) fn quoted_non_numbers(text: &str) -> Cow<'_, str> {
    let is_none = |word: &Word| {
        matches!(
            &text[word.place.clone()],
            "NaN" | "-NaN" | "Infinity" | "-Infinity"
        )
    };
    let places: Vec<_> = words(text).into_iter().filter(is_none).collect();
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut done) = (String::with_capacity(text.len() + 2 * places.len()), 0);
    for Word { place, .. } in places {
        out.push_str(&text[done..place.start]);
        out.push('"');
        out.push_str(&text[place.clone()]);
        out.push('"');
        done = place.end;
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_the_member_they_belong_to() {
        let text = r#"{"a \" null": null, "b": [1e-5, {"c": -2}], "d": "null"}"#;
        let found: Vec<_> = words(text)
            .into_iter()
            .map(|w| (&text[w.place], &text[w.key.unwrap()]))
            .collect();
        let expected = [("null", r#"a \" null"#), ("1e-5", "b"), ("-2", "c")];
        assert_eq!(found, expected);
    }

    #[test]
    fn only_bare_non_numbers_are_quoted() {
        let text = r#"{"NaN": NaN, "x": [-Infinity, 1, "Infinity"]}"#;
        let quoted = r#"{"NaN": "NaN", "x": ["-Infinity", 1, "Infinity"]}"#;
        assert_eq!(quoted_non_numbers(text), quoted);
        assert!(matches!(quoted_non_numbers(quoted), Cow::Borrowed(_)));
    }

    #[test]
    fn cut_and_foreign_texts_do_not_panic() {
        let text = "{\"é\": \"\\\", NaN, ü: -Infinity\\";
        for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
            let _ = quoted_non_numbers(&text[..end]);
        }
    }
}
