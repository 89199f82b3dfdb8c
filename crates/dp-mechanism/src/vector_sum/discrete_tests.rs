//! Releases with discrete Gaussian noise, from one party and from two.

use dp_accounting::{PlannedRelease, Spend};
use dp_core::{Adjacency, DpEvent, Relation};

use super::*;
use crate::test_support::{DRAWS_FOR_ONE_PERCENT, LEVEL_1E_9, spends_of};
use crate::{NoisyShare, PoissonSampling, ShareServer};

/// sigma 64, D 32.
fn small_grid() -> Grid {
    Grid::with_log2_sigma(2.0, 1.0, 6).unwrap()
}

fn paid(event: DpEvent, n_draws: usize) -> Spend {
    let release = PlannedRelease::new("test", event, n_draws as u64);
    spends_of(vec![release], Adjacency::AddRemoveUser).remove(0)
}

fn zcdp(grid: &Grid) -> DpEvent {
    DpEvent::Zcdp {
        rho: grid.zcdp_rho(),
        relation: Relation::AddRemove,
    }
}

/// A sum of given integers.
fn sum(integers: &[i64], grid: Grid) -> VectorSum {
    let mut sum = VectorSum::empty(integers.len(), grid).unwrap();
    sum.sums.copy_from_slice(integers);
    sum
}

fn pattern(n: usize) -> Vec<i64> {
    (0..n as i64).map(|at| at * 1_000_003 - (1 << 40)).collect()
}

#[test]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the floor of a positive number below 2^86"
)]
fn rho_is_the_least_float_that_covers_the_exact_one() {
    for (z, k) in [
        (2.0, 6),
        (1.3, 30),
        (0.37, 40),
        (3.000_000_1, 40),
        (5.1, 17),
    ] {
        let grid = Grid::with_log2_sigma(z, 1.0, k).unwrap();
        let exact = u128::from(grid.l2_bound()).pow(2);
        // a power of two: both products are exact, and the cast takes the floor
        let scale = 2.0_f64.powi(2 * k.cast_signed() + 1);
        assert!((grid.zcdp_rho() * scale) as u128 >= exact, "{z}, {k}");
        assert!(
            ((grid.zcdp_rho().next_down() * scale) as u128) < exact,
            "{z}, {k}"
        );
    }
    assert!((small_grid().zcdp_rho() - 0.125).abs() < 1e-15);
}

#[test]
fn the_renyi_divergence_of_the_noise_is_what_rho_says() {
    // direct sums over the integers: at every order at most rho a, and almost equal to it
    let grid = small_grid();
    let sigma = grid.sigma() as f64;
    let log_weight = |y: f64| -y * y / (2.0 * sigma * sigma);
    let range = || (-1500..=1500).map(f64::from);
    let norm: f64 = range().map(|y| log_weight(y).exp()).sum();
    let divergence = |order: f64, shift: f64| {
        let moved = |y| order * log_weight(y - shift) + (1.0 - order) * log_weight(y);
        (range().map(|y| moved(y).exp()).sum::<f64>() / norm).ln() / (order - 1.0)
    };
    let bound = grid.l2_bound() as f64;
    for order in [1.1, 2.0, 3.7, 8.0] {
        let allowed = order * grid.zcdp_rho();
        let found = divergence(order, bound);
        assert!(
            found <= allowed * (1.0 + 1e-12) && found > 0.999 * allowed,
            "{order}: {found}"
        );
        // two coordinates with the same total norm together cost no more
        let pair = divergence(order, 24.0) + divergence(order, 21.0);
        assert!(pair <= allowed * (1.0 + 1e-12), "{order}: {pair}");
    }
}

/// Upper quantile of chi-square with 386 degrees of freedom at 1e-9, computed with scipy's
/// `chi2.isf`.
const CHI_SQUARE_386: f64 = 576.61;

