//! The mechanisms of a question file, and the events that they correspond to.

use dp_core::{Adjacency, DpEvent, ParamError, Relation, params};
use serde::{Deserialize, Deserializer};

use super::Quantity;
use super::answer::{QuestionError, Result};
use crate::Error;
use crate::engines::rounding::div_up;

/// The neighbouring relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Neighbour {
    AddRemove,
    ReplaceOne,
    ZeroOut,
}

/// One entry of `events`. `None` stands for a null parameter: the unknown.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, tag = "mechanism", rename_all = "snake_case")]
pub(super) enum Mechanism {
    Gaussian {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        #[serde(deserialize_with = "nullable")]
        sigma: Option<f64>,
        sensitivity: f64,
    },
    Laplace {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        #[serde(deserialize_with = "nullable")]
        scale: Option<f64>,
        sensitivity: f64,
    },
    DiscreteGaussian {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        #[serde(deserialize_with = "nullable")]
        sigma: Option<f64>,
        sensitivity: u32,
    },
    DiscreteLaplace {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        #[serde(deserialize_with = "nullable")]
        rate: Option<f64>,
        sensitivity: u32,
    },
    RandomizedResponse {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        noise_probability: f64,
        buckets: u32,
    },
    ApproximateDp {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        epsilon: f64,
        delta: f64,
    },
    PoissonSubsampledGaussian {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        #[serde(deserialize_with = "nullable")]
        sigma: Option<f64>,
        sensitivity: f64,
        #[serde(deserialize_with = "nullable")]
        sampling_probability: Option<f64>,
    },
    PoissonSubsampledApproximateDp {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        epsilon: f64,
        delta: f64,
        #[serde(deserialize_with = "nullable")]
        sampling_probability: Option<f64>,
    },
    BinaryTreeGaussian {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        #[serde(deserialize_with = "nullable")]
        sigma: Option<f64>,
        #[serde(deserialize_with = "whole")]
        steps: u64,
    },
    RdpPoint {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        alpha: f64,
        rdp: f64,
    },
    Zcdp {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        rho: f64,
    },
}

impl Mechanism {
    const fn knows_neighbours(&self) -> bool {
        matches!(
            self,
            Self::PoissonSubsampledGaussian { .. }
                | Self::PoissonSubsampledApproximateDp { .. }
                | Self::RandomizedResponse { .. }
        )
    }

    pub(super) fn count(&self) -> Option<u64> {
        let mut copy = *self;
        *copy.count_mut()
    }

    const fn count_mut(&mut self) -> &mut Option<u64> {
        match self {
            Self::Gaussian { count, .. }
            | Self::Laplace { count, .. }
            | Self::DiscreteGaussian { count, .. }
            | Self::DiscreteLaplace { count, .. }
            | Self::RandomizedResponse { count, .. }
            | Self::ApproximateDp { count, .. }
            | Self::PoissonSubsampledGaussian { count, .. }
            | Self::PoissonSubsampledApproximateDp { count, .. }
            | Self::BinaryTreeGaussian { count, .. }
            | Self::RdpPoint { count, .. }
            | Self::Zcdp { count, .. } => count,
        }
    }

    /// The largest distance between outputs, or 1 if the mechanism has no sensitivity.
    pub(super) fn sensitivity(&self) -> Result<f64> {
        match *self {
            Self::Gaussian { sensitivity, .. }
            | Self::Laplace { sensitivity, .. }
            | Self::PoissonSubsampledGaussian { sensitivity, .. } => {
                Ok(params::finite_positive("sensitivity", sensitivity)?)
            }
            Self::DiscreteGaussian { sensitivity, .. }
            | Self::DiscreteLaplace { sensitivity, .. } => Ok(params::finite_positive(
                "sensitivity",
                f64::from(sensitivity),
            )?),
            _ => Ok(1.0),
        }
    }
}

/// A sampling probability in (0, 1].
pub(super) fn probability(value: Option<f64>) -> Result<f64> {
    let name = "sampling_probability";
    let q = params::closed_unit(name, given(name, value)?)?;
    Ok(params::finite_positive(name, q)?)
}

pub(super) fn given<T>(name: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| QuestionError::NotAsked {
        name: name.to_owned(),
    })
}

