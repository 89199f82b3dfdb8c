//! Looking at a fit round by round.

use dp_personalize::{
    AltMinParams, FittedSubspace, Initialisation, NonPrivateAltMin, Provenance,
    ResidualAltMinParams, RoundEnd, Subspace,
};

use crate::support::{ADJACENCIES, DIM, alt_min, made, mse, pay, seeded, target, variants};

/// What a watch saw: rounds with their subspaces.
type Seen = Vec<(usize, Subspace)>;

fn bits(subspace: &Subspace) -> Vec<u64> {
    subspace.basis().iter().map(|x| x.to_bits()).collect()
}

/// Rounds 0 to `n`, the last of which is what is released.
#[track_caller]
fn assert_shows_the_way(seen: &Seen, released: &FittedSubspace, n: usize) {
    let rounds: Vec<usize> = seen.iter().map(|(round, _)| *round).collect();
    assert_eq!(rounds, (0..=n).collect::<Vec<_>>());
    assert_eq!(seen[n].1, released.model);
    for (_, model) in seen {
        assert_eq!(model.provenance(), Provenance::SeededNoise);
    }
}

/// The same models, of which the second is made of the noise that the first left: so many numbers were drawn for it.
#[track_caller]
fn assert_alike(watched: [&FittedSubspace; 2], alone: [&FittedSubspace; 2]) {
    let plain = |of: &FittedSubspace| {
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
fn watches_see_the_start_and_every_round_of_alternating_minimisation() {
    let data = made(80, 0.5);
    for settings in variants() {
        let n = settings.n_rounds;
        let fit = settings.check().unwrap();
        let plan = fit.plan(DIM, target(5.0), ADJACENCIES[0]).unwrap();
        let paid = || pay(&plan, fit.n_accounts());
        let mut seen = Seen::new();
        let mut watch = |end: RoundEnd<'_>| seen.push((end.round, end.model.clone()));
        let (watched, noise) = (&mut seeded(), &mut seeded());
        let first = fit.fit_rounds_watched(&data.samples, &plan, paid(), watched, &mut watch);
        let alone = |noise: &mut _| fit.fit(&data.samples, &plan, paid(), noise).unwrap();
        let (first, second) = (first.unwrap(), alone(watched));
        assert_shows_the_way(&seen, &first, n);
        assert_alike([&first, &second], [&alone(noise), &alone(noise)]);
        for pair in seen.windows(2) {
            assert_ne!(bits(&pair[0].1), bits(&pair[1].1));
        }
    }
}

#[test]
fn watches_see_the_start_and_every_residual_step() {
    let data = made(300, 0.5);
    for whitened in [true, false] {
        let mut settings = ResidualAltMinParams::new(2);
        if !whitened {
            settings.whitening = None;
        }
        let fit = settings.check().unwrap();
        let plan = fit.plan(DIM, target(5.0), ADJACENCIES[0]).unwrap();
        let mut seen = Seen::new();
        let mut watch = |end: RoundEnd<'_>| seen.push((end.round, end.model.clone()));
        let (watched, noise) = (&mut seeded(), &mut seeded());
        let spends = pay(&plan, 1);
        let first = fit.fit_rounds_watched(&data.samples, &plan, spends, watched, &mut watch);
        let alone = |noise: &mut _| {
            let spends = pay(&plan, 1);
            fit.fit(&data.samples, &plan, spends, noise).unwrap()
        };
        let (first, second) = (first.unwrap(), alone(watched));
        assert_shows_the_way(&seen, &first, 4);
        assert_alike([&first, &second], [&alone(noise), &alone(noise)]);
        let errors: Vec<f64> = seen.iter().map(|(_, model)| mse(&data, model)).collect();
        assert!(errors.windows(2).all(|e| e[0].to_bits() != e[1].to_bits()));
        assert!(errors[4] < 0.5 * errors[0], "{errors:?}");
    }
}

/// From a start that was released with seeded noise nothing on the way is private.
#[test]
fn rounds_from_a_start_without_a_guarantee_say_so() {
    let data = made(60, 0.0);
    let plain = AltMinParams::section_6(2);
    let start = alt_min(plain.clone(), &data.samples, target(5.0), ADJACENCIES[0]).unwrap();
    let again = AltMinParams {
        init: Initialisation::Given(start.model.clone()),
        ..plain
    };
    let fit = again.check().unwrap();
    let plan = fit.plan(DIM, target(5.0), ADJACENCIES[0]).unwrap();
    let mut n_seen = 0;
    let mut watch = |end: RoundEnd<'_>| {
        assert_eq!(end.model.provenance(), Provenance::SeededNoise);
        assert_eq!(end.round == 0, bits(end.model) == bits(&start.model));
        n_seen += 1;
    };
    let noise = &mut dp_mechanism::NoiseSource::operating_system();
    fit.fit_rounds_watched(&data.samples, &plan, pay(&plan, 1), noise, &mut watch)
        .unwrap();
    assert_eq!(n_seen, 2);
}

/// The certificate takes a start from outside for public; a look at it says where it came from.
#[test]
fn a_start_from_outside_is_shown_as_what_it_is() {
    let data = made(60, 0.0);
    let init = NonPrivateAltMin {
        rank: 2,
        n_rounds: 1,
    };
    let given = AltMinParams {
        init: Initialisation::Given(init.fit(&data.samples).unwrap()),
        ..AltMinParams::section_6(2)
    };
    let fit = given.check().unwrap();
    let plan = fit.plan(DIM, target(5.0), ADJACENCIES[0]).unwrap();
    let mut seen = Vec::new();
    let mut watch = |end: RoundEnd<'_>| seen.push(end.model.provenance());
    let noise = &mut dp_mechanism::NoiseSource::operating_system();
    let fitted = fit.fit_rounds_watched(&data.samples, &plan, pay(&plan, 1), noise, &mut watch);
    assert_eq!(seen, [Provenance::NonPrivate, Provenance::Private]);
    assert_eq!(fitted.unwrap().model.provenance(), Provenance::Private);
}
