use dp_accounting::*;
use dp_core::*;
#[test]
fn prof() {
    let mut a = SaddlePointAccountant::new(Adjacency::AddRemoveUser);
    a.compose(&DpEvent::sampled_gaussian(1.0, 0.01), 10000)
        .unwrap();
    let t = std::time::Instant::now();
    for _ in 0..300 {
        a.epsilon(1e-5).unwrap();
    }
    println!("sgm {:.3} ms", t.elapsed().as_secs_f64() * 1e3 / 300.0);
    let events: Vec<DpEvent> = (0..1000)
        .map(|i| match i % 3 {
            0 => DpEvent::gaussian(50.0 + i as f64 * 0.1),
            1 => DpEvent::laplace(100.0 + i as f64 * 0.3),
            _ => DpEvent::sampled_gaussian(1.0 + 0.001 * i as f64, 0.01 + 1e-6 * i as f64),
        })
        .collect();
    let mut a = SaddlePointAccountant::new(Adjacency::AddRemoveUser);
    a.compose(&DpEvent::Composed { events }, 1).unwrap();
    let t = std::time::Instant::now();
    for _ in 0..5 {
        a.epsilon(1e-6).unwrap();
    }
    println!("thousand {:.3} ms", t.elapsed().as_secs_f64() * 1e3 / 5.0);
}
