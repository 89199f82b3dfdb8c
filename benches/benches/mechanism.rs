//! The kernel compared with its floating-point counterpart, measured alternately within one run, on
//! one core: exact noise against float noise on the same ChaCha20 generator, quantise + check + add
//! against a float clip + add, Gram sums of integers against Gram sums of floats.
//!
//! `cargo bench -p dp-benches --features criterion --bench mechanism` prints the tables and then runs a small criterion
//! group, for comparison between commits.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a benchmark may stop at a broken invariant; its numbers are small"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use chacha20::ChaCha20Rng;
use criterion::{BenchmarkId, Criterion, Throughput};
use dp_benches::{Contestant, Timing, take_turns};
use dp_core::{Interactions, InteractionsBuilder, Private, UserRow};
use dp_linalg::{GramAccumulator, integer_row, packed_len};
use dp_mechanism::{
    DiscreteGaussian, FlooredGaussian, Grid, SparseBuffer, VectorContribution, VectorSum,
};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

/// Number of coordinates that one call adds noise to.
const N_COORDINATES: usize = 1 << 14;
/// Number of rounds in which every contestant takes a turn, and the seconds of a turn: short, so
/// that some turns are not interrupted by other programs.
const ROUNDS: usize = 301;
const TURN: f64 = 1e-3;
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
    vector_table();
    gram_table();
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

fn discrete<'a>(sigma: u64) -> Contestant<'a> {
    let noise = DiscreteGaussian::new(sigma).unwrap();
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

/// The cipher's part of an exact draw: 12 bytes per coordinate.
fn cipher<'a>() -> Contestant<'a> {
    let (mut rng, mut bytes) = (generator(), vec![0_u8; 12 * N_COORDINATES]);
    Contestant::new(move || rng.fill_bytes(black_box(&mut bytes)))
}

fn noise_table() {
    let mut contestants = vec![ziggurat(), cipher()];
    contestants.extend(SIGMAS.map(|(_, sigma)| exact(sigma)));
    contestants.extend([1 << 30, 777_472_127_994].map(discrete));
    let timings = take_turns(&mut contestants, ROUNDS, TURN);
    let mut names = vec!["float ziggurat (f64)", "ChaCha20 alone, 12 bytes"];
    names.extend(SIGMAS.map(|(name, _)| name));
    names.extend(["discrete 2^30", "discrete ceil(2^40/sqrt 2)"]);
    println!(
        "exact noise against float noise; of {ROUNDS} turns the fastest, and the ratio of medians"
    );
    println!(
        "{:<26} {:>8} {:>10} {:>6} {:>8}",
        "noise", "ns/draw", "M draws/s", "ratio", "medians"
    );
    for (name, timing) in names.iter().zip(&timings) {
        let per_draw = timing.best / N_COORDINATES as f64;
        let (ns, rate) = (1e9 * per_draw, 1e-6 / per_draw);
        let (best, median) = ratios(timing, &timings[0]);
        println!("{name:<26} {ns:>8.2} {rate:>10.1} {best:>6.2} {median:>8.2}");
    }
    println!("to reach: 20 M draws/s and a ratio of at most 2\n");
}

/// Ratio to the time of the reference, for the fastest turns and for the medians.
fn ratios(timing: &Timing, yardstick: &Timing) -> (f64, f64) {
    (
        timing.best / yardstick.best,
        timing.median / yardstick.median,
    )
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

/// Records of the vector table, and coordinates of its sums.
const N_RECORDS: usize = 1 << 16;
const N_ITEMS: usize = 1 << 12;
const CLIP: f64 = 4.0;

/// A user contributes their own values unchanged. The kernel bounds the contribution.
struct Values;

impl VectorContribution for Values {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        out.extend(user.iter().map(|(item, value)| (item, value.into())));
    }
}

/// The floating-point counterpart: clips to the norm and adds.
fn clip_and_add(data: &Interactions, entries: &mut Vec<(u32, f64)>, sums: &mut [f64]) {
    for user in data.users() {
        entries.clear();
        entries.extend(user.iter().map(|(item, value)| (item, f64::from(value))));
        let norm = entries.iter().map(|e| e.1 * e.1).sum::<f64>().sqrt();
        let scale = f64::min(1.0, CLIP / norm);
        for &(item, value) in &*entries {
            sums[item as usize] += scale * value;
        }
    }
}

/// Users with `n_own` items each, of norm 0.9 `CLIP` at most.
fn users(n_own: usize) -> Private<Interactions> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut builder = InteractionsBuilder::new(N_ITEMS);
    let largest = 0.9 * CLIP / (n_own as f64).sqrt();
    for user in (0..).take(N_RECORDS / n_own) {
        for _ in 0..n_own {
            let item = rng.random_range(0..N_ITEMS as u32);
            let value = largest * rng.random::<f64>();
            builder.push(user, item, value as f32).unwrap();
        }
    }
    Private::new(builder.build().0)
}

