//! Kernels of dp-linalg as ratios to faer, measured alternately within one run, on one core.
//!
//! `cargo bench -p dp-benches --features criterion --bench linalg` prints the tables and then runs two small criterion
//! groups, for comparison between commits.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use dp_benches::{Contestant, take_turns};
use dp_linalg::{
    GramAccumulator, PsdScratch, Real, cholesky_in_place, cholesky_solve_in_place, packed_len,
    psd_part_plus_ridge_solve,
};
use faer::linalg::matmul::matmul;
use faer::linalg::solvers::Solve;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use rand::distr::{Distribution, StandardUniform};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const DIMS: [usize; 4] = [8, 16, 32, 64];
/// Rows of the table from which rows are gathered.
const TABLE_ROWS: u32 = 20_000;

fn main() {
    faer::set_global_parallelism(Par::Seq);
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(20)
        .configure_from_args();
    gram_table();
    solve_table();
    gram_group(&mut criterion);
    cholesky_group(&mut criterion);
    criterion.final_summary();
}

fn gram_table() {
    let mut rows = Vec::new();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut contestants = vec![Case::gemm(512, 512)];
    contestants.extend([64, 256, 4096].map(|n| Case::gemm(64, n)));
    for dim in DIMS {
        for n in [16, 64, 256, 4096] {
            contestants.push(Case::packed::<f64>(dim, n, "f64", &mut rng));
            contestants.push(Case::gathered::<f64>(dim, n, "f64", &mut rng));
        }
    }
    for dim in DIMS {
        for n in [64, 4096] {
            contestants.push(Case::packed::<f32>(dim, n, "f32", &mut rng));
            contestants.push(Case::gathered::<f32>(dim, n, "f32", &mut rng));
        }
    }
    let mut runs = Vec::new();
    for case in contestants {
        rows.push((case.name, case.flops));
        runs.push(case.contestant);
    }
    let timings = take_turns(&mut runs, 25, 4e-3);
    let (square, flops) = (timings[0], rows[0].1);
    println!("useful Gflop/s of one core, and the ratio to faer's f64 GEMM of 512 x 512 x 512");
    println!("{:<36} median  ratio |    best  ratio", "");
    for ((name, useful), timing) in rows.iter().zip(&timings) {
        let rate =
            |time: f64, yardstick: f64| (useful / time / 1e9, useful / flops * yardstick / time);
        let (median, ratio) = rate(timing.median, square.median);
        let (best, best_ratio) = rate(timing.best, square.best);
        println!("{name:<34} {median:8.1} {ratio:6.2} | {best:7.1} {best_ratio:6.2}");
    }
}

/// One row of the Gram table.
struct Case {
    name: String,
    flops: f64,
    contestant: Contestant<'static>,
}

impl Case {
    /// faer's `X^T X` for X of shape (n, dim), row-major.
    fn gemm(dim: usize, n: usize) -> Self {
        let x = vec![1.0_f64; n * dim];
        let mut out = vec![0.0_f64; dim * dim];
        Self {
            name: format!("faer f64 GEMM {dim} x {n} x {dim}"),
            flops: 2.0 * (n * dim * dim) as f64,
            contestant: Contestant::new(move || {
                let x = MatRef::from_column_major_slice(black_box(&x[..]), dim, n);
                let out = MatMut::from_column_major_slice_mut(&mut out, dim, dim);
                matmul(out, Accum::Replace, x, x.transpose(), 1.0, Par::Seq);
            }),
        }
    }

    /// Resets, adds `n` packed rows, reads the result.
    fn packed<T: Real>(dim: usize, n: usize, label: &str, rng: &mut ChaCha8Rng) -> Self
    where
        StandardUniform: Distribution<T>,
    {
        let rows: Vec<T> = (0..n * dim).map(|_| rng.random()).collect();
        Self::gram(
            dim,
            n,
            format!("packed {label} dim {dim} rows {n}"),
            move |gram| {
                gram.add_rows(black_box(&rows)).expect("shapes fit");
            },
        )
    }

    /// Resets, adds `n` rows of a table in random order, reads the result.
    fn gathered<T: Real>(dim: usize, n: usize, label: &str, rng: &mut ChaCha8Rng) -> Self
    where
        StandardUniform: Distribution<T>,
    {
        let table: Vec<T> = (0..TABLE_ROWS as usize * dim)
            .map(|_| rng.random())
            .collect();
        let indices = random_indices(n.max(4096), rng);
        let mut start = 0;
        let name = format!("gathered {label} dim {dim} rows {n}");
        Self::gram(dim, n, name, move |gram| {
            start = if start + 2 * n > indices.len() {
                0
            } else {
                start + n
            };
            let chosen = &indices[start..start + n];
            gram.add_gathered(black_box(&table), chosen, None)
                .expect("shapes fit");
        })
    }

