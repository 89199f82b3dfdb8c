use super::*;
use crate::test_numbers::Numbers;

const DIMS: [usize; 16] = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 64, 67];

/// Sums in 128-bit integers, without rounding or overflow.
struct Exact {
    packed: Vec<i128>,
    rhs: Vec<i128>,
}

impl Exact {
    /// `indices` select rows; weights and labels belong to the indices.
    fn sum(dim: usize, rows: &[f64], indices: &[u32], weights: &[f64], labels: &[f64]) -> Self {
        let mut packed = vec![0; packed_len(dim)];
        let mut rhs = vec![0; dim];
        for ((&index, &w), &y) in indices.iter().zip(weights).zip(labels) {
            let row = &rows[index as usize * dim..][..dim];
            let x: Vec<i128> = row.iter().map(|&x| whole(x)).collect();
            for a in 0..dim {
                rhs[a] += whole(y) * whole(w) * x[a];
                for b in a..dim {
                    packed[crate::packed_index(dim, a, b)] += whole(w) * x[a] * x[b];
                }
            }
        }
        Self { packed, rhs }
    }

    fn assert_equals<T: Real + Into<f64>>(&self, gram: &GramAccumulator<T>) {
        let mut packed = vec![T::default(); self.packed.len()];
        gram.write_packed(&mut packed).unwrap();
        let found: Vec<i128> = packed.into_iter().map(|x| whole(x.into())).collect();
        assert_eq!(found, self.packed, "dim {}, {:?}", gram.dim(), gram.isa);
        let found: Vec<i128> = gram.rhs().iter().map(|&x| whole(x.into())).collect();
        assert_eq!(found, self.rhs, "dim {}, {:?}", gram.dim(), gram.isa);
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the value is a whole number"
)]
fn whole(x: f64) -> i128 {
    assert!(x.fract() == 0.0);
    x as i128
}

fn everything(n: usize) -> Vec<u32> {
    (0..u32::try_from(n).unwrap()).collect()
}

#[test]
fn integer_rows_sum_exactly_on_every_instruction_set() -> Result<()> {
    let mut numbers = Numbers::new(1);
    for isa in InstructionSet::available() {
        for dim in DIMS {
            // 1100 rows exceed a block at every dimension
            for n in [0, 1, 2, 9, 40, 1100] {
                let rows = numbers.integers(n * dim, 1 << 20);
                let labels = numbers.integers(n, 1 << 20);
                let mut gram = GramAccumulator::with_instructions(dim, isa)?;
                gram.add_rows_with_rhs(&rows, &labels)?;
                let ones = vec![1.0; n];
                Exact::sum(dim, &rows, &everything(n), &ones, &labels).assert_equals(&gram);
            }
        }
    }
    Ok(())
}

#[test]
fn gathered_integers_sum_exactly_with_and_without_weights() -> Result<()> {
    let mut numbers = Numbers::new(2);
    for isa in InstructionSet::available() {
        for dim in DIMS {
            let factors = numbers.integers(50 * dim, 1 << 15);
            for n in [0_usize, 1, 31, 32, 33, 150] {
                let indices: Vec<u32> = (0..n).map(|_| numbers.below(50)).collect();
                let labels = numbers.integers(n, 1000);
                let weights = numbers.integers(n, 100);
                let mut gram = GramAccumulator::with_instructions(dim, isa)?;
                gram.add_gathered_with_rhs(&factors, &indices, Some(&weights), &labels)?;
                Exact::sum(dim, &factors, &indices, &weights, &labels).assert_equals(&gram);
                gram.reset();
                gram.add_gathered_with_rhs(&factors, &indices, None, &labels)?;
                let ones = vec![1.0; n];
                Exact::sum(dim, &factors, &indices, &ones, &labels).assert_equals(&gram);
            }
        }
    }
    Ok(())
}

#[test]
fn small_integers_sum_exactly_in_f32() -> Result<()> {
    let mut numbers = Numbers::new(3);
    for isa in InstructionSet::available() {
        for dim in DIMS {
            let n = 300;
            let rows = numbers.integers(n * dim, 100);
            let labels = numbers.integers(n, 100);
            let single = |v: &[f64]| -> Vec<f32> {
                #[allow(clippy::cast_possible_truncation, reason = "small whole numbers")]
                v.iter().map(|&x| x as f32).collect()
            };
            let mut gram = GramAccumulator::with_instructions(dim, isa)?;
            gram.add_rows_with_rhs(&single(&rows), &single(&labels))?;
            let twice: Vec<u32> = [everything(n), everything(n)].concat();
            let (ones, zeros) = (vec![1.0; 2 * n], vec![0.0; n]);
            gram.add_gathered(&single(&rows), &everything(n), None)?;
            let labels = [labels, zeros].concat();
            Exact::sum(dim, &rows, &twice, &ones, &labels).assert_equals(&gram);

            // enough rows for tiles that halve and turn vectors, with weights on one side, and too
            // few
            for n in [200, 5] {
                let weights = numbers.integers(n, 3);
                gram.reset();
                gram.add_gathered(&single(&rows), &everything(n), Some(&single(&weights)))?;
                let labels = vec![0.0; n];
                Exact::sum(dim, &rows, &everything(n), &weights, &labels).assert_equals(&gram);
            }
        }
    }
    Ok(())
}

