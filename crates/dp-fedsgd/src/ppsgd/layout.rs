//! The coordinates of one round's release.

/// What stands where in the vector of a round.
///
/// ```text
/// clipped gradient (n_shared),  +-a C if within the clip or not,  a C for being there
/// ||.|| <= C sqrt(1 + a^2 n_extras)
/// ```
///
/// One joint bound: whatever the extras say, the kernel checks the whole in integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RoundLayout {
    pub(crate) n_shared: usize,
    /// A coordinate for the share of users within the clip.
    pub(crate) within: bool,
    /// A coordinate for the number of clients.
    pub(crate) count: bool,
    /// `a`.
    pub(crate) extra: f64,
}

/// What a release says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decoded {
    /// Noisy number of clients within the clip less those above, if asked for.
    pub(crate) within: Option<f64>,
    /// Noisy number of clients, if asked for.
    pub(crate) count: Option<f64>,
}

impl RoundLayout {
    fn n_extras(&self) -> usize {
        usize::from(self.within) + usize::from(self.count)
    }

    pub(crate) fn n_coordinates(&self) -> usize {
        self.n_shared + self.n_extras()
    }

    /// Norm of a user's whole contribution when gradients are clipped to `clip_norm`.
    pub(crate) fn whole_norm(&self, clip_norm: f64) -> f64 {
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("sgd-extras-outside-the-bound") {
            return clip_norm;
        }
        clip_norm
            * (self.extra * self.extra)
                .mul_add(self.n_extras() as f64, 1.0)
                .sqrt()
    }

    /// The extra coordinates of a client.
    pub(crate) fn extras(
        &self,
        clip_norm: f64,
        is_within: bool,
    ) -> impl Iterator<Item = f64> + use<> {
        let size = self.extra * clip_norm;
        let signed = if is_within { size } else { -size };
        let within = self.within.then_some(signed);
        within.into_iter().chain(self.count.then_some(size))
    }

    /// Splits released values: cuts them to the gradient and returns what the extras say.
    pub(crate) fn decode(&self, clip_norm: f64, values: &mut Vec<f64>) -> Decoded {
        let size = self.extra * clip_norm;
        let mut extras = values
            .split_off(self.n_shared.min(values.len()))
            .into_iter();
        let mut next = |there: bool| if there { extras.next() } else { None };
        Decoded {
            within: next(self.within).map(|v| v / size),
            count: next(self.count).map(|v| v / size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extras_are_within_the_joint_bound_and_come_back() {
        for (within, count) in [(false, false), (true, false), (false, true), (true, true)] {
            let layout = RoundLayout {
                n_shared: 2,
                within,
                count,
                extra: 0.3,
            };
            let mut values = vec![6.0, 8.0]; // at the clip of 10
            values.extend(layout.extras(10.0, false));
            let norm = values.iter().map(|v| v * v).sum::<f64>().sqrt();
            assert!((norm - layout.whole_norm(10.0)).abs() < 1e-12);
            let found = layout.decode(10.0, &mut values);
            assert_eq!(values, [6.0, 8.0]);
            assert_eq!(found.within, within.then_some(-1.0));
            assert_eq!(found.count, count.then_some(1.0));
        }
    }
}
