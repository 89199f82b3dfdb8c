//! The lower bound on the error that `docs/limits.md` derives: a convex programme over the division
//! of users' budgets among items.

use dp_core::Interactions;

/// The programme stops when its certified gap is below this fraction of the cost of privacy, or
/// after this many steps.
const GAP: f64 = 1e-4;
const MOST_STEPS: usize = 1_000;

/// `sqrt(exp(mu^2) - 1)`: how far one user can move the mean of any released value, in standard
/// deviations of the release without that user, under any mu-GDP mechanism.
pub(super) fn any_mechanism(mu: f64) -> f64 {
    (mu * mu).exp_m1().sqrt()
}

/// The same if the release has the same covariance with and without the user:
/// `2 sqrt(c / (1 - c))`, where `c` is the expectation of `tanh^2(mu x / 2)` over
/// `x ~ N(mu / 2, 1)`.
pub(super) fn same_covariance(mu: f64) -> f64 {
    const STEPS: i32 = 4_000;
    const REACH: f64 = 12.0;
    let (mut squares, mut rest, mut mass) = (0.0, 0.0, 0.0);
    for step in -STEPS..=STEPS {
        let z = REACH * f64::from(step) / f64::from(STEPS);
        let (density, x) = ((-z * z / 2.0).exp(), z + mu / 2.0);
        let tanh = (mu * x / 2.0).tanh();
        squares += density * tanh * tanh;
        rest += density * (mu * x / 2.0).cosh().powi(-2);
        mass += density;
    }
    2.0 * (squares / mass).sqrt() / (rest / mass).sqrt()
}

/// `E ||z|| / sqrt(k)` of `k` standard normals: the factor by which a user's budget enters the root
/// mean square of `k` residuals.
fn mean_norm(k: usize) -> f64 {
    // the ratio of Gamma((k + 1) / 2) to Gamma(k / 2), from k = 1 on
    let first = std::f64::consts::PI.sqrt().recip();
    let ratio = (1..k).fold(first, |ratio, k| 0.5 * k as f64 / ratio);
    (2.0 / k as f64).sqrt() * ratio
}

/// What is assumed to be known about the items.
pub(super) struct Items<'a> {
    /// The ratings table.
    pub(super) table: &'a Interactions,
    /// Share of the items in the error; sums to 1.
    pub(super) shares: &'a [f64],
    /// Variance of a rating around offset and item bias.
    pub(super) residual: f64,
    /// Variance of the item biases around their prior means.
    pub(super) prior: f64,
}

/// A lower bound, and a division of users' budgets near it.
pub(super) struct Bound {
    /// Lower bound on the mean squared error in excess of that without privacy, for any mechanism.
    pub(super) excess: f64,
    /// The part of a user's budget for each item, per unit of budget, before normalisation to a
    /// unit vector.
    pub(super) gains: Vec<f64>,
}

/// `R_i = R_i(no privacy) + drop h(Q / unit)`, `h(t) = 1 / (1 + t^2)`, and the largest `Q`.
struct Curve {
    share: f64,
    drop: f64,
    unit: f64,
    most: f64,
}

impl Curve {
    /// `h` at `Q`.
    fn error(&self, q: f64) -> f64 {
        self.share * self.drop / (1.0 + (q / self.unit).powi(2))
    }

    /// Slope of the chord from 0 that is tangent to `h`, or ends on it at the largest `Q`, and the
    /// point where it ends.
    fn chord(&self) -> (f64, f64) {
        let end = (self.most / self.unit).min(1.0);
        (end / (1.0 + end * end), end)
    }

    /// The largest convex function below [`error`](Self::error), and its negative slope.
    fn envelope(&self, q: f64) -> (f64, f64) {
        let (t, scale) = (q / self.unit, self.share * self.drop);
        let (slope, end) = self.chord();
        if t < end {
            return (scale * (1.0 - slope * t), scale * slope / self.unit);
        }
        let h = (1.0 + t * t).recip();
        (scale * h, scale * 2.0 * t * h * h / self.unit)
    }
}