#[test]
fn released_noise_has_the_exact_law() {
    // 2^18 draws in cells -192 to 192 and two tails, level 1e-9
    const N: usize = 1 << 18;
    const REACH: i64 = 192;
    let exact = pattern(N);
    let noise = &mut NoiseSource::operating_system();
    let grid = small_grid();
    let released = sum(&exact, grid).release_discrete(paid(zcdp(&grid), N), noise);
    let released = released.unwrap();
    let law = |y: i64| (-(y * y) as f64 / (2.0 * 4096.0)).exp();
    let norm: f64 = (-3000..=3000).map(law).sum();
    let expected = |y: i64| match y.abs() {
        size if size <= REACH => law(y) / norm,
        _ => (REACH + 1..=3000).map(law).sum::<f64>() / norm,
    };
    let mut counts = std::collections::BTreeMap::new();
    for (&y, &s) in released.integers().iter().zip(&exact) {
        let noise = (y - s).clamp(-REACH - 1, REACH + 1);
        *counts.entry(noise).or_insert(0.0) += 1.0;
    }
    let cell = |y: i64| {
        let mean = N as f64 * expected(y);
        (counts.get(&y).copied().unwrap_or(0.0) - mean).powi(2) / mean
    };
    let chi: f64 = (-REACH - 1..=REACH + 1).map(cell).sum();
    assert!(chi < CHI_SQUARE_386, "{chi}");
    assert!(!released.is_insecure());
    // no half step: the noise is symmetric around the value
    let step = grid.step();
    let middle = released.values()[0] / step - released.integers()[0] as f64;
    assert!(middle.abs() < 1e-3 && (released.noise_stddev() / step - 64.0).abs() < 1e-9);
}

#[test]
fn only_what_pays_for_discrete_noise_is_taken() {
    let grid = small_grid();
    let one = DpEvent::DiscreteGaussian {
        sigma: 64.0,
        sensitivity: 32,
    };
    let rho = |rho: f64, relation| DpEvent::Zcdp { rho, relation };
    let right = grid.zcdp_rho();
    let cases = [
        (1, zcdp(&grid), true),
        (9, zcdp(&grid), true),
        (9, rho(right.next_up(), Relation::AddRemove), true),
        (9, rho(right.next_down(), Relation::AddRemove), false),
        (1, one.clone(), true),
        (2, one, false),
        (
            1,
            DpEvent::DiscreteGaussian {
                sigma: 64.0,
                sensitivity: 31,
            },
            false,
        ),
        (
            1,
            DpEvent::DiscreteGaussian {
                sigma: 65.0,
                sensitivity: 32,
            },
            false,
        ),
        (1, DpEvent::gaussian(2.0), false),
        (1, DpEvent::sampled_gaussian(2.0, 0.5), false),
    ];
    for (n, event, pays) in cases {
        let noise = &mut NoiseSource::insecure_seeded(1);
        let spend = paid(event.clone(), n);
        let released = sum(&pattern(n), grid).release_discrete(spend, noise);
        assert_eq!(released.is_ok(), pays, "{n}, {event:?}");
        assert!(released.is_ok_and(|r| r.is_insecure()) == pays);
        // a Gaussian release accepts none of the discrete spends
        let spend = paid(event.clone(), n);
        let gaussian = sum(&pattern(n), grid).release(spend, noise);
        assert_eq!(
            gaussian.is_ok(),
            event == DpEvent::gaussian(2.0),
            "{event:?}"
        );
    }
    let replaced = PlannedRelease::new("test", rho(right, Relation::Replace), 1);
    let spend = spends_of(vec![replaced], Adjacency::ReplaceUser).remove(0);
    let noise = &mut NoiseSource::insecure_seeded(1);
    assert!(sum(&[1], grid).release_discrete(spend, noise).is_err());
    let fewer = sum(&[1, 2], grid).release_discrete(paid(zcdp(&grid), 1), noise);
    assert!(matches!(
        fewer,
        Err(Error::DrawCount {
            paid: 1,
            needed: 2,
            ..
        })
    ));
    // a sample has no event for discrete noise
    let mut sampled = sum(&[1], grid);
    sampled.sampling = Some(PoissonSampling::new(1.0).unwrap().into());
    assert!(
        sampled
            .release_discrete(paid(zcdp(&grid), 1), noise)
            .is_err()
    );
}

/// Two servers whose halves together contain `exact`.
fn servers(exact: &[i64], grid: Grid) -> [ShareServer; 2] {
    let shares = Share::split(Private::new(exact.to_vec())).unwrap();
    shares.map(|share| {
        let mut server = ShareServer::new(exact.len(), grid);
        server.receive(&share).unwrap();
        server
    })
}

