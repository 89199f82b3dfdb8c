//! Minimises a function of the order, and defines the orders used by default.

/// 1 - 1/golden ratio.
const SHORT: f64 = 0.381_966_011_250_105_1;

/// Index and value of the smallest of `f` on ascending `points`.
///
/// If `unimodal` is given, f decreases and then increases, with infinities only at the right end,
/// on each of the pieces between the ascending numbers in it; f is then evaluated only about 2 log2
/// n times on each.
pub(crate) fn minimum_on(
    points: &[f64],
    unimodal: Option<&[f64]>,
    f: impl Fn(f64) -> f64,
) -> (usize, f64) {
    let mut best = (0, f64::INFINITY);
    let mut look = |i: usize| {
        let value = f(points[i]);
        if value < best.1 {
            best = (i, value);
        }
        value
    };
    let Some(pieces) = unimodal else {
        (0..points.len()).for_each(|i| {
            look(i);
        });
        return best;
    };
    let mut first = 0;
    for &end in pieces.iter().chain([&f64::INFINITY]) {
        let after = points.partition_point(|&x| x <= end);
        if after > first {
            descend(first, after - 1, &mut look);
            first = after;
        }
    }
    best
}

/// Evaluates about 2 log2 n points of a sequence that decreases and then increases, including its
/// smallest.
fn descend(first: usize, last: usize, look: &mut impl FnMut(usize) -> f64) {
    let (mut low, mut high) = (first, last);
    while low < high {
        let middle = usize::midpoint(low, high);
        let here = look(middle);
        if here <= look(middle + 1) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    look(low);
}

/// Smallest value found by golden-section search for x between `low` and `high`, both positive, on
/// a logarithmic scale; also the corresponding x.
pub(crate) fn minimum(low: f64, high: f64, n: u32, f: impl Fn(f64) -> f64) -> (f64, f64) {
    let at = |u: f64| {
        let x = libm::exp(u);
        (x, f(x))
    };
    let (mut a, mut b) = (libm::log(low), libm::log(high));
    let (mut u, mut v) = (a + SHORT * (b - a), b - SHORT * (b - a));
    let (mut left, mut right) = (at(u), at(v));
    let mut best = if left.1 <= right.1 { left } else { right };
    for _ in 0..n {
        if left.1 <= right.1 {
            (b, v, right) = (v, u, left);
            u = a + SHORT * (b - a);
            left = at(u);
        } else {
            (a, u, left) = (u, v, right);
            v = b - SHORT * (b - a);
            right = at(v);
        }
        for candidate in [left, right] {
            if candidate.1 < best.1 {
                best = candidate;
            }
        }
    }
    best
}

/// Orders 1 + s with s from 1e-4 to 1e6: twenty per decade, forty between 0.1 and 1000, where most
/// minima lie, and the integers up to 64, at which bounds for random allocation have their corners.
pub(super) fn default_orders() -> Vec<f64> {
    let coarse = (-80..=120).map(|k| 1.0 + decades(f64::from(k) / 20.0));
    let fine = (-20..60).map(|k| 1.0 + decades((f64::from(k) + 0.5) / 20.0));
    let integers = (2..=64).map(f64::from);
    let mut orders: Vec<f64> = coarse.chain(fine).chain(integers).collect();
    sorted(&mut orders);
    orders
}

fn decades(x: f64) -> f64 {
    libm::exp(x * std::f64::consts::LN_10)
}

/// Sorts in ascending order and removes near duplicates.
pub(super) fn sorted(orders: &mut Vec<f64>) {
    orders.sort_by(f64::total_cmp);
    orders.dedup_by(|b, a| *b - *a <= 1e-12 * *a);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unimodal_search_finds_what_looking_everywhere_finds() {
        let points: Vec<f64> = (1..=200).map(f64::from).collect();
        for center in [0.5, 1.0, 17.3, 120.6, 199.9, 500.0] {
            let f = |x: f64| {
                if x > 180.0 {
                    f64::INFINITY
                } else {
                    (x - center).abs()
                }
            };
            assert_eq!(
                minimum_on(&points, Some(&[]), f),
                minimum_on(&points, None, f)
            );
        }
        let saw = |x: f64| {
            if x <= 90.0 {
                (x - 80.0).abs()
            } else {
                (x - 120.0).abs() - 5.0
            }
        };
        assert_eq!(minimum_on(&points, Some(&[90.0]), saw), (119, -5.0));
        assert_eq!(minimum_on(&[2.0], Some(&[]), |x| x).0, 0);
    }

    #[test]
    fn golden_section_converges() {
        let (x, value) = minimum(1e-3, 1e3, 60, |x| (x - 2.0) * (x - 2.0) + 1.0);
        assert!((x - 2.0).abs() < 1e-6 && (value - 1.0).abs() < 1e-12);
    }

    #[test]
    fn default_orders_span_ten_decades_without_gaps() {
        let orders = default_orders();
        assert!(orders.len() > 300 && orders.len() < 400, "{}", orders.len());
        assert!((orders[0] - 1.0001).abs() < 1e-12);
        assert!((orders[orders.len() - 1] / 1e6 - 1.0).abs() < 1e-5);
        for pair in orders.windows(2) {
            assert!(pair[1] - 1.0 < 1.13 * (pair[0] - 1.0), "{pair:?}");
        }
    }
}
