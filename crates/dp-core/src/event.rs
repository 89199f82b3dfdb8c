/// How far an L2 sensitivity grows when neighbours are made by replacing a unit instead of
/// adding or removing one.
///
/// With per-unit contributions `c`, `c'` of norm at most `S`, a replacement moves the sum by
/// `c - c'`. In general that is `2 S`. If every contribution is positive semidefinite then
/// `<c, c'> >= 0` and `||c - c'||^2 <= ||c||^2 + ||c'||^2 <= 2 S^2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum ReplaceFactor {
    /// The general factor 2.
    #[default]
    Two,
    /// The factor sqrt 2, for sums whose every contribution is positive semidefinite.
    SqrtTwo,
}

impl ReplaceFactor {
    /// The square of the factor: 4 or 2, exactly.
    #[must_use]
    pub const fn squared(self) -> f64 {
        match self {
            Self::Two => 4.0,
            Self::SqrtTwo => 2.0,
        }
    }
}

/// What ran: a mechanism described fully enough to account for it, and nothing of its cost.
///
/// The meaning of a variant never changes; new mechanisms become new variants. The type is
/// deliberately exhaustive: a new variant must not compile until every accountant decides.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", tag = "mechanism"))]
pub enum DpEvent {
    /// Gaussian mechanism on a sum over units.
    Gaussian {
        /// Noise standard deviation over the L2 sensitivity under add/remove of one unit.
        noise_multiplier: f64,
        /// Growth of the sensitivity under replacement.
        replace_factor: ReplaceFactor,
    },
    /// Several mechanisms on the same data, each free to look at earlier outputs.
    Composed {
        /// The parts, in order.
        events: Vec<Self>,
    },
    /// The same mechanism `count` times on the same data.
    Repeated {
        /// The mechanism repeated.
        event: Box<Self>,
        /// How often; zero means it did not run.
        count: u64,
    },
    /// Something that carries no guarantee at all.
    NonPrivate,
}

impl DpEvent {
    /// A Gaussian mechanism with the general replacement factor 2.
    ///
    /// # Examples
    /// ```
    /// use dp_core::{DpEvent, ReplaceFactor};
    /// let event = DpEvent::gaussian(2.0);
    /// assert_eq!(
    ///     event,
    ///     DpEvent::Gaussian { noise_multiplier: 2.0, replace_factor: ReplaceFactor::Two }
    /// );
    /// ```
    #[must_use]
    pub const fn gaussian(noise_multiplier: f64) -> Self {
        Self::Gaussian {
            noise_multiplier,
            replace_factor: ReplaceFactor::Two,
        }
    }

    /// A Gaussian mechanism on a sum of positive semidefinite contributions.
    #[must_use]
    pub const fn gaussian_psd(noise_multiplier: f64) -> Self {
        Self::Gaussian {
            noise_multiplier,
            replace_factor: ReplaceFactor::SqrtTwo,
        }
    }

    /// This event `count` times.
    #[must_use]
    pub fn repeated(self, count: u64) -> Self {
        Self::Repeated {
            event: Box::new(self),
            count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psd_replacement_factor_is_attained_by_orthogonal_directions() {
        // ||x x' - y y'||_F^2 for orthogonal unit x, y is 2: the factor cannot be smaller.
        let (x, y) = ([1.0, 0.0], [0.0, 1.0]);
        let mut squared = 0.0;
        for a in 0..2 {
            for b in 0..2 {
                let d: f64 = x[a] * x[b] - y[a] * y[b];
                squared += d * d;
            }
        }
        assert!((squared - ReplaceFactor::SqrtTwo.squared()).abs() < 1e-15);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn events_survive_json() {
        let event = DpEvent::Composed {
            events: vec![
                DpEvent::gaussian(0.1 + 0.2),
                DpEvent::gaussian_psd(7.0).repeated(3),
                DpEvent::NonPrivate,
            ],
        };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<DpEvent>(&text).unwrap(), event);
    }
}
