//! A run is the same on any number of threads.

use dp_fedsgd::{ClipSchedule, HeldBatches, LocalTraining, PpSgdParams, Trainer};
use dp_mechanism::{NoiseSource, PoissonSampling};

use crate::support::{ADD_REMOVE, bits, paid, samples, squared};

const N: usize = 70;

/// Bits of the shared model and of everybody's own.
fn bits_on(params: PpSgdParams, n_threads: usize) -> Vec<u64> {
    let data = samples(u32::try_from(N).unwrap(), 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let fit = params.check().unwrap();
    let plan = fit.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(5);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads);
    let run = || fit.with(&model).fit(&rows, &plan, paid(&plan), noise);
    let fitted = pool.build().unwrap().install(run);
    bits(&fitted.unwrap().model, N)
}

#[test]
fn a_run_has_the_same_bits_on_any_number_of_threads() {
    let everybody = PpSgdParams::new(2.0, 0.3, 0.5, 4, N as f64);
    let mut quantile = everybody;
    quantile.clip = ClipSchedule::Quantile {
        start: 0.5,
        quantile: 0.6,
        rate: 0.2,
        low: 0.1,
        high: 2.0,
    };
    let when_asked = everybody.sampled(PoissonSampling::new(0.3).unwrap().into());
    let mut every_round = when_asked;
    every_round.local_training = LocalTraining::EveryRound;
    for params in [everybody, quantile, when_asked, every_round] {
        let one = bits_on(params, 1);
        for n_threads in [2, 3] {
            assert!(bits_on(params, n_threads) == one, "{params:?}");
        }
    }
    assert!(bits_on(when_asked, 1) != bits_on(every_round, 1));
}