fn vector_table() {
    println!("quantise + check + add against float clip + add, ns a record");
    let one_core = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    // runs inside the pool, so that no thread waits for another
    one_core.unwrap().install(|| {
        for n_own in [16, 64, 256] {
            vector_case(n_own);
        }
    });
    println!("to reach: a ratio of at most 2.5\n");
}

fn vector_case(n_own: usize) {
    let grid = Grid::new(2.0, CLIP).unwrap();
    let data = users(n_own);
    let (mut entries, mut sums) = (Vec::new(), vec![0.0; N_ITEMS]);
    let mut contestants = [
        Contestant::new(|| clip_and_add(data.expose(), &mut entries, black_box(&mut sums))),
        Contestant::new(|| {
            let sum = VectorSum::accumulate(black_box(&data), N_ITEMS, grid, &Values);
            drop(black_box(sum));
        }),
    ];
    let timings = take_turns(&mut contestants, ROUNDS, TURN);
    let n_records = data.expose().n_records() as f64;
    let [float, exact] = [0, 1].map(|at| 1e9 * timings[at].best / n_records);
    let (best, median) = ratios(&timings[1], &timings[0]);
    println!(
        "{n_own:>4} records a user: {float:>6.2} {exact:>6.2}   ratio {best:.2}, of medians {median:.2}"
    );
}

/// Rows of the table from which Gram sums gather.
const TABLE_ROWS: u32 = 20_000;

/// One item's Gram sum with right-hand side, read and, for integers, spilled into i64.
fn gram_table() {
    println!(
        "Gram sum of n gathered rows with right-hand side, time over that in f64 (of medians)"
    );
    println!(
        "{:>4} {:>6} {:>22} {:>26}",
        "dim", "rows", "after quantisation", "quantising on the way"
    );
    for dim in [8, 16, 32, 64] {
        for n in [64, 1024, 8192] {
            let timings = gram_case(dim, n);
            let [after, with] = [1, 2].map(|at| ratios(&timings[at], &timings[0]));
            println!(
                "{dim:>4} {n:>6} {:>14.3} ({:.3}) {:>18.3} ({:.3})",
                after.0, after.1, with.0, with.1
            );
        }
    }
    println!("to reach: 1.05 after quantisation\n");
}

fn gram_case(dim: usize, n: usize) -> Vec<Timing> {
    let mut rng = ChaCha8Rng::seed_from_u64(dim as u64);
    let floats: Vec<f64> = (0..TABLE_ROWS as usize * dim)
        .map(|_| rng.random::<f64>() - 0.5)
        .collect();
    let narrow: Vec<f32> = floats.iter().map(|&x| x as f32).collect();
    let scale = 1e5_f32;
    let mut integers = vec![0.0; floats.len()];
    for (row, out) in narrow.chunks_exact(dim).zip(integers.chunks_exact_mut(dim)) {
        integer_row(row, scale, out).unwrap();
    }
    let rows: Vec<u32> = (0..n).map(|_| rng.random_range(0..TABLE_ROWS)).collect();
    let (labels, scales) = (vec![3.0; n], vec![scale; n]);
    let mut grams: Vec<_> = (0..3)
        .map(|_| GramAccumulator::<f64>::new(dim).unwrap())
        .collect();
    let [plain, after, with] = &mut grams[..] else {
        unreachable!()
    };
    let mut packed = [(); 3].map(|()| vec![0.0; packed_len(dim)]);
    let [p0, p1, p2] = &mut packed;
    let mut sums = [(); 2].map(|()| vec![0_i64; packed_len(dim)]);
    let [s1, s2] = &mut sums;
    let mut contestants = [
        Contestant::new(|| {
            plain.reset();
            let added = plain.add_gathered_with_rhs(black_box(&floats), &rows, None, &labels);
            added.unwrap();
            plain.write_packed(black_box(p0)).unwrap();
        }),
        Contestant::new(|| {
            after.reset();
            let added = after.add_gathered_with_rhs(black_box(&integers), &rows, None, &labels);
            added.unwrap();
            spill(after, p1, black_box(s1));
        }),
        Contestant::new(|| {
            with.reset();
            with.add_gathered_integers_with_rhs(black_box(&narrow), &rows, &scales, &labels)
                .unwrap();
            spill(with, p2, black_box(s2));
        }),
    ];
    take_turns(&mut contestants, ROUNDS, TURN)
}

/// 1.5 * 2^52: around it, adjacent floats differ by 1.
const WHOLE_UNITS: f64 = 6_755_399_441_055_744.0;

/// Empties the float sums, which hold integers of at most 2^51, as the kernel does.
fn spill(gram: &GramAccumulator<f64>, packed: &mut [f64], sums: &mut [i64]) {
    gram.write_packed(packed).unwrap();
    for (sum, &value) in sums.iter_mut().zip(&*packed) {
        let bits = (value + WHOLE_UNITS).to_bits();
        *sum = sum.wrapping_add(bits.wrapping_sub(WHOLE_UNITS.to_bits()).cast_signed());
    }
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
