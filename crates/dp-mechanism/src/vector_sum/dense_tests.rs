use super::*;
use crate::contribution::SparseBuffer;
use crate::test_support::{Lcg, table};

use dp_core::UserRow;

/// How the same numbers are passed.
#[derive(Clone, Copy)]
enum Way {
    OnePiece,
    Entries,
    /// One coordinate separately from the others, in two halves.
    Both,
    /// More numbers than there are coordinates.
    TooMany,
}

/// Numbers in all coordinates from the user's own records, with a norm around the bound or extreme.
struct Numbers {
    way: Way,
    hostile: bool,
}

const N: usize = 300;

impl VectorContribution for Numbers {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let seed = user.iter().fold(1, |h, (item, value)| {
            (h ^ u64::from(item) ^ u64::from(value.to_bits())).wrapping_mul(0x100_0000_01b3)
        });
        let mut rng = Lcg(seed);
        if rng.below(20) == 0 {
            return;
        }
        let scale = 1.9 * rng.signed() / (N as f64).sqrt(); // norm up to 1.1
        let hostile = self.hostile && rng.below(2) == 0;
        let at = usize::try_from(rng.below(N as u64)).unwrap();
        let mut values: Vec<f64> = (0..N).map(|_| rng.signed() * scale).collect();
        if hostile {
            values[at] = rng.hostile();
        }
        match self.way {
            Way::OnePiece => out.dense(N).copy_from_slice(&values),
            Way::Entries => (0..).zip(values).for_each(|(i, v)| out.push(i, v)),
            Way::Both => {
                let half = values[at] / 2.0;
                values[at] -= half;
                out.push(u32::try_from(at).unwrap(), half);
                out.dense(N).copy_from_slice(&values);
            }
            Way::TooMany => out.dense(N + 3)[..N].copy_from_slice(&values),
        }
    }
}

#[test]
fn one_piece_or_entries_give_the_same_integers() {
    // 2^51 / D is 2048 here, so that the sums of one task are moved to integers several times
    let grid = Grid::new(1.0, 1.0).unwrap();
    let data = Private::new(table(6_000, 9, 4, 7));
    let sums = |way, hostile| {
        let numbers = Numbers { way, hostile };
        let sum = VectorSum::accumulate(&data, N, grid, &numbers).unwrap();
        sum.sums
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.unwrap().install(|| {
        assert!(sums(Way::Both, false) == sums(Way::Entries, false));
        for hostile in [false, true] {
            let expected = sums(Way::Entries, hostile);
            assert!(expected.iter().any(|&s| s != 0));
            for way in [Way::OnePiece, Way::TooMany] {
                assert!(sums(way, hostile) == expected);
            }
        }
    });
}

#[test]
fn one_piece_moves_the_sum_by_a_bounded_contribution_or_by_nothing() {
    let grid = Grid::new(1.3, 1.0).unwrap();
    let bound = u128::from(grid.l2_bound()).pow(2);
    let data = table(400, 9, 4, 9);
    let numbers = Numbers {
        way: Way::OnePiece,
        hostile: true,
    };
    let (mut n_kept, mut n_left_out) = (0, 0);
    for user in data.users() {
        let one = vector_contribution(&grid, N, &numbers, user);
        let mut alone = dense::DenseSum::new(N, &grid);
        let mut buffer = SparseBuffer::default();
        numbers.contribute(user, &mut (), &mut buffer);
        if !buffer.is_dense(N) {
            continue; // contributes nothing
        }
        let mut moved = vec![0; N];
        alone.add(&buffer.dense, &grid, &mut moved).unwrap();
        alone.spill(&mut moved);
        let norm: u128 = moved.iter().map(|&z| bounded::square(z)).sum();
        assert!(norm <= bound);
        let found = moved.iter().copied().enumerate();
        assert!(
            found
                .filter(|e| e.1 != 0)
                .eq(one.iter().copied().filter(|e| e.1 != 0))
        );
        n_kept += u32::from(norm > 0);
        n_left_out += u32::from(norm == 0);
    }
    assert!(n_kept > 100 && n_left_out > 20, "{n_kept} {n_left_out}");
}
