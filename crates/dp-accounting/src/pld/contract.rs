//! The optimistic discretisation, of second order.
//!
//! A profile δ is convex in k = e^ε. A function V that is convex, linear between lattice points
//! and nowhere above δ is the profile of a pair that the given one can be processed into
//! (Blackwell), so compositions of it stay below. Let C be the chords of δ over the cells: the
//! pessimistic profile. With c_i at the lattice points such that the chords of c are at least
//! C - δ on every cell, V = C - c is at most δ; where it is not convex its convex hull is lower
//! still. C - δ is at most the `excess` D of the cell, so c_i = max(D_{i-1}, D_i) will do:
//! D is about (mass) h / 8, and V falls short of δ by a second-order amount.
//!
//! All of it is done in masses, which keep their relative accuracy: the mass of a function f at
//! k_i is k_i (slope after - slope before).

/// A cell with mass strictly inside.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    pub(super) from: i64,
    pub(super) to: i64,
    /// D, tilted as at `from`.
    pub(super) excess: f64,
    /// What the cell gave to its right end, tilted as there.
    pub(super) right: f64,
    /// Whether it is an atom; those lie in other cells too.
    pub(super) atom: bool,
}

/// Subtracts c from the pessimistic `points` and takes the convex hull. Weights are tilted by
/// `lambda`.
pub(super) fn contract(
    points: &[(i64, f64)],
    gaps: &[Gap],
    lambda: f64,
    step: f64,
) -> Vec<(i64, f64)> {
    let corrections = corrections(points, gaps, lambda, step);
    let mut top = points.len();
    let mut stride = 1;
    // Lumping the far tail into ever lower tops ends at one point, where nothing is subtracted.
    while top > 1 {
        let lumped = lump(points, top, lambda, step);
        let mut c = corrections[..top].to_vec();
        c[top - 1] = 0.0;
        c[top - 2] = c[top - 2].max(top_correction(&lumped, gaps, lambda, step));
        if let Some(hull) = hull(&subtract(&lumped, &c, lambda, step), lambda, step) {
            return hull;
        }
        top = top.saturating_sub(stride).max(1);
        stride = (stride + stride / 4 + 1).min(1 << 20);
    }
    lump(points, 1, lambda, step)
}

/// c at every point, tilted as there: the largest D of the cells that touch it, those of atoms on
/// top of those of the density.
fn corrections(points: &[(i64, f64)], gaps: &[Gap], lambda: f64, step: f64) -> Vec<f64> {
    let mut density = vec![0.0_f64; points.len()];
    let mut atoms = density.clone();
    let place = |index: i64| points.binary_search_by_key(&index, |point| point.0);
    let raise = |gap: &Gap, c: &mut [f64]| {
        if let (Ok(a), Ok(b)) = (place(gap.from), place(gap.to)) {
            for i in a..=b {
                let grow = lambda * step * (points[i].0 - gap.from) as f64;
                c[i] = c[i].max(gap.excess * libm::exp(grow.min(700.0)));
            }
        }
    };
    for gap in gaps.iter().filter(|gap| !gap.atom) {
        raise(gap, &mut density);
    }
    let mut together: Option<Gap> = None;
    for gap in gaps.iter().filter(|gap| gap.atom) {
        let joined = together.filter(|last| last.from == gap.from);
        let excess = gap.excess + joined.map_or(0.0, |last| last.excess);
        let gap = Gap { excess, ..*gap };
        raise(&gap, &mut atoms);
        together = Some(gap);
    }
    density.iter().zip(&atoms).map(|(d, a)| d + a).collect()
}

/// c at the last point but one: the chord from there to 0 must cover C - δ, which near the top is
/// the mass that the cell gave to the top times 1 - e^(ε - top).
fn top_correction(points: &[(i64, f64)], gaps: &[Gap], lambda: f64, step: f64) -> f64 {
    let [.., (a, _), (b, _)] = *points else {
        return 0.0;
    };
    let inside = gaps.iter().filter(|gap| gap.from < b && gap.to > a);
    // What went further up than b was moved down to it with its P-mass.
    let given = inside.map(|gap| gap.right * libm::exp(-lambda * step * (gap.to - a) as f64));
    given.sum::<f64>() * -libm::expm1(-step * (b - a) as f64)
}

/// The first `top` points, with the mass of all others moved down to the last of them.
fn lump(points: &[(i64, f64)], top: usize, lambda: f64, step: f64) -> Vec<(i64, f64)> {
    let mut kept = points[..top].to_vec();
    if let Some(last) = kept.last_mut() {
        for &(index, w) in &points[top..] {
            last.1 += w * libm::exp(-lambda * step * (index - last.0) as f64);
        }
    }
    kept
}

/// points - (masses of c).
fn subtract(points: &[(i64, f64)], c: &[f64], lambda: f64, step: f64) -> Vec<(i64, f64)> {
    let width = |i: usize| step * (points[i + 1].0 - points[i].0) as f64;
    let mass = |i: usize| {
        let after = if i + 1 < points.len() {
            let w = width(i);
            (c[i + 1] * libm::exp(-lambda * w) - c[i]) / libm::expm1(w)
        } else {
            0.0
        };
        let before = if i > 0 {
            let w = width(i - 1);
            (c[i] - c[i - 1] * libm::exp((lambda * w).min(700.0))) / -libm::expm1(-w)
        } else {
            c[0]
        };
        after - before
    };
    (0..points.len())
        .map(|i| (points[i].0, points[i].1 - mass(i)))
        .collect()
}

/// Removes points of negative mass: the kink there is concave, and the line between its
/// neighbours runs below. A negative top cannot be removed.
fn hull(points: &[(i64, f64)], lambda: f64, step: f64) -> Option<Vec<(i64, f64)>> {
    let mut stack: Vec<(i64, f64)> = Vec::with_capacity(points.len());
    for &point in points {
        stack.push(point);
        while stack.len() >= 2 && stack[stack.len() - 2].1 < 0.0 {
            let middle = stack.len() - 2;
            let (index, mass) = stack.remove(middle);
            let b = stack.len() - 1;
            let (d, w) = match b.checked_sub(1) {
                Some(a) => (index - stack[a].0, stack[b].0 - stack[a].0),
                None => (1, 1),
            };
            let (d, w) = (step * d as f64, step * w as f64);
            let share = if b == 0 {
                1.0
            } else {
                libm::expm1(-d) / libm::expm1(-w)
            };
            let up = step * (stack[b].0 - index) as f64;
            stack[b].1 += mass * share * libm::exp((lambda * up).min(700.0));
            if b > 0 {
                stack[b - 1].1 += mass * (1.0 - share) * libm::exp(-lambda * d);
            }
        }
    }
    stack
        .last()
        .is_some_and(|top| top.1 >= 0.0)
        .then_some(stack)
}