impl Items<'_> {
    fn curves(&self, strengths: &[f64]) -> Vec<Curve> {
        let mut most = vec![0.0; self.table.n_items()];
        let n = self.counts();
        for (row, strength) in self.table.users().zip(strengths) {
            for &item in row.items() {
                most[item as usize] += strength;
            }
        }
        let of = |((most, n), share): ((f64, f64), &f64)| {
            // privacy costs nothing for an item without ratings
            let sampling = self.residual / n;
            let drop = if n > 0.0 {
                self.prior * self.prior / (sampling + self.prior)
            } else {
                0.0
            };
            Curve {
                share: *share,
                drop,
                unit: (self.residual / (sampling + self.prior))
                    .sqrt()
                    .max(f64::MIN_POSITIVE),
                most,
            }
        };
        most.into_iter().zip(n).zip(self.shares).map(of).collect()
    }

    /// `Q_i = sum_j strength_j gain_i / ||gains of j's items||`, and the sum of `strength_j ||gains of j's items||`.
    fn divided(&self, strengths: &[f64], gains: &[f64]) -> (Vec<f64>, f64) {
        let (mut signals, mut reached) = (vec![0.0; gains.len()], 0.0);
        for (row, strength) in self.table.users().zip(strengths) {
            let norm = norm_of(row.items(), gains);
            if norm > 0.0 {
                reached += strength * norm;
                for &item in row.items() {
                    signals[item as usize] += strength * gains[item as usize] / norm;
                }
            }
        }
        (signals, reached)
    }

    /// `Q_i` for users who divide a budget of 1 in proportion to `gains`.
    pub(super) fn signals_at(&self, gains: &[f64]) -> Vec<f64> {
        self.divided(&vec![1.0; self.table.n_users()], gains).0
    }

    /// Minimises with the Frank-Wolfe method; returns the value minus the gap, so that stopping
    /// early only lowers it.
    pub(super) fn least_error(&self, budget: f64) -> Bound {
        let users = self.table.users();
        let strengths: Vec<f64> = users
            .map(|row| match row.len() {
                0 => 0.0,
                k => budget * mean_norm(k),
            })
            .collect();
        let curves = self.curves(&strengths);
        let value =
            |q: &[f64]| -> f64 { curves.iter().zip(q).map(|(c, q)| c.envelope(*q).0).sum() };
        let mut gains: Vec<f64> = curves.iter().map(|c| c.envelope(0.0).1).collect();
        let mut signals = self.divided(&strengths, &gains).0;
        let mut best = 0.0_f64;
        for _ in 0..MOST_STEPS {
            let slopes = curves.iter().zip(&signals).map(|(c, q)| c.envelope(*q).1);
            let slopes: Vec<f64> = slopes.collect();
            let (target, reached) = self.divided(&strengths, &slopes);
            let here: f64 = slopes.iter().zip(&signals).map(|(g, q)| g * q).sum();
            let (now, gap) = (value(&signals), reached - here);
            best = best.max(now - gap);
            gains = slopes;
            if gap <= GAP * now {
                break;
            }
            let moved = |step: f64| -> Vec<f64> {
                let pairs = signals.iter().zip(&target);
                pairs.map(|(q, t)| q + step * (t - q)).collect()
            };
            // the value along the segment is convex
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..30 {
                let third = (high - low) / 3.0;
                if value(&moved(low + third)) < value(&moved(high - third)) {
                    high -= third;
                } else {
                    low += third;
                }
            }
            signals = moved(0.5 * (low + high));
        }
        Bound {
            excess: best,
            gains,
        }
    }

    /// Mean squared error, in excess of that without privacy, of a Gaussian release whose signals
    /// are `signals`.
    pub(super) fn excess_at(&self, signals: &[f64]) -> f64 {
        let curves = self.curves(&vec![0.0; self.table.n_users()]);
        curves.iter().zip(signals).map(|(c, q)| c.error(*q)).sum()
    }

    /// Number of users who rate each item.
    pub(super) fn counts(&self) -> Vec<f64> {
        let mut n = vec![0.0; self.table.n_items()];
        for row in self.table.users() {
            row.items().iter().for_each(|&item| n[item as usize] += 1.0);
        }
        n
    }

    /// Mean squared error without privacy.
    pub(super) fn without_privacy(&self) -> f64 {
        let n = self.counts();
        let each = n.iter().zip(self.shares);
        each.map(|(n, share)| share / (self.prior.recip() + n / self.residual))
            .sum()
    }
}