impl Mechanism {
    /// One run as an event of [`Frame::adjacency`], without its count.
    ///
    /// # Errors
    /// `QuestionError::Accounting` for a noise or a sensitivity out of range,
    /// `QuestionError::NotAsked` for a null, `QuestionError::OddDistance`. Other ranges are checked
    /// by the accountants.
    fn event(&self, frame: Frame, toward: Toward) -> Result<DpEvent> {
        let relation = frame.adjacency().relation();
        let sensitivity = self.sensitivity()?;
        Ok(match *self {
            Self::Gaussian { sigma, .. } => {
                DpEvent::gaussian(frame.ratio(noise("sigma", sigma)?, sensitivity, toward))
            }
            Self::Laplace { scale, .. } => {
                DpEvent::laplace(frame.ratio(noise("scale", scale)?, sensitivity, toward))
            }
            Self::DiscreteGaussian {
                sigma, sensitivity, ..
            } => DpEvent::discrete_gaussian(noise("sigma", sigma)?, frame.distance(sensitivity)?),
            Self::DiscreteLaplace {
                rate, sensitivity, ..
            } => DpEvent::discrete_laplace(noise("rate", rate)?, frame.distance(sensitivity)?),
            Self::RandomizedResponse {
                noise_probability,
                buckets,
                ..
            } => DpEvent::randomized_response(noise_probability, buckets),
            Self::ApproximateDp { epsilon, delta, .. } => approx_dp(epsilon, delta, relation),
            Self::PoissonSubsampledGaussian {
                sigma,
                sampling_probability,
                ..
            } => DpEvent::gaussian(divided(noise("sigma", sigma)?, sensitivity, toward))
                .poisson_sampled(probability(sampling_probability)?),
            Self::PoissonSubsampledApproximateDp {
                epsilon,
                delta,
                sampling_probability,
                ..
            } => approx_dp(epsilon, delta, relation)
                .poisson_sampled(probability(sampling_probability)?),
            Self::BinaryTreeGaussian { sigma, steps, .. } => {
                DpEvent::tree_aggregation(frame.ratio(noise("sigma", sigma)?, 1.0, toward), steps)
            }
            Self::RdpPoint { alpha, rdp, .. } => DpEvent::rdp(alpha, rdp, relation),
            Self::Zcdp { rho, .. } => DpEvent::Zcdp { rho, relation },
        })
    }
}

const fn approx_dp(epsilon: f64, delta: f64, relation: Relation) -> DpEvent {
    DpEvent::approx_dp(epsilon, delta, relation)
}

/// A noise parameter that must be present, finite and positive.
fn noise(name: &'static str, value: Option<f64>) -> Result<f64> {
    Ok(params::finite_positive(name, given(name, value)?)?)
}

/// The events of a case with their counts.
pub(in crate::questions) fn events(
    mechanisms: &[Mechanism],
    frame: Frame,
    toward: Toward,
) -> Result<Vec<(DpEvent, u64)>> {
    if mechanisms.is_empty() {
        return Err(Error::NothingComposed.into());
    }
    mechanisms
        .iter()
        .map(|mechanism| {
            let count = given("count", mechanism.count())?;
            if count == 0 {
                let (name, value) = ("count", 0.0);
                let expected = "a whole number, 1 or above";
                return Err(ParamError::new(name, value, expected).into());
            }
            Ok((mechanism.event(frame, toward)?, count))
        })
        .collect()
}

/// The direction in which a ratio is rounded if it is not an f64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::questions) enum Toward {
    /// More privacy loss.
    Costlier,
    /// Less privacy loss.
    Cheaper,
}

/// How the sensitivities of a case are represented in events.
///
/// A [`DpEvent`] has its sensitivity under add/remove, and a replacement doubles it. Mechanisms
/// whose output depends only on the distance are therefore represented under add/remove even if the
/// case uses replacement, because the pair of distributions is the same. Together with a mechanism
/// that depends on the neighbouring relation, they are represented under replacement with half the
/// distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::questions) enum Frame {
    /// Add/remove, distances unchanged.
    Whole,
    /// Replacement, distances halved.
    Half,
}

impl Frame {
    pub(in crate::questions) fn of(neighbour: Neighbour, mechanisms: &[Mechanism]) -> Self {
        let replaced = neighbour == Neighbour::ReplaceOne;
        if replaced && mechanisms.iter().any(Mechanism::knows_neighbours) {
            Self::Half
        } else {
            Self::Whole
        }
    }

    pub(in crate::questions) const fn adjacency(self) -> Adjacency {
        match self {
            Self::Whole => Adjacency::AddRemoveRecord,
            Self::Half => Adjacency::ReplaceRecord,
        }
    }

