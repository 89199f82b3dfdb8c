//! How much of a network that reads digits should be shared: nothing, everything, or the
//! representation and part of the head?

use dp_example_cnn::study::Study;

fn main() -> dp_example_cnn::Result<()> {
    let study = Study {
        n_writers: 300,
        n_pictures: 15,
        n_rounds: 40,
        q: 0.25,
        noise_multiplier: 1.5,
        seed: 1,
    };
    println!("{study:?}");
    println!("| alpha | epsilon at delta 1e-5 | test accuracy |");
    println!("|---|---|---|");
    for outcome in study.run(&[0.0, 3.0, f64::INFINITY])? {
        let name = match outcome.alpha {
            alpha if alpha <= 0.0 => "0, alone".to_owned(),
            alpha if alpha.is_infinite() => "infinity, one model for all".to_owned(),
            alpha => format!("{alpha}, both"),
        };
        println!(
            "| {name} | {:.2} | {:.3} |",
            outcome.epsilon, outcome.accuracy
        );
    }
    Ok(())
}
