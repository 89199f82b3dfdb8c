//! Observers of users during a run.

use dp_fedsgd::{HeldBatches, PpSgd, PpSgdParams, Round, Run, Trainer};
use dp_mechanism::{NoiseSource, PoissonSampling};

use crate::support::{ADD_REMOVE, OnRelease, OnRound, Release, bits, paid, samples, squared};

const N: usize = 40;

fn sampled() -> PpSgd {
    let sampling = PoissonSampling::new(0.3).unwrap().into();
    let mut params = PpSgdParams::new(2.0, 0.3, 0.5, 5, N as f64).sampled(sampling);
    params.average = true;
    params.check().unwrap()
}

#[test]
fn a_run_that_is_observed_is_the_run_that_is_not() {
    let data = samples(u32::try_from(N).unwrap(), 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let fit = sampled();
    let plan = fit.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).unwrap();
    let seeded = || NoiseSource::insecure_seeded(5);
    let trainer = fit.with(&model);
    let alone = trainer
        .fit(&rows, &plan, paid(&plan), &mut seeded())
        .unwrap();
    let (mut rounds, mut looked) = (0, 0);
    let mut observer = OnRelease(|round: Release<'_>| {
        let table = data.table().expose();
        for user in (rounds % 2..N).step_by(2) {
            let once = (round.one_user)(table.user(user));
            assert_eq!(once, (round.one_user)(table.user(user)));
            looked += usize::from(once.iter().any(|&(_, z)| z != 0));
        }
        rounds += 1;
    });
    let mut noise = seeded();
    let run = Run::new(&plan, paid(&plan), &mut noise).unwrap();
    let observed = trainer.run(&rows, run.observed_by(&mut observer)).unwrap();
    assert_eq!((rounds, looked), (5, 5 * N / 2));
    assert!(bits(&alone.model, N) == bits(&observed.model, N));
}

/// Rounds of a run with an observer, and runs of fewer rounds with the same noise: each ends in the
/// state that the observer saw after that round.
#[test]
fn an_observer_of_rounds_sees_what_a_run_of_so_many_rounds_would_have_left() {
    let data = samples(u32::try_from(N).unwrap(), 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let sampling = PoissonSampling::new(0.3).unwrap().into();
    for (alpha, sampled) in [
        (2.0, false),
        (2.0, true),
        (f64::INFINITY, false),
        (0.0, true),
    ] {
        let made = |n_rounds, observer: &mut dyn dp_fedsgd::Observer| {
            let mut params = PpSgdParams::new(alpha, 0.3, 0.5, n_rounds, N as f64);
            if sampled {
                params = params.sampled(sampling);
            }
            params.average = true;
            let fit = params.check().unwrap();
            if !fit.releases() {
                return fit.train_alone(&model, &rows, observer).unwrap();
            }
            let plan = fit.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).unwrap();
            let noise = &mut NoiseSource::insecure_seeded(5);
            let run = Run::new(&plan, paid(&plan), noise).unwrap();
            let run = run.observed_by(observer);
            fit.with(&model).run(&rows, run).unwrap().model
        };
        let mut n_seen = 0;
        let mut observer = OnRound(|round: &Round<'_>| {
            n_seen += 1;
            assert_eq!((round.round, round.shape), (n_seen, (1, 3)));
            let found = made(n_seen, &mut ());
            assert_eq!(round.parameters, found.shared.last());
            let local = round.local.unwrap();
            for user in 0..N {
                assert_eq!(local(user), found.local.expose().last(user));
            }
            assert!(local(N).is_empty());
        });
        let observed = made(5, &mut observer);
        assert!(bits(&observed, N) == bits(&made(5, &mut ()), N));
        assert_eq!(n_seen, 5);
    }
}
