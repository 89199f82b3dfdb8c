use dp_core::{Interactions, Private, UserRow};
use proptest::prelude::*;

use super::*;
use crate::contribution::{FactorBuffer, FactorContribution, SparseBuffer, VectorContribution};
use crate::test_support::{Lcg, rebuilt, table};
use crate::{Error, GramGrids, GramSums, Grid, VectorSum, vector_contribution};

const N_ITEMS: usize = 17;

struct Votes;

impl VectorContribution for Votes {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        for (item, value) in user.iter() {
            out.push(item, f64::from(value) * 0.5);
        }
    }
}

struct Factors;

impl FactorContribution for Factors {
    type Scratch = ();

    fn scratch(&self) {}

    fn dim(&self) -> usize {
        3
    }

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut FactorBuffer) {
        let mut rng = Lcg(user.iter().map(|(i, v)| u64::from(i ^ v.to_bits())).sum());
        out.factor.fill_with(|| rng.signed() * 0.6);
        out.weights.fill_with(|| rng.signed().abs());
        out.labels.fill_with(|| rng.signed());
    }
}

fn grid() -> Grid {
    Grid::new(3.0, 2.0).unwrap()
}

fn gram_grids() -> GramGrids {
    GramGrids::new(3.0, 1.0, 2.0, 0.7).unwrap()
}

/// Both kinds of sum, computed by one backend.
fn sums(backend: &dyn SumBackend, data: &Private<Interactions>) -> (VectorSum, GramSums) {
    let vector = VectorSum::accumulate_with(backend, data, N_ITEMS, grid(), &Votes);
    let grams = GramSums::accumulate_with(backend, data, gram_grids(), &Factors);
    (vector.unwrap(), grams.unwrap())
}

fn shuffled(data: &Interactions, seed: u64) -> Private<Interactions> {
    let mut rng = Lcg(seed);
    let mut order: Vec<usize> = (0..data.n_users()).collect();
    for last in (1..order.len()).rev() {
        let other = usize::try_from(rng.below(last as u64 + 1)).unwrap();
        order.swap(last, other);
    }
    rebuilt(data, order)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_backend_gives_the_same_bits_for_every_order_of_users(
        n_users in 1_u32..400, most in 1_u64..12, seed in any::<u64>(),
    ) {
        let data = table(n_users, N_ITEMS, most, seed);
        let whole = rebuilt(&data, 0..data.n_users());
        let (vector, grams) = sums(&InProcess, &whole);
        // one user alone may add nothing
        prop_assert!(n_users < 20 || vector.sums().iter().any(|&s| s != 0));
        for k in [1, 2, 3, 8, 64] {
            let other = shuffled(&data, seed ^ k as u64);
            let backends: [&dyn SumBackend; 2] =
                [&Sharded::new(k).unwrap(), &TwoServers::new(k).unwrap()];
            for backend in backends {
                let (again, grams_again) = sums(backend, &other);
                prop_assert_eq!(again.sums(), vector.sums());
                prop_assert_eq!(grams_again.sums(), grams.sums());
            }
        }
    }
}

#[test]
fn sums_wrap_alike_in_every_backend() {
    // shards whose sums exceed 2^63 many times
    let shard = |at: usize| -> Result<Private<Vec<i64>>> {
        let mut rng = Lcg(at as u64);
        Ok(Private::new(
            (0..100).map(|_| rng.next().cast_signed()).collect(),
        ))
    };
    let mut expected = vec![0_i128; 100];
    for at in 0..64 {
        for (sum, z) in expected.iter_mut().zip(shard(at).unwrap().expose()) {
            *sum += i128::from(*z);
        }
    }
    let modulus = 1_i128 << 64;
    let backends: [&dyn SumBackend; 2] =
        [&Sharded::new(64).unwrap(), &TwoServers::new(64).unwrap()];
    for backend in backends {
        let total = backend.sum(&SumRequest::alone(100), &shard).unwrap();
        for (&sum, &exact) in total.expose().iter().zip(&expected) {
            assert_eq!(
                i128::from(sum).rem_euclid(modulus),
                exact.rem_euclid(modulus)
            );
        }
    }
}

#[test]
fn clients_that_share_their_own_contribution_make_the_same_sum() {
    // the protocol as between machines: every user is a client
    let data = table(300, N_ITEMS, 9, 4);
    let (mut left, mut right) = (
        ShareServer::new(N_ITEMS, grid()),
        ShareServer::new(N_ITEMS, grid()),
    );
    for user in data.users() {
        let mut dense = vec![0; N_ITEMS];
        for (item, z) in vector_contribution(&grid(), N_ITEMS, &Votes, user) {
            dense[item] = z;
        }
        let [a, b] = Share::split(Private::new(dense)).unwrap();
        left.receive(&a).unwrap();
        right
            .receive(&Share::from_coordinates(b.coordinates().to_vec()))
            .unwrap();
    }
    let joined = VectorSum::from_shares(grid(), [left.total(), right.total()]).unwrap();
    let (direct, _) = sums(&InProcess, &Private::new(data));
    assert_eq!(joined.sums(), direct.sums());
}

