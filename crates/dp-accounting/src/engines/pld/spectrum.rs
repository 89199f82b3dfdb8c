//! The characteristic function of a discretised, tilted loss.

use num_complex::Complex64;

use super::lattice::Lattice;
use super::transform::real_transform;
use crate::engines::loss::ULP;

const TURN: f64 = 2.0 * std::f64::consts::PI;

/// phi = total * (1 - r - i s) e^(-i centre z), split so that phi near 1 keeps its digits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Factor {
    /// ln |phi|.
    pub(super) log: f64,
    /// Phase of phi without the centre, in radians.
    pub(super) phase: f64,
    /// Bound on the error of phi, relative to it.
    pub(super) error: f64,
}

impl Factor {
    /// A rotation by `phase`.
    pub(super) const fn turned(phase: f64) -> Self {
        Self {
            log: 0.0,
            phase,
            error: 0.0,
        }
    }

    /// Multiplies by the `count`-th power of `other`, whose centre is handled separately.
    pub(super) fn times(&mut self, other: &Self, count: f64) {
        self.log += count * other.log;
        self.phase += count * other.phase;
        self.error += count * other.error;
    }

    /// The complex number with its absolute error; `error` is the first-order relative error.
    pub(super) fn value(&self) -> (Complex64, f64) {
        let size = libm::exp(self.log);
        let (sin, cos) = libm::sincos(self.phase);
        let rounding = 8.0 * ULP * (1.0 + self.log.abs() + self.phase.abs());
        let grown = libm::expm1((self.error + rounding).min(60.0));
        (Complex64::new(size * cos, size * sin), size * grown)
    }
}

/// (k j) mod N as an angle in [-pi, pi], without rounding before the last step. N is a power of
/// two, so products may wrap.
#[allow(clippy::cast_sign_loss, reason = "modulo a power of two")]
pub(super) const fn angle(k: u64, j: i64, period: i64) -> f64 {
    let m = (k.wrapping_mul(j as u64) & (period as u64 - 1)).cast_signed();
    let signed = if 2 * m > period { m - period } else { m };
    signed as f64 / period as f64 * TURN
}

/// Points times angles that a proof of smallness may use.
const BELOW_WORK: usize = 4_000_000;

/// A lattice prepared for evaluations at single frequencies.
#[derive(Debug, Clone)]
pub(super) struct Direct {
    /// Index relative to the centre, and weight.
    points: Vec<(i64, f64)>,
    pub(super) centre: i64,
    total: f64,
    error: f64,
}

impl Direct {
    pub(super) fn new(lattice: &Lattice) -> Self {
        let total = lattice.total();
        let mean = lattice
            .points
            .iter()
            .map(|&(j, w)| j as f64 * w)
            .sum::<f64>()
            / total;
        #[allow(clippy::cast_possible_truncation, reason = "indices are below 1e15")]
        let centre = mean.round() as i64;
        let shifted = lattice.points.iter().map(|&(j, w)| (j - centre, w));
        Self {
            points: shifted.collect(),
            centre,
            total,
            error: lattice.error,
        }
    }

    /// phi at the angle k / period of a full turn.
    pub(super) fn at(&self, k: u64, period: i64) -> Factor {
        let (mut r, mut s, mut size) = (0.0, 0.0, 0.0);
        for &(j, w) in &self.points {
            let (sin, cos) = libm::sincos(0.5 * angle(k, j, period));
            let odd = 2.0 * w * sin * cos;
            r += 2.0 * w * sin * sin;
            s += odd;
            size += odd.abs();
        }
        let n = self.points.len() as f64 + 4.0;
        self.factor(r, s, ULP * n * (r + size))
    }

    fn factor(&self, r: f64, s: f64, rounding: f64) -> Factor {
        let (r, s) = (r / self.total, s / self.total);
        let rest = r.mul_add(r, s.mul_add(s, -2.0 * r));
        let log_ratio = if rest > -0.5 {
            0.5 * libm::log1p(rest)
        } else {
            libm::log(libm::hypot(1.0 - r, s))
        };
        let error = (self.error + rounding) / self.total;
        // if phi is smaller than its error, its modulus is taken to be that error
        let floor = libm::log(error.max(1e-300));
        let log_ratio = log_ratio.max(floor);
        Factor {
            log: libm::log(self.total) + log_ratio,
            phase: -libm::atan2(s, 1.0 - r),
            error: 2.0 * error * libm::exp(-log_ratio) + 4.0 * ULP,
        }
    }

    /// Squared modulus at the angle z, its derivative, and a bound on the error of the first.
    fn square(&self, z: f64) -> (f64, f64, f64) {
        let (mut c, mut s, mut dc, mut ds, mut far) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(j, w) in &self.points {
            let j = j as f64;
            let (sin, cos) = libm::sincos(z * j);
            c += w * cos;
            s += w * sin;
            dc -= w * j * sin;
            ds += w * j * cos;
            far += w * j.abs();
        }
        let n = self.points.len() as f64;
        let error = 2.0 * self.total * (ULP * (z * far + n * self.total) + self.error);
        (c * c + s * s, 2.0 * (c * dc + s * ds), error)
    }

