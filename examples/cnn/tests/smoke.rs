//! The network learns, and its gradients are those of its loss.

use dp_example_cnn::glyphs::Writer;
use dp_example_cnn::network::SharedCnn;
use dp_example_cnn::study::Study;
use dp_fedsgd::{PersonalizedObjective, Point};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

#[test]
fn gradients_are_those_of_the_loss() {
    let rng = &mut ChaCha20Rng::seed_from_u64(3);
    let (model, (x, y)) = (SharedCnn::new(1), Writer::new(rng).write(rng));
    let mut number = || 0.2 * (f64::from(rng.next_u32()) / 2.0_f64.powi(32) - 0.5);
    let shared: Vec<f64> = (0..model.n_shared()).map(|_| number()).collect();
    let local: Vec<f64> = (0..model.n_local()).map(|_| number()).collect();
    let loss = |shared: &[f64], local: &[f64]| model.loss(Point { shared, local }, &x, y);
    let at = Point {
        shared: &shared,
        local: &local,
    };
    let (mut of_shared, mut of_local) = (vec![0.0; shared.len()], vec![0.0; local.len()]);
    model.grad_shared(at, &x, y, &mut of_shared);
    model.grad_local(at, &x, y, &mut of_local);
    // along the gradient the loss changes by its squared norm times the step; the step is chosen
    // for single precision
    let square = |g: &[f64]| g.iter().map(|g| g * g).sum::<f64>();
    let step = |v: &[f64], g: &[f64], h: f64| -> Vec<f64> {
        v.iter().zip(g).map(|(v, g)| v + h * g).collect()
    };
    let h = 1e-2 / square(&of_shared).sqrt();
    let (up, down) = (step(&shared, &of_shared, h), step(&shared, &of_shared, -h));
    let slope = (loss(&up, &local) - loss(&down, &local)) / (2.0 * h);
    assert!((slope / square(&of_shared) - 1.0).abs() < 0.05, "{slope}");
    let h = 1e-2 / square(&of_local).sqrt();
    let (up, down) = (step(&local, &of_local, h), step(&local, &of_local, -h));
    let slope = (loss(&shared, &up) - loss(&shared, &down)) / (2.0 * h);
    assert!((slope / square(&of_local) - 1.0).abs() < 0.05, "{slope}");
}

/// Chance level is one fifth.
#[test]
fn a_few_rounds_read_better_than_chance() {
    let study = Study {
        n_writers: 60,
        n_pictures: 10,
        n_rounds: 15,
        q: 0.5,
        noise_multiplier: 1.0,
        seed: 2,
    };
    let outcomes = study.run(&[0.0, 3.0]).unwrap();
    for outcome in &outcomes {
        assert!(outcome.accuracy > 0.35, "{outcome:?}");
    }
    assert!(outcomes[0].epsilon.abs() < 1e-12 && outcomes[1].epsilon > 1.0);
}