/// Upper quantile of chi-square with 255 degrees of freedom at 1e-9/200, computed with scipy's
/// `chi2.isf`. Each call of [`assert_uniform`] makes 8 tests, so 25 calls together stay within
/// 1e-9.
const CHI_SQUARE_255: f64 = 440.126;

/// Tests each of the eight bytes of the words against the uniform distribution: 256 cells, 2^17
/// words or more.
fn assert_uniform(words: &[i64], what: &str) {
    let expected = words.len() as f64 / 256.0;
    for byte in 0..8 {
        let mut cells = [0_u32; 256];
        for word in words {
            cells[usize::from(word.to_le_bytes()[byte])] += 1;
        }
        let square = |&n: &u32| (f64::from(n) - expected).powi(2) / expected;
        let chi_square: f64 = cells.iter().map(square).sum();
        assert!(
            chi_square < CHI_SQUARE_255,
            "{what}, byte {byte}: {chi_square}"
        );
    }
}

#[test]
fn what_one_server_sees_is_uniform_whatever_the_clients_hold() {
    const N: usize = 1 << 17;
    for (name, value) in [("zeros", 0), ("ones", -1), ("largest", i64::MAX)] {
        // two clients with the same vector, so that a reused mask would show in the difference
        let split = || Share::split(Private::new(vec![value; N])).unwrap();
        let (first, second) = (split(), split());
        for server in [0, 1] {
            let (a, b) = (first[server].coordinates(), second[server].coordinates());
            let pairs = |f: fn(i64, i64) -> i64| a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect();
            let difference: Vec<i64> = pairs(i64::wrapping_sub);
            let total: Vec<i64> = pairs(i64::wrapping_add);
            let steps: Vec<i64> = a.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
            for (view, words) in [
                ("share", a),
                ("difference of two clients", &difference),
                ("total", &total),
                ("step between coordinates", &steps),
            ] {
                assert_uniform(words, &format!("{name}, server {server}, {view}"));
            }
        }
    }
}

#[test]
#[should_panic(expected = "byte 7")]
fn a_mask_that_leaves_the_high_byte_alone_would_be_caught() {
    let mask = Share::split(Private::new(vec![0; 1 << 17])).unwrap();
    let narrow: Vec<i64> = mask[0]
        .coordinates()
        .iter()
        .map(|m| m & (i64::MAX >> 7))
        .collect();
    assert_uniform(&narrow, "mask of 56 bits");
}

/// A backend that requests arbitrary shards and returns arbitrary results.
struct Careless {
    asks: Vec<usize>,
    n_extra: usize,
}

impl SumBackend for Careless {
    fn n_shards(&self) -> usize {
        2
    }

    fn sum(&self, request: &SumRequest, shard: &ShardSum<'_>) -> Result<Private<Vec<i64>>> {
        let n_coordinates = request.n_coordinates;
        let mut total = vec![0; n_coordinates];
        for &at in &self.asks {
            add_sums(&mut total, shard(at)?.expose())?;
        }
        total.resize(n_coordinates + self.n_extra, 0);
        Ok(Private::new(total))
    }
}

#[test]
fn a_backend_that_counts_a_shard_twice_or_never_is_refused() {
    let data = Private::new(table(50, N_ITEMS, 5, 1));
    let run = |asks: &[usize], n_extra| {
        let backend = Careless {
            asks: asks.to_vec(),
            n_extra,
        };
        VectorSum::accumulate_with(&backend, &data, N_ITEMS, grid(), &Votes).map(|_| ())
    };
    assert!(run(&[1, 0], 0).is_ok());
    for (asks, n_extra) in [
        (&[0, 0, 1][..], 0),
        (&[0], 0),
        (&[], 0),
        (&[0, 1, 2], 0),
        (&[0, 1], 1),
    ] {
        assert!(
            matches!(run(asks, n_extra), Err(Error::Shape(_))),
            "{asks:?}"
        );
    }
}

#[test]
fn nobody_and_nothing() {
    let nobody = Private::new(dp_core::InteractionsBuilder::new(N_ITEMS).build().0);
    for k in [1, 3] {
        let (vector, grams) = sums(&Sharded::new(k).unwrap(), &nobody);
        assert!(vector.sums().iter().chain(grams.sums().0).all(|&s| s == 0));
    }
    assert!(Sharded::new(0).is_err() && TwoServers::new(0).is_err());
    let [empty, other] = Share::split(Private::new(Vec::new())).unwrap();
    assert!(VectorSum::from_shares(grid(), [empty, other]).is_err());
    let [short, _] = Share::split(Private::new(vec![1])).unwrap();
    let [_, long] = Share::split(Private::new(vec![1, 2])).unwrap();
    assert!(matches!(
        VectorSum::from_shares(grid(), [short, long]),
        Err(Error::Shape(_))
    ));
}