    /// Whether `count ln |phi| <= log` at every angle from `start` to pi.
    ///
    /// F = |phi|² has |F''| <= 2 T Σ w (j - m)² = 2 C, so a value and a slope bound F on a stretch
    /// ahead by F + F' d + C d². A run of neighbouring points of mass m and total variation V
    /// bounds it further out: |phi| <= T - m + V / (2 sin(z/2)).
    pub(super) fn stays_below(&self, count: f64, log: f64, start: f64) -> bool {
        const PI: f64 = std::f64::consts::PI;
        let most = libm::exp(log / count);
        let square = most * most;
        let spread: f64 = self
            .points
            .iter()
            .map(|&(j, w)| w * j as f64 * j as f64)
            .sum();
        let curvature = self.total * spread * (1.0 + 1e-9);
        let (mass, variation) = self.smoothest_run();
        let steps = (BELOW_WORK / self.points.len().max(1)).min(4000);
        let mut z = start;
        for _ in 0..steps {
            let run = self.total - mass + variation / (2.0 * libm::sin(0.5 * z.min(PI)));
            if z >= PI || run * (1.0 + 1e-9) + self.error <= most {
                return true;
            }
            let (value, slope, error) = self.square(z);
            let room = square - value - error;
            if room <= 0.0 {
                return false;
            }
            let slope = slope + 1e-9 * slope.abs();
            let root = slope.mul_add(slope, 4.0 * curvature * room).sqrt();
            let ahead = if slope > 0.0 {
                2.0 * room / (slope + root)
            } else {
                (root - slope) / (2.0 * curvature)
            };
            z += ahead * (1.0 - 1e-9);
        }
        false
    }

    /// The run of consecutive indices with the largest mass, and the total variation of its
    /// weights.
    fn smoothest_run(&self) -> (f64, f64) {
        let mut best = (0.0, 0.0);
        let (mut mass, mut variation, mut last) = (0.0, 0.0, (i64::MIN, 0.0));
        for &(j, w) in &self.points {
            if j == last.0.saturating_add(1) {
                mass += w;
                variation += (w - last.1).abs();
            } else {
                (mass, variation) = (w, w);
            }
            if mass > best.0 {
                best = (mass, variation + w);
            }
            last = (j, w);
        }
        best
    }

    /// Number of points.
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    /// All factors from 0 to N/2 by one transform, and a bound on the Euclidean norm of their error
    /// divided by the square root of N.
    ///
    /// The transform of N/2 complex numbers by radix 2 has a norm-wise relative error of at most η
    /// log2(N/2) with η = μ + 4√2 u (Higham, Accuracy and Stability, Theorem 24.2), where u is half
    /// an [`ULP`] and μ is the error of the roots of unity: about 10 u, because their angles are
    /// rounded before the sine is computed. Two more levels cover the step from complex to real; η
    /// is counted 1.5 times.
    pub(super) fn transform(&self, period: usize) -> (Vec<Factor>, f64) {
        let mut input = vec![0.0; period];
        let n = period as i64;
        for &(j, w) in &self.points {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "reduced modulo the period"
            )]
            let place = j.rem_euclid(n) as usize;
            input[place] += w;
        }
        let norm = input.iter().map(|w| w * w).sum::<f64>().sqrt();
        let error = 12.0 * ULP * ((period as f64).log2() + 1.0) * norm;
        let factors = real_transform(&input).into_iter().map(|phi| {
            let (r, s) = (self.total - phi.re, -phi.im);
            self.factor(r, s, 2.0 * ULP * self.total)
        });
        (factors.collect(), error)
    }
}

/// Steps of a rotation before it is recomputed directly.
const FRESH: u64 = 16;

/// Bound on the error of a rotated sine or cosine in [`ULP`]s: relative to the sine as long as the
/// angle has not passed a quarter turn, absolute beyond.
///
/// A rotation adds at most 2 roundings to each of the two parts, and the error of the other part
/// contributes times the sine of the step; over 16 steps this is less than 64.
const ROTATED: f64 = 64.0;

/// The factors of one lattice at the frequencies 0, 1, 2, ..., each computed from the previous one.
#[derive(Debug)]
pub(super) struct Sweep<'a> {
    direct: &'a Direct,
    period: i64,
    next: u64,
    arms: Vec<Arm>,
}

/// Half the angle of one point.
#[derive(Debug, Clone, Copy)]
struct Arm {
    weight: f64,
    sin: f64,
    cos: f64,
    step: (f64, f64),
    /// First frequency at which half the angle is above a quarter turn.
    turned: f64,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(direct: &'a Direct, period: i64) -> Self {
        let arm = |&(j, weight): &(i64, f64)| {
            let half = 0.5 * angle(1, j, period);
            Arm {
                weight,
                sin: 0.0,
                cos: 1.0,
                step: libm::sincos(half),
                turned: 0.24 * TURN / half.abs(),
            }
        };
        Self {
            direct,
            period,
            next: 0,
            arms: direct.points.iter().map(arm).collect(),
        }
    }

    /// phi at the next frequency.
    pub(super) fn advance(&mut self) -> Factor {
        let k = self.next;
        if k.is_multiple_of(FRESH) {
            for (arm, &(j, _)) in self.arms.iter_mut().zip(&self.direct.points) {
                (arm.sin, arm.cos) = libm::sincos(0.5 * angle(k, j, self.period));
            }
        }
        let (mut r, mut s, mut size, mut loose) = (0.0, 0.0, 0.0, 0.0);
        let at = k as f64;
        for arm in &mut self.arms {
            let Arm {
                weight, sin, cos, ..
            } = *arm;
            let odd = 2.0 * weight * sin * cos;
            r += 2.0 * weight * sin * sin;
            s += odd;
            size += odd.abs();
            loose += if at < arm.turned {
                weight * sin.abs()
            } else {
                weight
            };
            arm.sin = sin * arm.step.1 + cos * arm.step.0;
            arm.cos = cos * arm.step.1 - sin * arm.step.0;
        }
        self.next += 1;
        let n = self.arms.len() as f64 + 4.0;
        let rounding = ULP * (n * (r + size) + 4.0 * ROTATED * loose);
        self.direct.factor(r, s, rounding)
    }
}