#[test]
fn sums_just_below_two_to_the_53_are_exact() -> Result<()> {
    // 2^11 rows of entries near 2^21: the diagonal ends just below 2^53, with all bits in use
    let (dim, n) = (12, 1 << 11);
    let mut numbers = Numbers::new(4);
    let mut rows = numbers.integers(n * dim, 1000);
    for x in &mut rows {
        *x = f64::from((1 << 21) - 1000) - x.abs();
    }
    for isa in InstructionSet::available() {
        let mut gram = GramAccumulator::with_instructions(dim, isa)?;
        gram.add_rows(&rows)?;
        let (ones, zeros) = (vec![1.0; n], vec![0.0; n]);
        let exact = Exact::sum(dim, &rows, &everything(n), &ones, &zeros);
        assert!(exact.packed.iter().all(|&s| s > 1 << 52 && s < 1 << 53));
        exact.assert_equals(&gram);
    }
    Ok(())
}

#[test]
fn order_and_pieces_do_not_change_integer_sums() -> Result<()> {
    let (dim, n) = (19, 200);
    let rows = Numbers::new(5).integers(n * dim, 1 << 20);
    let mut whole = vec![0.0; packed_len(dim)];
    let mut gram = GramAccumulator::new(dim)?;
    gram.add_rows(&rows)?;
    gram.write_packed(&mut whole)?;

    gram.reset();
    let mut reversed = everything(n);
    reversed.reverse();
    for piece in reversed.chunks(13) {
        gram.add_gathered(&rows, piece, None)?;
    }
    let mut pieces = vec![0.0; packed_len(dim)];
    gram.write_packed(&mut pieces)?;
    assert!(whole == pieces);
    Ok(())
}

#[test]
fn reals_agree_with_a_plain_loop() -> Result<()> {
    let mut numbers = Numbers::new(6);
    for isa in InstructionSet::available() {
        for dim in DIMS {
            let n = 70;
            let rows = numbers.reals(n * dim);
            let mut gram = GramAccumulator::with_instructions(dim, isa)?;
            gram.add_rows(&rows)?;
            let mut full = vec![0.0; dim * dim];
            gram.write_full(&mut full)?;
            for a in 0..dim {
                for b in 0..dim {
                    let x = rows.chunks_exact(dim).map(|row| row[a] * row[b]);
                    // n products of size 1, each rounded twice
                    assert!((full[a * dim + b] - x.sum::<f64>()).abs() < 1e-13);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn nan_stays_in_its_row_and_column() -> Result<()> {
    let (dim, n, bad) = (11, 20, 4);
    for isa in InstructionSet::available() {
        for row in [0, n - 2, n - 1] {
            let mut rows = Numbers::new(7).reals(n * dim);
            rows[row * dim + bad] = f64::NAN;
            let mut gram = GramAccumulator::with_instructions(dim, isa)?;
            gram.add_rows_with_rhs(&rows, &vec![1.0; n])?;
            let mut full = vec![0.0; dim * dim];
            gram.write_full(&mut full)?;
            for (place, value) in full.iter().enumerate() {
                let touched = place / dim == bad || place % dim == bad;
                assert_eq!(value.is_nan(), touched);
            }
            for (place, value) in gram.rhs().iter().enumerate() {
                assert_eq!(value.is_nan(), place == bad);
            }
        }
    }
    Ok(())
}

#[test]
fn bad_input_is_refused_and_changes_nothing() -> Result<()> {
    let mut gram = GramAccumulator::new(3)?;
    gram.add_rows(&[1.0, 2.0, 3.0])?;
    let before = gram.gram.clone();
    let table = [1.0; 9];
    let shape = |name, found, expected| {
        Err(Error::Shape(dp_core::ShapeError::new(
            name, found, expected,
        )))
    };
    assert_eq!(gram.add_rows(&table[..8]), shape("rows", 8, 6));
    let labels = [1.0; 2];
    assert_eq!(
        gram.add_rows_with_rhs(&table, &labels),
        shape("labels", 2, 3)
    );
    assert_eq!(
        gram.add_gathered(&table[..7], &[0], None),
        shape("factors", 7, 6)
    );
    let weights = Some(&[1.0][..]);
    assert_eq!(
        gram.add_gathered(&table, &[0, 1], weights),
        shape("weights", 1, 2)
    );
    let got = gram.add_gathered_with_rhs(&table, &[0], None, &labels);
    assert_eq!(got, shape("labels", 2, 1));
    let got = gram.add_gathered(&table, &[0, 3], None);
    assert_eq!(got, Err(Error::IndexOutOfRange { n_rows: 3 }));
    assert!(gram.gram[..] == before[..] && gram.rhs() == [0.0; 3]);
    assert_eq!(gram.write_packed(&mut [0.0; 5]), shape("out", 5, 6));
    assert_eq!(gram.write_full(&mut [0.0; 10]), shape("out", 10, 9));
    Ok(())
}

#[test]
fn dimensions_from_1_to_the_maximum_are_accepted() {
    let max = GramAccumulator::<f32>::MAX_DIM;
    assert!(GramAccumulator::<f32>::new(1).is_ok());
    assert!(GramAccumulator::<f32>::new(max).is_ok());
    for dim in [0, max + 1] {
        assert!(matches!(
            GramAccumulator::<f32>::new(dim),
            Err(Error::Param(_))
        ));
    }
}