    /// Noise divided by the sensitivity or half of it.
    fn ratio(self, noise: f64, sensitivity: f64, toward: Toward) -> f64 {
        let times = if self == Self::Half { 2.0 } else { 1.0 };
        divided(times * noise, sensitivity, toward)
    }

    fn distance(self, sensitivity: u32) -> Result<u32> {
        match self {
            Self::Whole => Ok(sensitivity),
            Self::Half if sensitivity.is_multiple_of(2) => Ok(sensitivity / 2),
            Self::Half => Err(QuestionError::OddDistance { sensitivity }),
        }
    }
}

/// a / b. The larger quotient is the cheaper one.
fn divided(a: f64, b: f64, toward: Toward) -> f64 {
    let up = div_up(a, b);
    let exact = up.mul_add(b, -a) == 0.0;
    match toward {
        Toward::Cheaper => up,
        Toward::Costlier if exact => up,
        Toward::Costlier => up.next_down(),
    }
}

/// A number that may be null but not absent.
fn nullable<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<f64>, D::Error> {
    Option::deserialize(from)
}

fn count<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<u64>, D::Error> {
    let number = Option::<Whole>::deserialize(from)?;
    number.map(Whole::number).transpose()
}

fn whole<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<u64, D::Error> {
    Whole::deserialize(from)?.number()
}

/// A whole number, possibly written as 1e6.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number")]
enum Whole {
    Integer(u64),
    Float(f64),
}

impl Whole {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and at most 2^53"
    )]
    fn number<E: serde::de::Error>(self) -> std::result::Result<u64, E> {
        match self {
            Self::Integer(n) => Ok(n),
            Self::Float(x) if x.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&x) => {
                Ok(x as u64)
            }
            Self::Float(x) => Err(E::custom(format_args!("{x} is no whole number"))),
        }
    }
}

impl Mechanism {
    /// The parameters that are null.
    pub(in crate::questions) fn unknowns(&self) -> Vec<Quantity> {
        let (sigma, scale, rate, q) = match *self {
            Self::Gaussian { sigma, .. }
            | Self::DiscreteGaussian { sigma, .. }
            | Self::BinaryTreeGaussian { sigma, .. } => (sigma.is_none(), false, false, false),
            Self::Laplace { scale, .. } => (false, scale.is_none(), false, false),
            Self::DiscreteLaplace { rate, .. } => (false, false, rate.is_none(), false),
            Self::PoissonSubsampledGaussian {
                sigma,
                sampling_probability: q,
                ..
            } => (sigma.is_none(), false, false, q.is_none()),
            Self::PoissonSubsampledApproximateDp {
                sampling_probability: q,
                ..
            } => (false, false, false, q.is_none()),
            Self::RandomizedResponse { .. }
            | Self::ApproximateDp { .. }
            | Self::RdpPoint { .. }
            | Self::Zcdp { .. } => (false, false, false, false),
        };
        [
            (sigma, Quantity::Sigma),
            (scale, Quantity::Scale),
            (rate, Quantity::Rate),
            (q, Quantity::SamplingProbability),
            (self.count().is_none(), Quantity::Count),
        ]
        .into_iter()
        .filter_map(|(null, quantity)| null.then_some(quantity))
        .collect()
    }

    /// A copy in which the null parameter of this kind, noise or probability, is set to `x`.
    pub(in crate::questions) fn filled(&self, x: f64) -> Self {
        let mut copy = *self;
        let place = match &mut copy {
            Self::Gaussian { sigma, .. }
            | Self::DiscreteGaussian { sigma, .. }
            | Self::BinaryTreeGaussian { sigma, .. } => Some(sigma),
            Self::Laplace { scale, .. } => Some(scale),
            Self::DiscreteLaplace { rate, .. } => Some(rate),
            Self::PoissonSubsampledGaussian {
                sigma,
                sampling_probability,
                ..
            } => Some(if sigma.is_none() {
                sigma
            } else {
                sampling_probability
            }),
            Self::PoissonSubsampledApproximateDp {
                sampling_probability,
                ..
            } => Some(sampling_probability),
            Self::RandomizedResponse { .. }
            | Self::ApproximateDp { .. }
            | Self::RdpPoint { .. }
            | Self::Zcdp { .. } => None,
        };
        if let Some(place) = place {
            *place = place.or(Some(x));
        }
        copy
    }

