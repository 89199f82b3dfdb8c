//! The steps of alternating least squares compared with reference computations in the same run.
//!
//! `cargo bench -p dp-benches --bench als` prints (a) the rate of the gathered Gram kernel against
//! faer's GEMM of the same precision, one core; (b) the solve with PSD projection, one matrix at a
//! time and in batches; (c) seconds and peak memory of a round without privacy from 1 to 10 million
//! generated ratings, with one thread and two. Name a part, `-- a`, to run only that part;
//! `-- c 30` goes up to 30 million.

use std::hint::black_box;
use std::time::Instant;

use dp_benches::{Contestant, peak_megabytes, take_turns};
use dp_data::LongTailRatings;
use dp_linalg::{
    AlignedVec, GramAccumulator, PsdBatchScratch, PsdScratch, Real, psd_part_plus_ridge_solve,
    psd_part_plus_ridge_solve_batch,
};
use dp_multitask::NonPrivateAls;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rand::distr::{Distribution, StandardUniform};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

/// Number of items and users of MovieLens-10M: the tables from which the equations of users and
/// items gather rows.
const TABLES: [u32; 2] = [10_677, 69_878];
const N_ROWS: usize = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let named = |a: &String| ["a", "b", "c"].contains(&a.as_str());
    let wants = |part: &str| !asked.iter().any(named) || asked.iter().any(|a| a == part);
    if wants("a") {
        gram_rates();
    }
    if wants("b") {
        projections()?;
    }
    if wants("c") {
        let most = asked.iter().find_map(|a| a.parse().ok()).unwrap_or(10);
        rounds(most)?;
    }
    Ok(())
}

fn gram_rates() {
    println!("gathered Gram, {N_ROWS} rows of a table: useful flops over faer's GEMM 512^3");
    println!("dim   table   f32 Gflop/s  share | f64 Gflop/s  share   (best turns)");
    for dim in [32, 64, 128] {
        for n_table in TABLES {
            gram_rate(dim, n_table);
        }
    }
}

fn gram_rate(dim: usize, n_table: u32) {
    let mut runs = [
        gemm::<f32>(),
        gram::<f32>(dim, n_table),
        gemm::<f64>(),
        gram::<f64>(dim, n_table),
    ];
    let times = take_turns(&mut runs, 401, 5e-4);
    let useful = (N_ROWS * dim * (dim + 1)) as f64;
    let gemm_flops = 2.0 * 512.0_f64.powi(3);
    let rate = |at: usize| useful / times[at].best / 1e9;
    let share = |at: usize| rate(at) / (gemm_flops / times[at - 1].best / 1e9);
    println!(
        "{dim:>3} {n_table:>7} {:13.1} {:6.2} | {:11.1} {:6.2}",
        rate(1),
        share(1),
        rate(3),
        share(3)
    );
}

fn random<T>(n: usize) -> Vec<T>
where
    StandardUniform: Distribution<T>,
{
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    (0..n).map(|_| rng.random()).collect()
}

fn gemm<T: Real + faer::traits::ComplexField>() -> Contestant<'static>
where
    StandardUniform: Distribution<T>,
{
    const N: usize = 512;
    let x: Vec<T> = random(N * N);
    let mut out: Vec<T> = random(N * N);
    Contestant::new(move || {
        let x = MatRef::from_column_major_slice(black_box(&x[..]), N, N);
        let to = MatMut::from_column_major_slice_mut(&mut out, N, N);
        matmul(to, Accum::Replace, x, x, T::one_impl(), Par::Seq);
    })
}

fn gram<T: Real>(dim: usize, n_table: u32) -> Contestant<'static>
where
    StandardUniform: Distribution<T>,
{
    let table = AlignedVec::from_slice(&random::<T>(n_table as usize * dim));
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let indices: Vec<u32> = (0..N_ROWS).map(|_| rng.random_range(0..n_table)).collect();
    let mut sums = GramAccumulator::<T>::new(dim).expect("dim is in range");
    Contestant::new(move || {
        sums.reset();
        sums.add_gathered(black_box(&table), &indices, None)
            .expect("shapes fit");
    })
}

fn projections() -> Result<(), Box<dyn std::error::Error>> {
    println!("\nPSD projection and solve of noise matrices: ns per matrix (best turns)");
    println!("dim  one by one    batched  ratio  largest difference");
    for dim in [8, 16, 32, 64, 128] {
        let n = 32;
        let matrices: Vec<f64> = random::<f64>(n * dim * dim)
            .iter()
            .map(|x| x - 0.5)
            .collect();
        let (b, ridges) = (random::<f64>(n * dim), vec![0.5; n]);
        let (mut x, mut y) = (b.clone(), b.clone());
        let (mut one, mut many) = (PsdScratch::new(dim)?, PsdBatchScratch::new(dim)?);
        let mut runs = [
            Contestant::new(|| {
                x.copy_from_slice(&b);
                for (a, x) in matrices
                    .chunks_exact(dim * dim)
                    .zip(x.chunks_exact_mut(dim))
                {
                    psd_part_plus_ridge_solve(a, 0.5, x, &mut one).expect("finite");
                }
            }),
            Contestant::new(|| {
                y.copy_from_slice(&b);
                psd_part_plus_ridge_solve_batch(&matrices, &ridges, &mut y, &mut many)
                    .expect("finite");
            }),
        ];
        let times = take_turns(&mut runs, 15, 4e-3);
        drop(runs);
        let each = |at: usize| times[at].best * 1e9 / n as f64;
        let apart = x.iter().zip(&y).map(|(x, y)| (x - y).abs());
        println!(
            "{dim:>3} {:11.0} {:10.0} {:6.2}  {:.1e}",
            each(0),
            each(1),
            each(0) / each(1),
            apart.fold(0.0, f64::max)
        );
    }
    Ok(())
}

/// Non-private rounds at dim 64: the items of MovieLens-10M, users in proportion to ratings.
fn rounds(most: usize) -> Result<(), Box<dyn std::error::Error>> {
    println!("\nmillion ratings   s a round, 1 thread   2 threads  ratio   peak MB so far");
    for millions in [1, 3, 10, 30, 100].into_iter().filter(|&m| m <= most) {
        let shape = LongTailRatings::new(6_988 * millions, 10_677, millions * 1_000_000);
        let ratings = shape.generate(&mut ChaCha20Rng::seed_from_u64(1))?;
        let data = ratings.interactions();
        let _made_once = data.expose().item_major();
        let mut seconds = [0.0; 2];
        for (threads, seconds) in (1..).zip(&mut seconds) {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()?;
            let run = |n_rounds| {
                let als = NonPrivateAls {
                    dim: 64,
                    n_rounds,
                    ..NonPrivateAls::default()
                };
                let start = Instant::now();
                let fitted = pool.install(|| als.fit(data));
                fitted.map(|_| start.elapsed().as_secs_f64())
            };
            *seconds = run(2)? - run(1)?;
        }
        let [one, two] = seconds;
        let (ratio, peak) = (one / two, peak_megabytes());
        println!("{millions:>15} {one:21.3} {two:11.3} {ratio:6.2} {peak:16.0}");
    }
    Ok(())
}
