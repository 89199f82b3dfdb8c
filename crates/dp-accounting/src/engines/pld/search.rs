//! The two ends of an epsilon, each on its safe side.

/// A decreasing function of epsilon with the value wanted, on a logarithmic scale.
fn log_ratio(value: f64, target: f64) -> f64 {
    if value <= 0.0 {
        -800.0
    } else {
        libm::log(value) - libm::log(target)
    }
}

/// The smallest epsilon found with `delta(epsilon) <= target`; `None` when none is found.
pub(super) fn smallest_below(
    delta: impl Fn(f64) -> f64,
    target: f64,
    (guess, scale): (f64, f64),
) -> Option<f64> {
    bracket(delta, target, (guess, scale)).map(|(_, above)| above)
}

/// The largest epsilon found with `delta(epsilon) > target`; 0 when not even that one has it.
pub(super) fn largest_above(
    delta: impl Fn(f64) -> f64,
    target: f64,
    (guess, scale): (f64, f64),
) -> f64 {
    bracket(delta, target, (guess, scale)).map_or(0.0, |(below, _)| below)
}

/// Two close numbers, delta above `target` at the first and not at the second. The search stays
/// near the guess, where the tilt makes delta sharp, and looks at 0 last.
fn bracket(
    delta: impl Fn(f64) -> f64,
    target: f64,
    (guess, scale): (f64, f64),
) -> Option<(f64, f64)> {
    let f = |epsilon: f64| log_ratio(delta(epsilon), target);
    let mut high = guess.max(1e-300);
    let mut f_high = f(high);
    let mut stride = scale.min(1e-3 * high);
    let (mut low, mut f_low) = (high, f_high);
    for _ in 0..60 {
        if f_high <= 0.0 {
            break;
        }
        (low, f_low) = (high, f_high);
        high += stride;
        stride *= 2.0;
        f_high = f(high);
    }
    while f_low <= 0.0 {
        (high, f_high) = (low, f_low);
        low = (low - stride).max(0.0);
        stride *= 2.0;
        f_low = f(low);
        if low <= 0.0 {
            break;
        }
    }
    if !(f_high <= 0.0) {
        None
    } else if f_low > 0.0 {
        narrow(f, (low, f_low), (high, f_high))
    } else {
        Some((0.0, 0.0))
    }
}

/// Relative width at which a search ends.
const NARROW: f64 = 1e-13;

/// Regula falsi with the Illinois rule, halving when it stalls.
fn narrow(
    f: impl Fn(f64) -> f64,
    (mut low, mut f_low): (f64, f64),
    (mut high, mut f_high): (f64, f64),
) -> Option<(f64, f64)> {
    let mut width = high - low;
    // Which end moved last: 1 for the lower.
    let mut moved = 0;
    for round in 0..80 {
        if high - low <= NARROW * high {
            break;
        }
        let secant = low + (high - low) * (f_low / (f_low - f_high));
        // A root hit to rounding would leave the other end where it is.
        let margin = (0.02 * (high - low)).min(0.4 * NARROW * high.max(1e-290));
        let halve = round % 3 == 2 && high - low > 0.5 * width;
        if round % 3 == 2 {
            width = high - low;
        }
        let middle = if halve || !secant.is_finite() {
            0.5 * (low + high)
        } else {
            secant.clamp(low + margin, high - margin)
        };
        if !(low < middle && middle < high) {
            break;
        }
        let value = f(middle);
        if value > 0.0 {
            (low, f_low) = (middle, value);
            f_high *= if moved > 0 { 0.5 } else { 1.0 };
            moved = 1;
        } else {
            (high, f_high) = (middle, value);
            f_low *= if moved < 0 { 0.5 } else { 1.0 };
            moved = -1;
        }
    }
    Some((low, high))
}
