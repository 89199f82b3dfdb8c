//! Integers of the sums against the definition.
#![allow(
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    reason = "exact integers are the claim"
)]

use super::*;

fn of(data: &[f32], dim: usize) -> StridedRows<'_> {
    let n_rows = data.len() / dim;
    StridedRows {
        data,
        stride: dim,
        n_rows,
        dim,
    }
}

/// The floor of `c w`, computed from the mantissa and exponent of `w`.
fn floor_of(c: i64, w: f64) -> f64 {
    let (mantissa, shift) = ((w * 2.0_f64.powi(62)) as i128, 62);
    assert_eq!(mantissa as f64, w * 2.0_f64.powi(62));
    ((i128::from(c) * mantissa) >> shift) as f64
}

#[test]
fn every_instruction_set_gives_the_integers_of_the_definition() {
    for (dim, n_rows) in [(1, 1), (3, 2), (8, 5), (17, 10), (33, 3), (50, 10)] {
        let rows: Vec<f32> = (0..dim * n_rows)
            .map(|i| ((i * 37 % 101) as f32 - 50.3) * 7.7)
            .collect();
        let scales: Vec<f32> = (0..n_rows).map(|r| 1.3 + r as f32).collect();
        let weights = [0.37, -12.0, 1e-3];
        let integer = |r: usize, a: usize| -> i64 {
            (f64::from(scales[r]) * f64::from(rows[r * dim + a])) as i64
        };
        let c = |a: usize, b: usize| -> i64 {
            (0..n_rows).map(|r| integer(r, a) * integer(r, b)).sum()
        };
        for isa in InstructionSet::available() {
            let mut sums = KroneckerAccumulator::with_instructions(dim, 3, isa).unwrap();
            let trace = sums.load(of(&rows, dim), &scales).unwrap();
            assert_eq!(trace, (0..dim).map(|a| c(a, a)).sum::<i64>() as f64);
            let mut products = Vec::new();
            sums.write_inner_products(&mut products);
            let pairs = (0..n_rows).flat_map(|r| (r..n_rows).map(move |s| (r, s)));
            let squares = pairs.zip(&products).map(|((r, s), &p)| {
                let square = (p as i128).pow(2);
                if r == s { square } else { 2 * square }
            });
            let norm: i128 = (0..dim * dim)
                .map(|at| i128::from(c(at / dim, at % dim)).pow(2))
                .sum();
            assert_eq!(squares.sum::<i128>(), norm);
            sums.add(&weights).unwrap();
            for _ in 0..7 {
                sums.load(of(&rows, dim), &scales).unwrap();
                sums.add(&weights).unwrap();
            }
            sums.load(of(&rows, dim), &scales).unwrap(); // and not added
            let mut out = vec![0.0; 3 * packed_len(dim)];
            sums.write_packed(&mut out).unwrap();
            let mut found = out.iter();
            for w in weights {
                for a in 0..dim {
                    for b in a..dim {
                        let once = floor_of(c(a, b), w);
                        assert_eq!(*found.next().unwrap(), 8.0 * once, "{isa:?} {dim}");
                    }
                }
            }
        }
    }
}

/// Products slightly below an integer, to which they round.
#[test]
fn the_floor_is_that_of_the_exact_product() {
    // 3^2 w is slightly below 1, and then for its double slightly above
    let below = 1.0 / 9.0_f64;
    assert_eq!(9.0 * below, 1.0);
    assert_eq!(floor_of(9, below), 0.0);
    for isa in InstructionSet::available() {
        let mut sums = KroneckerAccumulator::with_instructions(1, 2, isa).unwrap();
        for _ in 0..5 {
            sums.load(of(&[3.0], 1), &[1.0]).unwrap();
            sums.add(&[below, -below]).unwrap();
        }
        let mut out = [7.0; 2];
        sums.write_packed(&mut out).unwrap();
        assert_eq!(out, [0.0, -5.0], "{isa:?}");
    }
}

#[test]
fn shapes_are_checked_and_fewer_rows_leave_nothing_behind() {
    assert!(KroneckerAccumulator::new(0, 1).is_err());
    assert!(KroneckerAccumulator::new(2, 0).is_err());
    let mut sums = KroneckerAccumulator::new(2, 1).unwrap();
    assert!(sums.load(of(&[1.0; 3], 3), &[1.0]).is_err());
    assert!(sums.load(of(&[1.0; 4], 2), &[1.0]).is_err());
    assert_eq!(sums.load(of(&[9.0; 4], 2), &[1.0; 2]).unwrap(), 324.0);
    assert_eq!(sums.load(of(&[2.0, f32::NAN], 2), &[1.0]).unwrap(), 4.0);
    assert!(sums.add(&[1.0; 2]).is_err());
    sums.add(&[1.0]).unwrap();
    let mut out = [0.0; 3];
    assert!(sums.write_packed(&mut [0.0; 2]).is_err());
    sums.write_packed(&mut out).unwrap();
    assert_eq!(out, [4.0, 0.0, 0.0]);
    // rows loaded before a rejected call are not added after it
    for (rows, scales) in [(of(&[1.0; 3], 3), 1), (of(&[1.0; 4], 2), 1)] {
        sums.load(of(&[9.0; 4], 2), &[1.0; 2]).unwrap();
        assert!(sums.load(rows, &[1.0; 2][..scales]).is_err());
        sums.add(&[1.0]).unwrap();
    }
    sums.write_packed(&mut out).unwrap();
    assert_eq!(out, [4.0, 0.0, 0.0]);
    sums.reset();
    sums.write_packed(&mut out).unwrap();
    assert_eq!(out, [0.0; 3]);
}
