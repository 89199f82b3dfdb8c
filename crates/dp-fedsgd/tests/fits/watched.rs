//! Looking at users during a run.

use dp_fedsgd::{FittedPpSgd, HeldBatches, Observed, ObservedRound, PpSgd, PpSgdParams};
use dp_mechanism::{NoiseSource, PoissonSampling};

use crate::support::{ADD_REMOVE, paid, samples, squared};

const N: usize = 40;

/// Bits of the shared model and its average, and of everybody's own.
fn bits(fitted: &FittedPpSgd) -> Vec<Vec<u64>> {
    let (model, own) = (&fitted.model, fitted.personal.expose());
    let each = (0..N).flat_map(|user| [own.last(user), own.average(user).unwrap()]);
    let shared = [model.last(), model.average().unwrap()];
    let all = shared.into_iter().chain(each);
    all.map(|v| v.iter().map(|x| x.to_bits()).collect())
        .collect()
}

fn sampled() -> PpSgd {
    let sampling = PoissonSampling::new(0.3).unwrap().into();
    let mut params = PpSgdParams::new(2.0, 0.3, 0.5, 5, N as f64).sampled(sampling);
    params.average = true;
    params.check().unwrap()
}

#[test]
fn a_run_that_is_watched_is_the_run_that_is_not() {
    let data = samples(u32::try_from(N).unwrap(), 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let fit = sampled();
    let plan = fit.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).unwrap();
    let seeded = || NoiseSource::insecure_seeded(5);
    let alone = fit
        .fit(&model, &rows, &plan, paid(&plan), &mut seeded())
        .unwrap();
    let (mut rounds, mut looked) = (0, 0);
    let mut watch = |round: Observed<'_>| {
        let table = data.table().expose();
        for user in (rounds % 2..N).step_by(2) {
            let once = (round.one_user)(table.user(user));
            assert_eq!(once, (round.one_user)(table.user(user)));
            looked += usize::from(once.iter().any(|&(_, z)| z != 0));
        }
        rounds += 1;
    };
    let watched = fit
        .fit_watched(&model, &rows, &plan, paid(&plan), &mut seeded(), &mut watch)
        .unwrap();
    assert_eq!((rounds, looked), (5, 5 * N / 2));
    assert!(bits(&alone) == bits(&watched));
}

/// Rounds from a fit with a watch, and from `n` fits of fewer rounds with the same noise: each ends where the watch saw the round.
#[test]
fn a_watch_of_rounds_sees_what_a_run_of_so_many_rounds_would_have_left() {
    let data = samples(u32::try_from(N).unwrap(), 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let sampling = PoissonSampling::new(0.3).unwrap().into();
    for (alpha, sampled) in [
        (2.0, false),
        (2.0, true),
        (f64::INFINITY, false),
        (0.0, true),
    ] {
        let fit = |n_rounds| {
            let mut params = PpSgdParams::new(alpha, 0.3, 0.5, n_rounds, N as f64);
            if sampled {
                params = params.sampled(sampling);
            }
            params.average = true;
            params.check().unwrap()
        };
        let plan = |fit: &PpSgd| fit.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).unwrap();
        let short = |n_rounds| {
            let (fit, noise) = (fit(n_rounds), &mut NoiseSource::insecure_seeded(5));
            let plan = plan(&fit);
            fit.fit(&model, &rows, &plan, paid(&plan), noise).unwrap()
        };
        let mut n_seen = 0;
        let mut watch = |round: ObservedRound<'_>| {
            n_seen += 1;
            assert_eq!(round.end.round, n_seen);
            let found = short(n_seen);
            assert_eq!(round.end.shared, found.model.last());
            for user in 0..N {
                assert_eq!((round.local)(user), found.personal.expose().last(user));
            }
            assert!((round.local)(N).is_empty());
        };
        let (fit, noise) = (fit(5), &mut NoiseSource::insecure_seeded(5));
        let plan = plan(&fit);
        let watched = fit.fit_rounds_watched(&model, &rows, &plan, paid(&plan), noise, &mut watch);
        assert!(bits(&watched.unwrap()) == bits(&short(5)));
        assert_eq!(n_seen, 5);
    }
}
