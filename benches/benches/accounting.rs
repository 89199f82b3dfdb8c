//! Cost of a query to each accountant, on one core.
//!
//! `cargo bench -p dp-benches --features criterion --bench accounting`: a criterion group, for comparison between
//! commits. `benches/peers/accounting.sh` measures the ratios to another library.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark may stop at a broken invariant"
)]

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion};
use dp_accounting::{Accountant, PldAccountant, RdpAccountant, TightestAccountant, calibrate};
use dp_core::{Adjacency, ApproxDp, DpEvent};

const DELTA: f64 = 1e-5;
const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(10)
        .configure_from_args();
    epsilon_group(&mut criterion);
    pld_group(&mut criterion);
    rdp_group(&mut criterion);
    calibration_group(&mut criterion);
    criterion.final_summary();
}

/// A third Gaussian, a third Laplace, a third sampled Gaussian, all different.
fn tree(n: u32) -> DpEvent {
    let event = |i: u32| {
        let step = f64::from(i / 3) / f64::from(n);
        match i % 3 {
            0 => DpEvent::gaussian(20.0 + 60.0 * step),
            1 => DpEvent::laplace(60.0 + 90.0 * step),
            _ => DpEvent::sampled_gaussian(1.0 + 2.0 * step, 0.01),
        }
    };
    DpEvent::composed((0..n).map(event).collect())
}

fn gaussians(n: u32) -> DpEvent {
    let events = (0..n).map(|i| DpEvent::gaussian(10.0 + f64::from(i)));
    DpEvent::composed(events.collect())
}

fn steps(n: u64) -> DpEvent {
    DpEvent::sampled_gaussian(1.0, 0.01).repeated(n)
}

/// Sampled Gaussians with distinct parameters, each run ten times.
fn different(z: f64, n: u32) -> DpEvent {
    let event = |i: u32| {
        let step = f64::from(i) / f64::from(n);
        DpEvent::sampled_gaussian(z * (1.0 + step), 0.01 + 0.19 * step).repeated(10)
    };
    DpEvent::composed((0..n).map(event).collect())
}

fn composed<A: Accountant>(mut accountant: A, event: &DpEvent) -> A {
    accountant.compose(event, 1).unwrap();
    accountant
}

/// Composes `event` and computes epsilon.
fn bench_epsilon<A: Accountant>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    event: &DpEvent,
    new: fn(Adjacency) -> A,
) {
    group.bench_with_input(id, event, |bencher, event| {
        bencher.iter(|| {
            let accountant = composed(new(ADJACENCY), black_box(event));
            accountant.epsilon(black_box(DELTA)).unwrap()
        });
    });
}

/// The best method: closed form for Gaussians, saddle point for the rest.
fn epsilon_group(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dp-accounting/epsilon");
    for n in [1, 40] {
        let id = BenchmarkId::new("gaussians", n);
        bench_epsilon(&mut group, id, &gaussians(n), TightestAccountant::new);
    }
    for n in [100, 10_000] {
        let id = BenchmarkId::new("sampled_gaussian_steps", n);
        bench_epsilon(&mut group, id, &steps(n), TightestAccountant::new);
    }
    for n in [30, 300] {
        let id = BenchmarkId::new("tree", n);
        bench_epsilon(&mut group, id, &tree(n), TightestAccountant::new);
    }
    group.finish();
}

/// Privacy loss distributions: requested explicitly, and where no other method applies.
fn pld_group(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dp-accounting/pld");
    for n in [100, 10_000] {
        let id = BenchmarkId::new("sampled_gaussian_steps", n);
        bench_epsilon(&mut group, id, &steps(n), PldAccountant::new);
    }
    for n in [3_u32, 30] {
        let laplace = DpEvent::laplace(f64::from(n)).repeated(u64::from(n));
        let id = BenchmarkId::new("laplace_fallback", n);
        bench_epsilon(&mut group, id, &laplace, TightestAccountant::new);
    }
    group.finish();
}

/// Divergences of single orders, and epsilon over all orders.
fn rdp_group(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dp-accounting/rdp");
    let accountant = composed(RdpAccountant::new(ADJACENCY), &steps(10_000));
    for order in [2.0, 12.5, 256.0] {
        let id = BenchmarkId::new("order", order);
        group.bench_with_input(id, &order, |bencher, &order| {
            bencher.iter(|| accountant.rdp(black_box(order)).unwrap());
        });
    }
    for n in [100, 10_000] {
        let id = BenchmarkId::new("sampled_gaussian_steps", n);
        bench_epsilon(&mut group, id, &steps(n), RdpAccountant::new);
    }
    group.finish();
}

fn calibration_group(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dp-accounting/calibrate");
    let target = ApproxDp::target(1.0, DELTA).unwrap();
    for n in [100, 10_000] {
        group.bench_with_input(BenchmarkId::new("noise", n), &n, |bencher, &n| {
            let event = |z: f64| DpEvent::sampled_gaussian(z, 0.01).repeated(n);
            bencher.iter(|| calibrate::noise(black_box(target), ADJACENCY, event).unwrap());
        });
    }
    for (q, n) in [
        (0.1, 2),
        (0.01, 2),
        (0.01, 50),
        (0.001, 2),
        (0.001, 20),
        (0.001, 200),
    ] {
        let id = BenchmarkId::new("few", format!("{q}x{n}"));
        group.bench_function(id, |bencher| {
            let event = |z: f64| DpEvent::sampled_gaussian(z, q).repeated(n);
            bencher.iter(|| calibrate::noise(black_box(target), ADJACENCY, event).unwrap());
        });
    }
    for n in [5, 20, 100] {
        group.bench_with_input(BenchmarkId::new("different", n), &n, |bencher, &n| {
            let event = |z: f64| different(z, n);
            bencher.iter(|| calibrate::noise(black_box(target), ADJACENCY, event).unwrap());
        });
    }
    for z in [1.0, 4.0] {
        group.bench_with_input(BenchmarkId::new("count", z), &z, |bencher, &z| {
            let event = |n: u64| DpEvent::sampled_gaussian(z, 0.01).repeated(n);
            bencher.iter(|| calibrate::count(black_box(target), ADJACENCY, event).unwrap());
        });
    }
    group.finish();
}