/// Norm of the entries of `values` at `items`.
pub(super) fn norm_of(items: &[u32], values: &[f64]) -> f64 {
    let squares = items.iter().map(|&item| values[item as usize].powi(2));
    squares.sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;

    use super::*;

    /// `n` users who all rate `k` items.
    fn everybody(n: u32, k: u32) -> Interactions {
        let mut builder = InteractionsBuilder::new(k as usize);
        for user in 0..n {
            for item in 0..k {
                builder.push(user, item, 0.0).unwrap();
            }
        }
        builder.build().0
    }

    #[test]
    fn users_who_rate_everything_divide_evenly() {
        for (n, k, mu) in [(50, 1, 0.3), (200, 4, 0.1), (30, 9, 1.5)] {
            let table = everybody(n, k);
            let k = k as usize;
            let items = Items {
                table: &table,
                shares: &vec![(k as f64).recip(); k],
                residual: 0.8,
                prior: 1e6,
            };
            let budget = any_mechanism(mu);
            let bound = items.least_error(budget);
            // a flat prior: the noise of the release alone, sigma^2 / Q^2 with Q = n budget c_k / sqrt(k)
            let q = f64::from(n) * budget * mean_norm(k) / (k as f64).sqrt();
            let closed = 0.8 / (q * q);
            assert!(
                (bound.excess / closed - 1.0).abs() < 1e-3,
                "{} {closed}",
                bound.excess
            );
        }
    }

    #[test]
    fn a_group_that_rates_one_item_leaves_the_others_to_those_who_rate_both() {
        // 100 users rate item 0, 10 rate both: an even division by the ten is worse
        let mut builder = InteractionsBuilder::new(2);
        for user in 0..110 {
            builder.push(user, 0, 0.0).unwrap();
            if user >= 100 {
                builder.push(user, 1, 0.0).unwrap();
            }
        }
        let table = builder.build().0;
        let items = Items {
            table: &table,
            shares: &[0.5, 0.5],
            residual: 1.0,
            prior: 10.0,
        };
        let bound = items.least_error(0.5);
        let found = |angle: f64| {
            let (one, both) = (0.5 * mean_norm(1), 0.5 * mean_norm(2));
            items.excess_at(&[
                100.0 * one + 10.0 * both * angle.cos(),
                10.0 * both * angle.sin(),
            ])
        };
        let best = (0..=1000).map(|at| found(f64::from(at) * std::f64::consts::FRAC_PI_2 / 1000.0));
        let best = best.fold(f64::INFINITY, f64::min);
        assert!(
            bound.excess <= best * (1.0 + 1e-9),
            "{} {best}",
            bound.excess
        );
        assert!(bound.excess > 0.999 * best, "{} {best}", bound.excess);
        assert!(found(std::f64::consts::FRAC_PI_4) > 1.2 * best);
    }

    /// `P(|z| < c)` and `E min(z^2, c^2)` of a standard normal.
    fn clipped(c: f64) -> (f64, f64) {
        const STEPS: i32 = 20_000;
        let (mut inside, mut square, mut mass) = (0.0, 0.0, 0.0);
        for step in -STEPS..STEPS {
            let z = 10.0 * (f64::from(step) + 0.5) / f64::from(STEPS);
            let density = (-z * z / 2.0).exp();
            mass += density;
            square += density * z.abs().min(c).powi(2);
            inside += if z.abs() < c { density } else { 0.0 };
        }
        (inside / mass, square / mass)
    }

    #[test]
    fn the_gaussian_mechanism_is_above_the_bound_and_meets_it_where_noise_rules() {
        let residual: f64 = 0.7;
        let mut meeting = f64::INFINITY;
        for n in [10_u32, 100, 1_000] {
            let table = everybody(n, 1);
            for mu in [0.01, 0.1, 0.5, 1.0, 2.0, 4.0] {
                for prior in [0.01, 1.0, 1e9] {
                    let items = Items {
                        table: &table,
                        shares: &[1.0],
                        residual,
                        prior,
                    };
                    let (any, same) = (any_mechanism(mu), same_covariance(mu));
                    assert!(mu <= same && same <= any, "{mu} {same} {any}");
                    let without = items.without_privacy();
                    let bounds = [any, same].map(|by| without + items.least_error(by).excess);
                    for c in [0.05, 0.3, 1.0, 2.0, 3.0] {
                        // residuals clipped at c sigma, noise c sigma / mu, and the best affine estimate
                        let (passes, square) = clipped(c);
                        let n = f64::from(n);
                        let variance =
                            residual * (n * square + (c / mu).powi(2)) / (n * passes).powi(2);
                        let own = (prior.recip() + variance.recip()).recip();
                        assert!(bounds[0] <= bounds[1] * (1.0 + 1e-9));
                        assert!(own >= bounds[1] * (1.0 - 1e-9), "{own} {}", bounds[1]);
                        if n * mu * mu < 0.01 && prior > 1e6 {
                            meeting = meeting.min(own / bounds[0]);
                        }
                    }
                }
            }
        }
        // signs with noise, the limit of a small c, are as good as anything that adds much noise
        assert!(meeting < 1.01, "{meeting}");
    }

    #[test]
    fn mean_norms_are_those_of_the_chi_distribution() {
        assert!((mean_norm(1) - (2.0 / std::f64::consts::PI).sqrt()).abs() < 1e-12);
        assert!((mean_norm(2) - (std::f64::consts::PI / 4.0).sqrt()).abs() < 1e-12);
        assert!((mean_norm(400) - (1.0 - 1.0 / 1600.0)).abs() < 1e-5);
    }
}
