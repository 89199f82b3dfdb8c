use super::Side;

/// A loss with finitely many values under P, and infinity with probability `infinite_mass`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FiniteLoss {
    /// Values in ascending order with their probabilities under P. Under Q each has e^-loss
    /// times as much; what Q has left lies where P has nothing.
    pub(crate) atoms: Vec<(f64, f64)>,
    /// Probability under P of an outcome that Q never gives.
    pub(crate) infinite_mass: f64,
    /// A number of which every loss is an integer multiple, up to rounding; absent where there is
    /// none, 0 where every loss is 0.
    pub(crate) step: Option<f64>,
}

impl FiniteLoss {
    /// The worst (epsilon, delta)-DP mechanism: fails with probability delta, else binary
    /// randomised response (Kairouz, Oh, Viswanath, arXiv 1311.0776).
    pub(crate) fn approx_dp(epsilon: f64, delta: f64) -> Self {
        let low = (1.0 - delta) / (1.0 + libm::exp(epsilon));
        let high = (1.0 - delta) / (1.0 + libm::exp(-epsilon));
        Self {
            atoms: merged(vec![(-epsilon, low), (epsilon, high)]),
            infinite_mass: delta,
            step: Some(epsilon),
        }
    }

    /// k-ary randomised response for two true values a and b: loss ln(p/q) on answering a, its
    /// negative on b, and 0 on all others, with p the probability of the truth and q of a lie.
    pub(crate) fn randomized_response(noise_probability: f64, buckets: f64) -> Self {
        let lie = noise_probability / buckets;
        let truth = 1.0 - noise_probability + lie;
        let epsilon = libm::log1p((1.0 - noise_probability) / lie);
        Self {
            atoms: merged(vec![
                (-epsilon, lie),
                (0.0, (buckets - 2.0) * lie),
                (epsilon, truth),
            ]),
            infinite_mass: 0.0,
            step: Some(epsilon),
        }
    }

    /// Two-sided geometric noise at 0 against the same at s: loss rate (|y - s| - |y|).
    pub(crate) fn discrete_laplace(rate: f64, s: u64) -> Self {
        let epsilon = rate * s as f64;
        let tail = 1.0 / (1.0 + libm::exp(-rate));
        let mut atoms = vec![(-epsilon, tail * libm::exp(-epsilon))];
        for y in (1..s).rev() {
            let density = libm::tanh(0.5 * rate) * libm::exp(-rate * y as f64);
            atoms.push((rate * (s as f64 - 2.0 * y as f64), density));
        }
        atoms.push((epsilon, tail));
        Self {
            atoms: merged(atoms),
            infinite_mass: 0.0,
            step: Some(if s.is_multiple_of(2) {
                2.0 * rate
            } else {
                rate
            }),
        }
    }

    /// [`approx_dp`](Self::approx_dp) on a Poisson sample, q below 1: with N the worst mechanism
    /// without the unit and M with it, the pair (1-q) N + q M against N, or N against that.
    pub(crate) fn sampled_approx_dp(epsilon: f64, delta: f64, q: f64, side: Side) -> Self {
        let mixed = |loss: f64| libm::log1p(q * libm::expm1(loss));
        let (low, high, none) = (mixed(-epsilon), mixed(epsilon), libm::log1p(-q));
        let without = |sign: f64| (1.0 - delta) / (1.0 + libm::exp(sign * epsilon));
        let (n_high, n_low) = (without(1.0), without(-1.0));
        let (atoms, infinite_mass) = match side {
            Side::Add => (vec![(-high, n_high), (-low, n_low), (-none, delta)], 0.0),
            Side::Remove | Side::Replace => (
                vec![
                    (none, (1.0 - q) * delta),
                    (low, n_low * libm::exp(low)),
                    (high, n_high * libm::exp(high)),
                ],
                q * delta,
            ),
        };
        Self {
            atoms: merged(atoms),
            infinite_mass,
            step: None,
        }
    }
}

/// Drops what has no probability and joins equal losses; `atoms` are in ascending order.
fn merged(atoms: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::with_capacity(atoms.len());
    for (loss, p) in atoms.into_iter().filter(|(_, p)| *p > 0.0) {
        match out.last_mut() {
            Some(last) if last.0 >= loss => last.1 += p,
            _ => out.push((loss, p)),
        }
    }
    out
}