#[test]
fn each_server_adds_a_whole_noise_of_its_own() {
    let (grid, n) = (small_grid(), 5000);
    let exact = pattern(n);
    let [left, right] = servers(&exact, grid);
    let total = |server: ShareServer, seed| {
        server
            .noisy_total(
                paid(zcdp(&grid), n),
                &mut NoiseSource::insecure_seeded(seed),
            )
            .unwrap()
    };
    let released = NoisyShare::release([total(left, 1), total(right, 2)]).unwrap();
    assert!(released.is_insecure());
    let own_noise = |seed| {
        let mut noise = vec![0; n];
        let stream = NoiseSource::insecure_seeded(seed).release_stream().unwrap();
        stream.add_discrete_gaussian(64, &mut noise);
        noise
    };
    let (first, second) = (own_noise(1), own_noise(2));
    assert_ne!(first, second);
    for (at, &y) in released.integers().iter().enumerate() {
        assert_eq!(y, exact[at] + first[at] + second[at]);
    }
}

#[test]
fn the_honest_noise_alone_has_the_scale_that_is_paid_for() {
    // white box: level 1e-9 with 1 percent too little noise from one server, and from both together
    let n = DRAWS_FOR_ONE_PERCENT;
    let grid = Grid::new(5.0, 1.0).unwrap();
    let exact = vec![7; n];
    let score = |noise: &mut dyn Iterator<Item = i64>, variance: f64| {
        let squares: f64 = noise.map(|y| (y as f64).powi(2)).sum();
        (squares / variance - n as f64) / (2.0 * n as f64).sqrt()
    };
    let variance = (grid.sigma() as f64).powi(2);
    let os = NoiseSource::operating_system;
    let noisy = |server: ShareServer| {
        let spend = paid(zcdp(&grid), n);
        server.noisy_total(spend, &mut os()).unwrap()
    };
    let released = NoisyShare::release(servers(&exact, grid).map(noisy)).unwrap();
    let mut both = released.integers().iter().map(|y| y - 7);
    let found = score(&mut both, 2.0 * variance);
    assert!(found.abs() < LEVEL_1E_9, "{found}");
    assert!((released.noise_stddev() / grid.noise_stddev() - 2.0_f64.sqrt()).abs() < 1e-12);
    assert!(!released.is_insecure());
    // one server's half: its share is known here because the other half is zero
    let mut honest = ShareServer::new(n, grid);
    honest.receive(&Share::from_coordinates(exact)).unwrap();
    let half = noisy(honest);
    let silent = ShareServer::new(n, grid).total();
    let joined = crate::sum_backend::join([half.into_share(), silent]).unwrap();
    let found = score(&mut joined.expose().iter().map(|y| y - 7), variance);
    assert!(found.abs() < LEVEL_1E_9, "{found}");
}

#[test]
fn a_half_leaves_only_when_its_server_has_paid_for_it() {
    let grid = small_grid();
    let noise = &mut NoiseSource::operating_system();
    let mut total = |spend| ShareServer::new(3, grid).noisy_total(spend, noise);
    assert!(total(paid(zcdp(&grid), 3)).is_ok());
    let fewer = total(paid(zcdp(&grid), 2)).map(|_| ());
    assert!(matches!(
        fewer,
        Err(Error::DrawCount {
            paid: 2,
            needed: 3,
            ..
        })
    ));
    let less = DpEvent::Zcdp {
        rho: grid.zcdp_rho().next_down(),
        relation: Relation::AddRemove,
    };
    for event in [less, DpEvent::gaussian(2.0)] {
        let refused = total(paid(event, 3)).map(|_| ());
        assert!(matches!(refused, Err(Error::WrongSpend { .. })));
    }
    let records = PlannedRelease::new("test", zcdp(&grid), 3);
    let records = spends_of(vec![records], Adjacency::AddRemoveRecord).remove(0);
    assert!(total(records).is_err());
}

#[test]
fn halves_that_do_not_belong_together_are_refused() {
    let grid = small_grid();
    let other = Grid::with_log2_sigma(2.0, 1.5, 6).unwrap();
    let total = |n: usize, grid: Grid| {
        ShareServer::new(n, grid)
            .noisy_total(paid(zcdp(&grid), n), &mut NoiseSource::operating_system())
            .unwrap()
    };
    let run = |a, b| NoisyShare::release([a, b]);
    assert!(run(total(3, grid), total(3, grid)).is_ok());
    assert!(run(total(3, grid), total(4, grid)).is_err());
    assert!(run(total(3, grid), total(3, other)).is_err());
}
