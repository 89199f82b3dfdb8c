//! Observing a fit round by round.

use dp_personalize::{
    AltMinParams, Fitted, Initialisation, NonPrivateAltMin, Observer, Provenance,
    ResidualAltMinParams, Round, Run, Subspace, Trainer,
};

use crate::support::{ADJACENCIES, DIM, alt_min, made, mse, pay, seeded, target, variants};

/// Rounds with their subspaces.
#[derive(Default)]
struct Seen(Vec<(usize, Subspace)>);

impl Observer for Seen {
    fn round(&mut self, round: &Round<'_>) {
        let subspace = Subspace::of_round(round, Provenance::SeededNoise).unwrap();
        self.0.push((round.round, subspace));
    }
}

fn bits(subspace: &Subspace) -> Vec<u64> {
    subspace.basis().iter().map(|x| x.to_bits()).collect()
}

/// Checks rounds 0 to `n`, the last of which is the released one.
#[track_caller]
fn assert_shows_the_way(seen: &Seen, released: &Fitted<Subspace>, n: usize) {
    let rounds: Vec<usize> = seen.0.iter().map(|(round, _)| *round).collect();
    assert_eq!(rounds, (0..=n).collect::<Vec<_>>());
    assert_eq!(seen.0[n].1, released.model);
    assert_eq!(released.provenance, Provenance::SeededNoise);
}

/// Checks that the models are the same; the second of each pair is computed with the noise stream
/// that the first left, so the same number of draws was used.
#[track_caller]
fn assert_alike(watched: [&Fitted<Subspace>; 2], alone: [&Fitted<Subspace>; 2]) {
    let plain = |of: &Fitted<Subspace>| {
        let releases = of.certificate.releases.iter();
        let releases = releases.map(|r| (r.label.clone(), r.event.clone(), r.n_draws));
        releases.collect::<Vec<_>>()
    };
    for (watched, alone) in watched.into_iter().zip(alone) {
        assert_eq!(bits(&watched.model), bits(&alone.model));
        assert_eq!(plain(watched), plain(alone));
    }
    assert_ne!(bits(&alone[0].model), bits(&alone[1].model));
}

#[test]
fn observers_see_the_start_and_every_round_of_alternating_minimisation() {
    let data = made(80, 0.5);
    for settings in variants() {
        let n = settings.n_rounds;
        let fit = settings.check().unwrap();
        let plan = fit.plan(DIM, target(5.0), ADJACENCIES[0]).unwrap();
        let paid = || pay(&plan, fit.n_accounts());
        let mut seen = Seen::default();
        let (watched, noise) = (&mut seeded(), &mut seeded());
        let run = Run::new(&plan, paid(), watched).unwrap();
        let first = fit.run(&data.samples, run.observed_by(&mut seen)).unwrap();
        let alone = |noise: &mut _| fit.fit(&data.samples, &plan, paid(), noise).unwrap();
        let second = alone(watched);
        assert_shows_the_way(&seen, &first, n);
        assert_alike([&first, &second], [&alone(noise), &alone(noise)]);
        for pair in seen.0.windows(2) {
            assert_ne!(bits(&pair[0].1), bits(&pair[1].1));
        }
    }
}

#[test]
fn observers_see_the_start_and_every_residual_step() {
    let data = made(300, 0.5);
    for whitened in [true, false] {
        let mut settings = ResidualAltMinParams::new(2);
        if !whitened {
            settings.whitening = None;
        }
        let fit = settings.check().unwrap();
        let plan = fit.plan(DIM, target(5.0), ADJACENCIES[0]).unwrap();
        let mut seen = Seen::default();
        let (watched, noise) = (&mut seeded(), &mut seeded());
        let run = Run::new(&plan, pay(&plan, 1), watched).unwrap();
        let first = fit.run(&data.samples, run.observed_by(&mut seen)).unwrap();
        let alone = |noise: &mut _| {
            let spends = pay(&plan, 1);
            fit.fit(&data.samples, &plan, spends, noise).unwrap()
        };
        let second = alone(watched);
        assert_shows_the_way(&seen, &first, 4);
        assert_alike([&first, &second], [&alone(noise), &alone(noise)]);
        let errors = seen.0.iter().map(|(_, model)| mse(&data, model));
        let errors: Vec<f64> = errors.collect();
        assert!(errors.windows(2).all(|e| e[0].to_bits() != e[1].to_bits()));
        assert!(errors[4] < 0.5 * errors[0], "{errors:?}");
    }
}

/// A start is shown as it was given; if it was released with seeded noise, the result is not
/// private, whereas the certificate treats a start from outside as public.
#[test]
fn a_given_start_is_shown_first_and_seeded_noise_in_it_stays() {
    let data = made(60, 0.0);
    let plain = AltMinParams::section_6(2);
    let seeded = alt_min(plain.clone(), &data.samples, target(5.0), ADJACENCIES[0]).unwrap();
    let outside = NonPrivateAltMin {
        rank: 2,
        n_rounds: 1,
    };
    let outside = outside.fit(&data.samples).unwrap();
    for (start, expected) in [
        (seeded.model, Provenance::SeededNoise),
        (outside, Provenance::Private),
    ] {
        let again = AltMinParams {
            init: Initialisation::Given(start.clone()),
            ..plain.clone()
        };
        let fit = again.check().unwrap();
        let plan = fit.plan(DIM, target(5.0), ADJACENCIES[0]).unwrap();
        let (mut seen, mut noise) = (
            Seen::default(),
            dp_mechanism::NoiseSource::operating_system(),
        );
        let run = Run::new(&plan, pay(&plan, 1), &mut noise).unwrap();
        let fitted = fit.run(&data.samples, run.observed_by(&mut seen)).unwrap();
        assert_eq!(seen.0.len(), 2);
        assert_eq!(bits(&seen.0[0].1), bits(&start));
        assert_eq!(bits(&seen.0[1].1), bits(&fitted.model));
        assert_eq!(fitted.model.provenance(), expected);
        assert_eq!(fitted.provenance, expected);
    }
}
