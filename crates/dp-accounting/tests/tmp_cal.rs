use dp_accounting::*;
use dp_core::*;
use std::time::Instant;
#[test]
fn cal() {
    let adj = Adjacency::AddRemoveUser;
    for (n, q, e, d, truth) in [
        (10000u64, 0.01, 1.0, 1e-5, 3.8128168307015478),
        (14000, 0.004, 3.0, 1e-5, 0.9322506851962923),
        (1000000, 0.001, 8.0, 1e-6, 0.9120566014553491),
        (500, 0.1, 0.5, 1e-8, 22.162730071289413),
    ] {
        let t = Instant::now();
        let r = calibrate::noise(ApproxDp::target(e, d).unwrap(), adj, |z| {
            DpEvent::sampled_gaussian(z, q).repeated(n)
        });
        println!(
            "{:?} {:.2}ms {:.3e}",
            r.as_ref().map(|r| r.value),
            t.elapsed().as_secs_f64() * 1e3,
            r.as_ref().map_or(f64::NAN, |r| r.value / truth - 1.0)
        );
    }
    for (z, q, e, d, truth) in [
        (1.0, 0.01, 2.0, 1e-5, 1202),
        (0.8, 0.002, 3.0, 1e-6, 24794),
        (4.0, 0.1, 5.0, 1e-7, 1341),
    ] {
        let t = Instant::now();
        let r = calibrate::count(ApproxDp::target(e, d).unwrap(), adj, |n| {
            DpEvent::sampled_gaussian(z, q).repeated(n)
        });
        println!(
            "{:?} {truth} {:.2}ms",
            r.map(|r| r.value),
            t.elapsed().as_secs_f64() * 1e3
        );
    }
    let t = Instant::now();
    let r = calibrate::sampling_probability(ApproxDp::target(2.0, 1e-5).unwrap(), adj, |q| {
        DpEvent::sampled_gaussian(1.0, q).repeated(1202)
    });
    println!(
        "{:?} {:.2}ms",
        r.map(|r| r.value),
        t.elapsed().as_secs_f64() * 1e3
    );
    // a thousand different events
    for (g, l) in [(true, true), (false, true), (false, false), (true, false)] {
        let events: Vec<DpEvent> = (0..1000)
            .map(|i| match i % 3 {
                0 if g => DpEvent::gaussian(50.0 + i as f64 * 0.1),
                1 if l => DpEvent::laplace(100.0 + i as f64 * 0.3),
                _ => DpEvent::sampled_gaussian(1.0 + 0.001 * i as f64, 0.01 + 1e-6 * i as f64),
            })
            .collect();
        let mut a = SaddlePointAccountant::new(adj);
        let t = Instant::now();
        a.compose(&DpEvent::Composed { events }, 1).unwrap();
        let t1 = t.elapsed().as_secs_f64() * 1e3;
        let r = a.epsilon(1e-6);
        println!(
            "thousand {g} {l}: {:?} compose {t1:.2} total {:.2}ms",
            r.map(|r| (r.value, r.upper - r.lower)),
            t.elapsed().as_secs_f64() * 1e3
        );
    }
    for n in [2u64, 5, 10, 30, 100, 300] {
        let mut a = SaddlePointAccountant::new(adj);
        a.compose(&DpEvent::sampled_gaussian(1.0, 0.01), n).unwrap();
        let t = Instant::now();
        let r = a.epsilon(1e-6);
        println!(
            "n {n}: {:?} {:.2}ms",
            r.map(|r| (r.value, r.upper - r.lower)),
            t.elapsed().as_secs_f64() * 1e3
        );
    }
}
