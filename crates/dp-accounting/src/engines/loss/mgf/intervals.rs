//! Which parts of the line matter to an integral.

/// Intervals looked at for every piece that may be kept: bisection visits twice as many as it
/// keeps, and some for every piece that is dropped.
const LOOKS: usize = 64;

/// Bisects `[from, to]` into pieces that are kept whole.
///
/// `judge(a, b, floor)` gives a bound from above on the logarithm of what lies in the interval, a
/// value reached inside it, and whether the piece is small enough. A piece is dropped when its
/// bound is below the floor, which is `floor` or `drop` below the largest value seen. `None` as
/// soon as more than `limit` pieces are kept, or far more were looked at.
pub(super) fn relevant(
    (from, to): (f64, f64),
    floor: f64,
    drop: f64,
    limit: usize,
    judge: impl Fn(f64, f64) -> Judgement,
) -> Option<Vec<(f64, f64)>> {
    let mut floor = floor;
    let mut kept: Vec<(f64, f64, f64)> = Vec::new();
    let mut open = vec![(from, to)];
    let mut looks = LOOKS.saturating_mul(limit);
    while let Some((a, b)) = open.pop() {
        looks = looks.checked_sub(1)?;
        let Judgement {
            upper,
            reached,
            small,
        } = judge(a, b);
        floor = floor.max(reached - drop);
        if upper < floor {
            continue;
        }
        let middle = 0.5 * (a + b);
        if small || middle <= a || middle >= b {
            if kept.len() >= limit {
                return None;
            }
            kept.push((a, b, upper));
        } else {
            open.push((middle, b));
            open.push((a, middle));
        }
    }
    kept.retain(|&(_, _, upper)| upper >= floor);
    Some(kept.into_iter().map(|(a, b, _)| (a, b)).collect())
}

/// What is known of one interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judgement {
    /// Bound from above on the log-integrand.
    pub(super) upper: f64,
    /// The log of the moment's integrand is at least this somewhere inside, as far as it may
    /// raise the floor.
    pub(super) reached: f64,
    /// Whether the piece need not be cut further.
    pub(super) small: bool,
}