    /// A copy with this count.
    pub(in crate::questions) fn repeated(&self, n: u64) -> Self {
        let mut copy = *self;
        *copy.count_mut() = Some(n);
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(neighbour: &str, mechanisms: &str) -> (Frame, Vec<Mechanism>) {
        let neighbour = serde_json::from_str(&format!("\"{neighbour}\"")).unwrap();
        let mechanisms: Vec<Mechanism> = serde_json::from_str(mechanisms).unwrap();
        (Frame::of(neighbour, &mechanisms), mechanisms)
    }

    fn costlier(neighbour: &str, mechanisms: &str) -> Vec<DpEvent> {
        let (frame, mechanisms) = read(neighbour, mechanisms);
        let event = |m: &Mechanism| m.event(frame, Toward::Costlier).unwrap();
        mechanisms.iter().map(event).collect()
    }

    const GAUSSIAN: &str = r#"{"mechanism":"gaussian","count":1,"sigma":3,"sensitivity":2}"#;
    const LAPLACE: &str = r#"{"mechanism":"laplace","count":1,"scale":3,"sensitivity":2}"#;
    const SAMPLED: &str = r#"{"mechanism":"poisson_subsampled_gaussian","count":1,"sigma":3,
        "sensitivity":2,"sampling_probability":0.5}"#;

    #[test]
    fn a_distance_is_a_distance_whatever_the_neighbours() {
        let alone = format!("[{GAUSSIAN},{LAPLACE}]");
        for neighbour in ["add_remove", "replace_one", "zero_out"] {
            let expected = vec![DpEvent::gaussian(1.5), DpEvent::laplace(1.5)];
            assert_eq!(costlier(neighbour, &alone), expected, "{neighbour}");
            assert_eq!(read(neighbour, &alone).0, Frame::Whole);
        }
        // Replacement doubles the stated distance, so half of it is stated. In a sampled mechanism,
        // a record differs from its absence by at most its norm, so nothing is halved.
        let beside = format!("[{GAUSSIAN},{LAPLACE},{SAMPLED}]");
        let expected = vec![
            DpEvent::gaussian(3.0),
            DpEvent::laplace(3.0),
            DpEvent::sampled_gaussian(1.5, 0.5),
        ];
        assert_eq!(read("replace_one", &beside).0, Frame::Half);
        assert_eq!(costlier("replace_one", &beside), expected);
        assert_eq!(read("add_remove", &beside).0, Frame::Whole);
    }

    #[test]
    fn integer_distances_halve_or_are_refused() {
        let discrete = |s: u32| {
            format!(
                r#"[{{"mechanism":"discrete_laplace","count":1,"rate":1,"sensitivity":{s}}},
                {{"mechanism":"discrete_gaussian","count":1,"sigma":1,"sensitivity":{s}}},{SAMPLED}]"#
            )
        };
        let events = costlier("replace_one", &discrete(6));
        let three = |event: &DpEvent| {
            matches!(
                event,
                DpEvent::DiscreteLaplace { sensitivity: 3, .. }
                    | DpEvent::DiscreteGaussian { sensitivity: 3, .. }
            )
        };
        assert!(three(&events[0]) && three(&events[1]));
        let (frame, odd) = read("replace_one", &discrete(3));
        for mechanism in &odd[..2] {
            let error = mechanism.event(frame, Toward::Costlier).unwrap_err();
            assert!(matches!(
                error,
                QuestionError::OddDistance { sensitivity: 3 }
            ));
        }
    }

    #[test]
    fn inexact_ratios_are_rounded_to_both_sides() {
        let third = |toward| divided(1.0, 3.0, toward);
        assert!(third(Toward::Costlier) * 3.0 <= 1.0);
        assert!(
            third(Toward::Costlier)
                .next_up()
                .total_cmp(&third(Toward::Cheaper))
                .is_eq()
        );
        let half = |toward| divided(1.0, 2.0, toward).to_bits();
        assert_eq!(half(Toward::Costlier), half(Toward::Cheaper));
    }

    #[test]
    fn counts_may_be_written_as_floats_and_nothing_else() {
        let gaussian = |count: &str| {
            let text = GAUSSIAN.replace("\"count\":1", &format!("\"count\":{count}"));
            serde_json::from_str::<Mechanism>(&text).map(|m| m.count())
        };
        assert_eq!(gaussian("1e6").unwrap(), Some(1_000_000));
        assert_eq!(gaussian("18446744073709551615").unwrap(), Some(u64::MAX));
        assert_eq!(gaussian("null").unwrap(), None);
        for bad in [
            "-1",
            "1.5",
            "1e17",
            "18446744073709551616",
            "\"1\"",
            "true",
            "[]",
        ] {
            assert!(gaussian(bad).is_err(), "{bad}");
        }
    }
}
