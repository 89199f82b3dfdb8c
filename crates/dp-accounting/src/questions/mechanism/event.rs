//! Mechanisms as events.

use dp_core::{DpEvent, ParamError, Relation, params};

use super::super::answer::Result;
use super::frame::{Frame, Toward, divided};
use super::{Mechanism, given, probability};
use crate::Error;

impl Mechanism {
    /// One run as an event of [`Frame::adjacency`], its count left out.
    ///
    /// # Errors
    /// `QuestionError::Accounting` for a noise or a sensitivity out of range,
    /// `QuestionError::NotAsked` for a null, `QuestionError::OddDistance`. Other ranges are
    /// left to the accountants.
    pub(super) fn event(&self, frame: Frame, toward: Toward) -> Result<DpEvent> {
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
            } => DpEvent::DiscreteGaussian {
                sigma: noise("sigma", sigma)?,
                sensitivity: frame.distance(sensitivity)?,
            },
            Self::DiscreteLaplace {
                rate, sensitivity, ..
            } => DpEvent::DiscreteLaplace {
                rate: noise("rate", rate)?,
                sensitivity: frame.distance(sensitivity)?,
            },
            Self::RandomizedResponse {
                noise_probability,
                buckets,
                ..
            } => DpEvent::RandomizedResponse {
                noise_probability,
                buckets,
            },
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
            Self::BinaryTreeGaussian { sigma, steps, .. } => DpEvent::TreeAggregation {
                noise_multiplier: frame.ratio(noise("sigma", sigma)?, 1.0, toward),
                n_steps: steps,
            },
            Self::RdpPoint { alpha, rdp, .. } => DpEvent::Rdp {
                order: alpha,
                epsilon: rdp,
                relation,
            },
            Self::Zcdp { rho, .. } => DpEvent::Zcdp { rho, relation },
        })
    }
}

const fn approx_dp(epsilon: f64, delta: f64, relation: Relation) -> DpEvent {
    DpEvent::ApproxDp {
        epsilon,
        delta,
        relation,
    }
}

/// A noise parameter that is given and can be divided.
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
                return Err(ParamError {
                    name,
                    value,
                    expected,
                }
                .into());
            }
            Ok((mechanism.event(frame, toward)?, count))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::QuestionError;

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
        // Replacement doubles what is stated here, so half of the distance is stated. A record
        // in a sample is at most its norm away from not being there: nothing is halved.
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
}
