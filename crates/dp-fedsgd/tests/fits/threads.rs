//! A run is the same on any number of threads.

use dp_fedsgd::{ClipSchedule, HeldBatches, LocalTraining, PpSgdParams};
use dp_mechanism::{NoiseSource, PoissonSampling};

use crate::support::{ADD_REMOVE, paid, samples, squared};

const N: usize = 70;

/// Bits of the shared model and of everybody's own.
fn bits(params: PpSgdParams, n_threads: usize) -> Vec<u64> {
    let data = samples(u32::try_from(N).unwrap(), 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let fit = params.check().unwrap();
    let plan = fit.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(5);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads);
    let run = || fit.fit(&model, &rows, &plan, paid(&plan), noise).unwrap();
    let fitted = pool.build().unwrap().install(run);
    let own = fitted.personal.expose();
    let shared = fitted.model.last().iter();
    let all = shared.chain((0..N).flat_map(|user| own.last(user)));
    all.map(|x| x.to_bits()).collect()
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
        let one = bits(params, 1);
        for n_threads in [2, 3] {
            assert!(bits(params, n_threads) == one, "{params:?}");
        }
    }
    assert!(bits(when_asked, 1) != bits(every_round, 1));
}