    fn gram<T: Real>(
        dim: usize,
        n: usize,
        name: String,
        mut add: impl FnMut(&mut GramAccumulator<T>) + 'static,
    ) -> Self {
        let mut gram = GramAccumulator::<T>::new(dim).expect("dim is in range");
        let mut out = vec![T::default(); packed_len(dim)];
        Self {
            name,
            flops: (n * dim * (dim + 1)) as f64,
            contestant: Contestant::new(move || {
                gram.reset();
                add(&mut gram);
                gram.write_packed(black_box(&mut out)).expect("shapes fit");
            }),
        }
    }
}

fn random_indices(n: usize, rng: &mut ChaCha8Rng) -> Vec<u32> {
    (0..n).map(|_| rng.random_range(0..TABLE_ROWS)).collect()
}

fn solve_table() {
    println!("\nnanoseconds per matrix (best), and faer's llt and solve over ours");
    println!("dim  cholesky     faer  ratio | psd: cholesky path  eigen path");
    for dim in DIMS {
        let (a, b) = positive_definite(dim, 7);
        let indefinite = shifted(&a, dim);
        let (mut u, mut x) = (a.clone(), b.clone());
        let (mut y, mut z) = (b.clone(), b.clone());
        let mut scratch = PsdScratch::new(dim).expect("dim is in range");
        let mut scratch_too = PsdScratch::new(dim).expect("dim is in range");
        let mut contestants = [
            Contestant::new(|| {
                u.copy_from_slice(black_box(&a));
                x.copy_from_slice(&b);
                cholesky_in_place(&mut u, dim).expect("positive definite");
                cholesky_solve_in_place(&u, dim, &mut x).expect("shapes fit");
            }),
            Contestant::new(|| {
                let a = MatRef::from_column_major_slice(black_box(&a[..]), dim, dim);
                let llt = a.llt(faer::Side::Lower).expect("positive definite");
                let b = Mat::from_fn(dim, 1, |i, _| b[i]);
                black_box(llt.solve(b));
            }),
            Contestant::new(|| {
                y.copy_from_slice(&b);
                psd_part_plus_ridge_solve(black_box(&a), 0.1, &mut y, &mut scratch)
                    .expect("finite");
            }),
            Contestant::new(|| {
                z.copy_from_slice(&b);
                psd_part_plus_ridge_solve(black_box(&indefinite), 0.1, &mut z, &mut scratch_too)
                    .expect("finite");
            }),
        ];
        let timings = take_turns(&mut contestants, 25, 2e-3);
        let nanos: Vec<f64> = timings.iter().map(|t| t.best * 1e9).collect();
        println!(
            "{dim:>3} {:9.0} {:8.0} {:6.2} | {:18.0} {:11.0}",
            nanos[0],
            nanos[1],
            nanos[1] / nanos[0],
            nanos[2],
            nanos[3]
        );
    }
}

/// A Gram matrix of 2 dim random rows, and a right-hand side.
fn positive_definite(dim: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let rows: Vec<f64> = (0..2 * dim * dim)
        .map(|_| rng.random::<f64>() - 0.5)
        .collect();
    let mut gram = GramAccumulator::new(dim).expect("dim is in range");
    gram.add_rows(&rows).expect("shapes fit");
    let mut a = vec![0.0; dim * dim];
    gram.write_full(&mut a).expect("shapes fit");
    (a, (0..dim).map(|_| rng.random::<f64>()).collect())
}

/// `a` minus a fraction of its mean eigenvalue, so that about half of the eigenvalues are negative.
fn shifted(a: &[f64], dim: usize) -> Vec<f64> {
    let mut out = a.to_vec();
    let mean = a.iter().step_by(dim + 1).sum::<f64>() / dim as f64;
    for diagonal in out.iter_mut().step_by(dim + 1) {
        *diagonal -= 0.7 * mean;
    }
    out
}

fn gram_group(criterion: &mut Criterion) {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut group = criterion.benchmark_group("dp-linalg/gram");
    for (dim, n) in [(16, 64), (32, 256), (64, 256), (64, 4096)] {
        let table: Vec<f64> = (0..TABLE_ROWS as usize * dim)
            .map(|_| rng.random())
            .collect();
        let indices = random_indices(n, &mut rng);
        let mut gram = GramAccumulator::new(dim).expect("dim is in range");
        group.throughput(Throughput::Elements((n * dim * (dim + 1)) as u64));
        let size = format!("dim{dim}_rows{n}");
        group.bench_function(BenchmarkId::new("packed", &size), |b| {
            b.iter(|| gram.add_rows(black_box(&table[..n * dim])));
        });
        group.bench_function(BenchmarkId::new("gathered", &size), |b| {
            b.iter(|| gram.add_gathered(black_box(&table), &indices, None));
        });
    }
    group.finish();
}

fn cholesky_group(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dp-linalg/cholesky");
    for dim in DIMS {
        let (a, b) = positive_definite(dim, 8);
        let (mut u, mut x) = (a.clone(), b.clone());
        group.bench_function(BenchmarkId::new("factor_and_solve", dim), |bench| {
            bench.iter(|| {
                u.copy_from_slice(black_box(&a));
                x.copy_from_slice(&b);
                cholesky_in_place(&mut u, dim)?;
                cholesky_solve_in_place(&u, dim, &mut x)
            });
        });
    }
    group.finish();
}
