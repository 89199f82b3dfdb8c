#![allow(
    clippy::cast_possible_truncation,
    clippy::needless_range_loop,
    reason = "numbers of the test fit single precision; indices are those of the formulas"
)]

use super::*;
use crate::test_numbers::Numbers;
use crate::{cholesky_in_place, cholesky_solve_in_place, packed_index, unpack_symmetric};

/// Sets of up to `n_rows` rows, with a number after each row that must not be read.
fn sets(n_sets: usize, n_rows: usize, dim: usize) -> Vec<Vec<f32>> {
    let mut numbers = Numbers::new(5);
    let mut set = |n: usize| {
        let mut data: Vec<f32> = Vec::new();
        for _ in 0..n {
            data.extend(numbers.reals(dim).into_iter().map(|x| x as f32));
            data.push(f32::NAN);
        }
        data
    };
    (0..n_sets)
        .map(|s| set((n_rows + s) % (n_rows + 1)))
        .collect()
}

fn strided(data: &[f32], dim: usize) -> StridedRows<'_> {
    StridedRows {
        data,
        stride: dim + 1,
        n_rows: data.len() / (dim + 1),
        dim,
    }
}

/// The rows of a set in double precision, with zero rows up to `n_rows`.
fn wide(data: &[f32], n_rows: usize, dim: usize) -> Vec<Vec<f64>> {
    let rows = data.chunks(dim + 1);
    let rows = rows.map(|row| row[..dim].iter().map(|&x| x.into()).collect());
    let mut rows: Vec<Vec<f64>> = rows.collect();
    rows.resize(n_rows, vec![0.0; dim]);
    rows
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn lower(dim: usize) -> Vec<f32> {
    let numbers = Numbers::new(6).reals(dim * dim);
    let entries = numbers.into_iter().enumerate();
    let entries = entries.map(|(at, x)| if at % dim > at / dim { 0.0 } else { x as f32 });
    entries.collect()
}

fn check(found: f32, expected: f64, what: &str) {
    let error = (f64::from(found) - expected).abs();
    assert!(
        error <= 2e-5 * (1.0 + expected.abs()),
        "{what}: {found} {expected}"
    );
}

const SHAPES: [(usize, usize, usize); 7] = [
    (1, 1, 1),
    (16, 5, 16),
    (3, 4, 7),
    (16, 10, 50),
    (9, 11, 33),
    (15, 6, 8),
    (12, 2, 17),
];

#[test]
fn every_instruction_set_gives_the_numbers_of_the_definition() -> Result<()> {
    for (n_sets, n_rows, dim) in SHAPES {
        let data = sets(n_sets, n_rows, dim);
        let given: Vec<_> = data.iter().map(|data| strided(data, dim)).collect();
        let (matrix, columns) = (lower(dim), lower(dim));
        for isa in InstructionSet::available() {
            let what = format!("{isa:?} {n_sets} {n_rows} {dim}");
            let mut rows = BatchedRows::with_instructions(dim, isa)?;
            rows.load(&[strided(&vec![9.0; (n_rows + 3) * (dim + 1)], dim); SETS])?;
            let mut moved = rows.clone();
            rows.load(&given)?;
            assert!(rows.scales() == &Across([1.0; SETS]) || dim == 1);
            let n_rows = given.iter().map(|set| set.n_rows).max().unwrap();
            assert_eq!(rows.n_rows(), n_rows);
            rows.announce(&given);
            moved.load_product(&mut rows, &matrix)?;
            let (mut pairs, mut products) = (vec![Across([7.0; SETS])], Vec::new());
            moved.inner_products(&mut pairs);
            let n_columns = dim.min(3);
            rows.products(&columns[..n_columns * dim], &mut products)?;
            let mut sum = vec![Across::default(); dim];
            let coefficients = moved.cells[..n_rows].to_vec();
            rows.weighted_sum(&coefficients, &mut sum)?;
            let mut apart = vec![f32::NAN; n_sets * dim];
            f32::run(isa, Separate::new(&sum, &mut apart));

            for (s, data) in data.iter().enumerate() {
                let x = wide(data, n_rows, dim);
                let scale = f64::from(rows.scales().0[s]);
                let total: f64 = x.iter().map(|x| scale * scale * inner(x, x)).sum();
                check(rows.squares().0[s], total, &what);
                let row = |m: &[f32], a: usize| -> Vec<f64> {
                    m[a * dim..][..dim].iter().map(|&x| x.into()).collect()
                };
                let z: Vec<Vec<f64>> = x
                    .iter()
                    .map(|x| {
                        (0..dim)
                            .map(|a| scale * inner(&row(&matrix, a), x))
                            .collect()
                    })
                    .collect();
                for r in 0..n_rows {
                    for a in 0..dim {
                        check(moved.cells[r * dim + a].0[s], z[r][a], &what);
                    }
                    for k in 0..n_columns {
                        let expected = scale * inner(&row(&columns, k), &x[r]);
                        check(products[r * (n_columns + 1) + k].0[s], expected, &what);
                    }
                    let expected = scale * scale * inner(&x[r], &x[r]);
                    check(
                        products[r * (n_columns + 1) + n_columns].0[s],
                        expected,
                        &what,
                    );
                    for q in r..n_rows {
                        let found = pairs[packed_index(n_rows, r, q)].0[s];
                        check(found, inner(&z[r], &z[q]), &what);
                    }
                }
                for a in 0..dim {
                    let terms = x.iter().zip(&coefficients);
                    let terms = terms.map(|(x, c)| scale * x[a] * f64::from(c.0[s]));
                    check(sum[a].0[s], terms.sum(), &what);
                    assert_eq!(apart[s * dim + a].to_bits(), sum[a].0[s].to_bits());
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_set_does_not_feel_its_neighbours() -> Result<()> {
    let (n_rows, dim) = (7, 19);
    let data = sets(SETS, n_rows, dim);
    let mut given: Vec<_> = data.iter().map(|data| strided(data, dim)).collect();
    let huge = vec![f32::MAX; 3 * (dim + 1)];
    given[3] = strided(&huge, dim);
    let bits = |rows: &BatchedRows, set: usize| -> Vec<u32> {
        let numbers = rows.cells.iter().chain([&rows.squares, &rows.scales]);
        numbers.map(|x| x.0[set].to_bits()).collect()
    };
    for isa in InstructionSet::available() {
        let mut together = BatchedRows::with_instructions(dim, isa)?;
        together.load(&given)?;
        let mut alone = together.clone();
        for (s, set) in given.iter().enumerate() {
            alone.load(&[*set])?;
            let (mut expected, found) = (bits(&alone, 0), bits(&together, s));
            let others = expected.split_off(alone.n_rows() * dim);
            let numbers = together.n_rows() * dim;
            expected.resize(numbers, 0);
            expected.extend(others);
            assert!(found == expected, "{isa:?} {s}");
        }
    }
    Ok(())
}

/// Everything computed for a set, as bits: products with a matrix, inner products, products with
/// columns, the solution of a system, weighted sums. Of `n_rows` rows, only the numbers of the
/// first `own` are compared.
fn all_bits(isa: InstructionSet, rows: &mut BatchedRows, set: usize, own: usize) -> Vec<u32> {
    let (dim, n_rows) = (rows.dim, rows.n_rows());
    let mut matrix = lower(dim);
    for (at, x) in matrix.iter_mut().enumerate() {
        if at % dim > at / dim {
            *x = if at.is_multiple_of(2) { f32::NAN } else { 1.0 }; // not read
        }
    }
    let mut moved = BatchedRows::with_instructions(dim, isa).unwrap();
    moved.load_product(rows, &matrix).unwrap();
    let (mut pairs, mut products) = (Vec::new(), Vec::new());
    moved.inner_products(&mut pairs);
    let columns = &lower(dim)[..3 * dim];
    rows.products(columns, &mut products).unwrap();
    let used = |r: usize| if r < own { 1.5 - r as f32 } else { 0.0 };
    let mut x: Vec<_> = (0..n_rows).map(|r| Across([used(r); SETS])).collect();
    let mut sums = vec![Across::default(); dim];
    let (mut factor, lifts) = (pairs.clone(), Across([0.01; SETS]));
    f32::run(isa, BatchedSolve::new(&mut factor, &lifts, &mut x));
    rows.weighted_sum(&x, &mut sums).unwrap();
    let places = (0..own).flat_map(|r| (r..own).map(move |q| packed_index(n_rows, r, q)));
    let found = places.flat_map(|at| [pairs[at], factor[at]]);
    let mut found: Vec<Across> = found.collect();
    found.extend(&moved.cells[..own * dim]);
    found.extend(&products[..own * 4]);
    found.extend(&x[..own]);
    found.extend(&sums);
    found.iter().map(|x| x.0[set].to_bits()).collect()
}

#[test]
fn nothing_that_is_computed_of_a_set_feels_its_neighbours() -> Result<()> {
    let dim = 33;
    for most_rows in [1, 4, 5, 7, 13] {
        let mut data = sets(SETS, most_rows, dim);
        for (s, data) in data.iter_mut().enumerate() {
            let size = [1.0, 1e-30, 1e30, 0.0, 1e-42][s % 5];
            data.iter_mut().for_each(|x| *x *= size);
        }
        let given: Vec<_> = data.iter().map(|data| strided(data, dim)).collect();
        for isa in InstructionSet::available() {
            let mut together = BatchedRows::with_instructions(dim, isa)?;
            let mut alone = together.clone();
            for (s, set) in given.iter().enumerate() {
                alone.load(&[*set])?;
                let own = alone.n_rows();
                let expected = all_bits(isa, &mut alone, 0, own);
                for shift in [0, 3] {
                    let mut shifted = given.clone();
                    shifted.rotate_left(shift);
                    together.load(&shifted)?;
                    let at = (s + SETS - shift) % SETS;
                    let found = all_bits(isa, &mut together, at, own);
                    assert!(found == expected, "{isa:?} {most_rows} {s} {shift}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn sets_of_any_size_come_out_in_range() -> Result<()> {
    for size in [f32::MAX, 1e30, 1e-30, f32::MIN_POSITIVE] {
        let data = [size, -0.5 * size, 0.0, 0.25 * size];
        let set = StridedRows {
            data: &data,
            stride: 2,
            n_rows: 2,
            dim: 2,
        };
        let zeros = StridedRows {
            data: &[0.0; 4],
            ..set
        };
        let mut rows = BatchedRows::new(2)?;
        rows.load(&[set, zeros])?;
        let (scale, square) = (rows.scales().0[0], rows.squares().0[0]);
        assert!((1.0..4.0).contains(&(size * scale)), "{size} {scale}");
        assert!(scale.to_bits().trailing_zeros() >= 23, "a power of two");
        check(square, f64::from(size * scale).powi(2) * 1.3125, "squares");
        assert!(rows.squares().0[1].to_bits() == 0);
    }
    Ok(())
}

#[test]
fn systems_are_solved_each_for_itself() -> Result<()> {
    for n in [1, 2, 3, 7, 10] {
        let mut numbers = Numbers::new(8);
        let mut rows = BatchedRows::new(n + 5)?;
        let data = (0..SETS).map(|_| numbers.reals(n * (n + 5)));
        let data: Vec<Vec<f32>> = data
            .map(|x| x.into_iter().map(|x| x as f32).collect())
            .collect();
        let of = |data| StridedRows {
            data,
            stride: n + 5,
            n_rows: n,
            dim: n + 5,
        };
        let given: Vec<_> = data.iter().map(|data| of(data)).collect();
        rows.load(&given)?;
        let mut matrix = Vec::new();
        rows.inner_products(&mut matrix);
        let lifts = Across(std::array::from_fn(|s| 0.1 * s as f32));
        let b: Vec<Across> = (0..n)
            .map(|_| Across(std::array::from_fn(|s| (s + n) as f32 - 4.5)))
            .collect();
        for isa in InstructionSet::available() {
            let (mut factor, mut x) = (matrix.clone(), b.clone());
            f32::run(isa, BatchedSolve::new(&mut factor, &lifts, &mut x));
            for s in 0..SETS {
                let packed: Vec<f64> = matrix.iter().map(|a| a.0[s].into()).collect();
                let mut full = vec![0.0; n * n];
                unpack_symmetric(&packed, n, &mut full)?;
                full.iter_mut()
                    .step_by(n + 1)
                    .for_each(|a| *a += f64::from(lifts.0[s]));
                let mut expected: Vec<f64> = b.iter().map(|b| b.0[s].into()).collect();
                cholesky_in_place(&mut full, n)?;
                cholesky_solve_in_place(&full, n, &mut expected)?;
                let size = expected.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
                for (x, expected) in x.iter().zip(expected) {
                    let error = (f64::from(x.0[s]) - expected).abs();
                    assert!(error < 2e-3 * size, "{isa:?} {n} {s}: {error} of {size}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn unknowns_without_a_pivot_are_left_out() -> Result<()> {
    let of = |x: [f32; 3]| x.map(|x| Across([x; SETS]));
    let mut matrix = of([0.0, 0.0, 4.0]);
    matrix[0].0[1] = f32::NAN;
    matrix[0].0[2] = -1.0;
    let mut x = vec![Across([8.0; SETS]); 2];
    batched_solve(&mut matrix, &Across::default(), &mut x)?;
    for s in 0..3 {
        assert!(
            x[0].0[s].abs() <= 0.0 && (x[1].0[s] - 2.0).abs() < 1e-6,
            "{s}"
        );
    }
    Ok(())
}

#[test]
fn shapes_are_checked() -> Result<()> {
    let of = |data, n_rows, dim| StridedRows {
        data,
        stride: dim,
        n_rows,
        dim,
    };
    let mut rows = BatchedRows::new(2)?;
    assert!(BatchedRows::new(0).is_err());
    assert!(rows.load(&[of(&[1.0; 6], 2, 3)]).is_err());
    assert!(rows.load(&[of(&[1.0; 3], 2, 2)]).is_err());
    let overlapping = StridedRows {
        stride: 1,
        ..of(&[0.0; 3], 2, 2)
    };
    assert!(rows.load(&[overlapping]).is_err());
    assert!(rows.load(&[of(&[1.0; 4], 2, 2); SETS + 1]).is_err());
    rows.load(&[of(&[1.0; 4], 2, 2)])?;
    let one = [Across::default()];
    assert!(rows.products(&[1.0; 3], &mut Vec::new()).is_err());
    assert!(
        rows.weighted_sum(&one, &mut [Across::default(); 2])
            .is_err()
    );
    assert!(rows.weighted_sum(&[one[0]; 2], &mut one.clone()).is_err());
    let mut other = rows.clone();
    assert!(rows.load_product(&mut other, &[1.0; 3]).is_err());
    let mut wider = BatchedRows::new(3)?;
    assert!(wider.load_product(&mut other, &[1.0; 9]).is_err());
    assert!(batched_lower_product(&[1.0; 3], &[one[0]; 2], &mut [one[0]; 2]).is_err());
    assert!(batched_lower_product(&[1.0; 4], &[one[0]; 2], &mut one.clone()).is_err());
    assert!(batched_solve(&mut [one[0]; 2], &one[0], &mut [one[0]; 2]).is_err());
    assert!(separate(&[one[0]; 2], &mut [0.0; 3]).is_err());
    assert!(separate(&[one[0]; 2], &mut [0.0; 2 * SETS + 2]).is_err());
    rows.load(&[])?;
    assert_eq!(rows.n_rows(), 0);
    Ok(())
}
