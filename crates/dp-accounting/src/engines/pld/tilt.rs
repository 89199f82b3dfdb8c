//! Chooses the tilt and the window of losses on which the composition is computed.

use super::sketch::Sketch;

/// -ln of the tilted mass that may lie outside the window on each side.
const OUTSIDE: f64 = 32.0;

/// Sum of the cumulants.
pub(super) fn total(sketches: &[Sketch<'_>], s: f64) -> f64 {
    sketches.iter().map(|k| k.count * k.cumulant(s)).sum()
}

/// ln `max_x` e^(-s x) (1 - e^-x) over x >= 0, at x = ln(1 + 1/s).
pub(super) fn log_peak(s: f64) -> f64 {
    -s * libm::log1p(1.0 / s) - libm::log1p(s)
}

/// The tilt with the best bound on epsilon at ln delta, and that bound.
pub(super) fn for_delta(sketches: &[Sketch<'_>], log_delta: f64) -> (f64, f64) {
    let bound = |s: f64| (total(sketches, s) + log_peak(s) - log_delta) / s;
    let s = minimum(bound);
    (s, bound(s).max(0.0))
}

/// The tilt near the saddle point at `epsilon`, and the bound on ln delta there.
pub(super) fn for_epsilon(sketches: &[Sketch<'_>], epsilon: f64) -> (f64, f64) {
    let bound = |s: f64| total(sketches, s) - s * epsilon + log_peak(s);
    let saddle = |s: f64| total(sketches, s) - s * epsilon - libm::log(s) - libm::log1p(s);
    let s = minimum(saddle);
    (s, bound(s).min(0.0))
}

/// An interval that contains all but e^-OUTSIDE of the tilted sum on each side, and the two tilts
/// that prove it.
pub(super) struct Window {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) down: f64,
    pub(super) up: f64,
}

pub(super) fn window(sketches: &[Sketch<'_>], lambda: f64) -> Window {
    let at = total(sketches, lambda);
    let above = |s: f64| (total(sketches, lambda + s) - at + OUTSIDE) / s;
    let below = |s: f64| (total(sketches, lambda - s) - at + OUTSIDE) / s;
    let (up, down) = (minimum(above), minimum(below));
    // At the end of the losses there is no best tilt, and a steep one would be sensitive to every
    // step of the lattice; a flatter one makes the window one twentieth wider.
    let steepest = 20.0 * OUTSIDE / (above(up) + below(down));
    let (up, down) = (up.min(steepest), down.min(steepest));
    Window {
        low: -below(down),
        high: above(up),
        down,
        up,
    }
}

/// Minimiser of a function of s > 0 with a single minimum, on a logarithmic axis.
fn minimum(f: impl Fn(f64) -> f64) -> f64 {
    let value = |x: f64| {
        let y = f(libm::exp(x));
        if y.is_nan() { f64::INFINITY } else { y }
    };
    let (first, last, n) = (-16.0, 24.0, 40);
    let width = (last - first) / f64::from(n);
    let mut best = (f64::INFINITY, 0.0);
    for i in 0..=n {
        let x = first + width * f64::from(i);
        let y = value(x);
        if y < best.0 {
            best = (y, x);
        }
    }
    golden(value, best.1 - width, best.1 + width)
}

fn golden(f: impl Fn(f64) -> f64, mut a: f64, mut b: f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_894_9;
    let (mut c, mut d) = (b - RATIO * (b - a), a + RATIO * (b - a));
    let (mut fc, mut fd) = (f(c), f(d));
    for _ in 0..14 {
        if fc <= fd {
            (b, d, fd) = (d, c, fc);
            c = b - RATIO * (b - a);
            fc = f(c);
        } else {
            (a, c, fc) = (c, d, fd);
            d = a + RATIO * (b - a);
            fd = f(d);
        }
    }
    libm::exp(0.5 * (a + b))
}
