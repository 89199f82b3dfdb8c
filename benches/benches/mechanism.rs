//! Exact noise against float noise on the same ChaCha20 generator, in turns within one run, on
//! one core.
//!
//! `cargo bench -p dp-benches --bench mechanism` prints the tables and then runs a small criterion
//! group, for comparison between commits.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark may stop at a broken invariant"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use chacha20::ChaCha20Rng;
use criterion::{BenchmarkId, Criterion, Throughput};
use dp_benches::{Contestant, median_seconds};
use dp_mechanism::FlooredGaussian;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::StandardNormal;

/// Coordinates noised in one call.
const N_COORDINATES: usize = 1 << 16;
/// The default scale, the largest, and that of off-diagonal entries: ceil(2^40 / sqrt 2).
const SIGMAS: [(&str, u64); 3] = [
    ("2^30", 1 << 30),
    ("2^40", 1 << 40),
    ("ceil(2^40/sqrt 2)", 777_472_127_994),
];

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(20)
        .configure_from_args();
    noise_table();
    timing_table();
    noise_group(&mut criterion);
    criterion.final_summary();
}

fn generator() -> ChaCha20Rng {
    ChaCha20Rng::from_seed([1; 32])
}

fn exact<'a>(sigma: u64) -> Contestant<'a> {
    let noise = FlooredGaussian::new(sigma).unwrap();
    let (mut rng, mut sums) = (generator(), vec![0_i64; N_COORDINATES]);
    Contestant::new(move || noise.add_noise(&mut rng, black_box(&mut sums)))
}

fn ziggurat<'a>() -> Contestant<'a> {
    let (mut rng, mut sums) = (generator(), vec![0.0_f64; N_COORDINATES]);
    Contestant::new(move || {
        for sum in black_box(&mut sums) {
            let x: f64 = rng.sample(StandardNormal);
            *sum += 1e9 * x;
        }
    })
}

/// The cipher's part of an exact draw: 12 bytes a coordinate.
fn cipher<'a>() -> Contestant<'a> {
    let (mut rng, mut bytes) = (generator(), vec![0_u8; 12 * N_COORDINATES]);
    Contestant::new(move || rng.fill_bytes(black_box(&mut bytes)))
}

fn noise_table() {
    let mut contestants = vec![ziggurat(), cipher()];
    contestants.extend(SIGMAS.map(|(_, sigma)| exact(sigma)));
    let seconds = median_seconds(&mut contestants, 21, 0.02);
    let mut names = vec!["float ziggurat (f64)", "ChaCha20 alone, 12 bytes"];
    names.extend(SIGMAS.map(|(name, _)| name));
    println!(
        "{:<26} {:>9} {:>10} {:>18}",
        "noise", "ns/draw", "M draws/s", "time / ziggurat"
    );
    for (name, s) in names.iter().zip(&seconds) {
        let per_draw = s / N_COORDINATES as f64;
        let (ns, rate, ratio) = (1e9 * per_draw, 1e-6 / per_draw, s / seconds[0]);
        println!("{name:<26} {ns:>9.2} {rate:>10.1} {ratio:>18.2}");
    }
    println!("to reach: 20 M draws/s and a ratio of at most 2\n");
}

/// Correlation of the logarithm of the time of single calls with |noise|.
fn timing_table() {
    const N: usize = 1_000_000;
    let noise = FlooredGaussian::new(1 << 40).unwrap();
    let mut rng = generator();
    let mut y = [0_i64];
    let pairs: Vec<(f64, f64)> = (0..N)
        .map(|_| {
            let start = Instant::now();
            noise.fill(&mut rng, black_box(&mut y));
            let nanoseconds = start.elapsed().as_nanos() as f64;
            (nanoseconds.max(1.0).ln(), y[0].unsigned_abs() as f64)
        })
        .collect();
    println!(
        "correlation of log(time of one draw) with |noise|: {:+.4}",
        correlation(&pairs)
    );
    println!("to reach: below 0.02 (its standard error is 0.001)\n");
}

fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let n = pairs.len() as f64;
    let mean = |f: fn(&(f64, f64)) -> f64| pairs.iter().map(f).sum::<f64>() / n;
    let (a, b) = (mean(|p| p.0), mean(|p| p.1));
    let (mut aa, mut bb, mut ab) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        aa += (x - a) * (x - a);
        bb += (y - b) * (y - b);
        ab += (x - a) * (y - b);
    }
    ab / (aa * bb).sqrt()
}

fn noise_group(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dp-mechanism/add_noise");
    for (name, sigma) in SIGMAS {
        let noise = FlooredGaussian::new(sigma).unwrap();
        for n in [256, N_COORDINATES] {
            let (mut rng, mut sums) = (generator(), vec![0_i64; n]);
            group.throughput(Throughput::Elements(n as u64));
            group.bench_function(BenchmarkId::new(name, n), |b| {
                b.iter(|| noise.add_noise(&mut rng, black_box(&mut sums)));
            });
        }
    }
    group.finish();
}
