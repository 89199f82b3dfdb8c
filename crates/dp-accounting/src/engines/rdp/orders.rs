//! The orders that are used when none are named.

/// Orders 1 + s with s from 1e-4 to 1e6: twenty per decade, forty between 0.1 and 1000 where most
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

/// Ascending and without near repetitions.
pub(super) fn sorted(orders: &mut Vec<f64>) {
    orders.sort_by(f64::total_cmp);
    orders.dedup_by(|b, a| *b - *a <= 1e-12 * *a);
}

#[cfg(test)]
mod tests {
    use super::*;

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
