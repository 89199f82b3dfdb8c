//! Keys are seeded, so the outcomes are reproducible; with new seeds, each false-alarm rate is
//! below 1e-8.

use dp_core::DpEvent;

use super::*;
use crate::NoiseSource;

#[test]
fn the_rounded_up_probability_is_exact_and_never_below() {
    for q in [
        1.0,
        0.5,
        0.1,
        1.0 / 3.0,
        0.01,
        1e-3,
        1e-10,
        2_f64.powi(-64),
        1.5 * 2_f64.powi(-64),
        f64::MIN_POSITIVE,
        5e-324,
        1.0_f64.next_down(),
        (2_f64.powi(-11)).next_down(),
    ] {
        let found = PoissonSampling::new(q).unwrap().sampling_probability();
        assert!(found >= q && found <= q + 2_f64.powi(-64), "{q}: {found}");
        if q >= 2_f64.powi(-11) {
            assert!(found.to_bits() == q.to_bits(), "{q}");
        }
    }
    let tiny = PoissonSampling::new(1.5 * 2_f64.powi(-64)).unwrap();
    assert_eq!(
        tiny.sampling_probability().to_bits(),
        2_f64.powi(-63).to_bits()
    );
    for q in [0.0, -0.1, f64::NAN, f64::INFINITY, 1.0_f64.next_up()] {
        assert!(PoissonSampling::new(q).is_err(), "{q}");
    }
}

#[test]
fn everybody_takes_part_at_probability_one_and_all_but_nobody_at_the_least() {
    let mut noise = NoiseSource::insecure_seeded(1);
    let all = PoissonSampling::new(1.0)
        .unwrap()
        .sample(1000, &mut noise)
        .unwrap();
    assert!(all.indices().iter().copied().eq(0..1000));
    let none = PoissonSampling::new(5e-324)
        .unwrap()
        .sample(1000, &mut noise)
        .unwrap();
    assert!(none.indices().is_empty() && none.is_insecure());
    let empty = PoissonSampling::new(0.5)
        .unwrap()
        .sample(0, &mut noise)
        .unwrap();
    assert!(empty.indices().is_empty());
}

#[test]
fn clients_join_with_the_stated_probability_and_independently() {
    let (n, rounds, q) = (200_usize, 20_000_u32, 0.3);
    let sampling = PoissonSampling::new(q).unwrap();
    let mut noise = NoiseSource::insecure_seeded(2);
    let mut joined = vec![0.0; n];
    let mut sizes = (0.0, 0.0);
    for _ in 0..rounds {
        let sample = sampling.sample(n, &mut noise).unwrap();
        assert!(sample.indices().is_sorted_by(|a, b| a < b));
        for &client in sample.indices() {
            joined[client] += 1.0;
        }
        let size = sample.indices().len() as f64;
        sizes.0 += size;
        sizes.1 += (size - n as f64 * q).powi(2);
    }
    // binomial counts: seven standard errors
    let rounds = f64::from(rounds);
    let error = (rounds * q * (1.0 - q)).sqrt();
    for (client, count) in joined.iter().enumerate() {
        assert!((count - rounds * q).abs() < 7.0 * error, "client {client}");
    }
    // the variance of the size is that of independent clients
    let variance = n as f64 * q * (1.0 - q);
    assert!((sizes.1 / rounds / variance - 1.0).abs() < 7.0 * (2.0 / rounds).sqrt());
    assert!((sizes.0 / rounds - n as f64 * q).abs() < 7.0 * (variance / rounds).sqrt());
}

#[test]
fn every_subset_of_a_size_is_equally_likely() {
    // all 10 subsets of 3 out of 5; chi-square with 9 degrees exceeds 60 with probability 1e-9
    let sampling = FixedSizeSampling::new(3, 5).unwrap();
    let mut noise = NoiseSource::insecure_seeded(3);
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..50_000 {
        let sample = sampling.sample(&mut noise).unwrap();
        assert!(sample.indices().is_sorted_by(|a, b| a < b));
        *counts.entry(sample.indices().to_vec()).or_insert(0.0) += 1.0;
    }
    assert_eq!(counts.len(), 10);
    let chi: f64 = counts.values().map(|c: &f64| (c - 5e3).powi(2) / 5e3).sum();
    assert!(chi < 60.0, "{chi}");
}

#[test]
fn fixed_sizes_are_checked_and_the_whole_is_a_sample_of_itself() {
    assert!(FixedSizeSampling::new(0, 5).is_err());
    assert!(FixedSizeSampling::new(6, 5).is_err());
    assert!(FixedSizeSampling::new(0, 0).is_err());
    let mut noise = NoiseSource::operating_system();
    let all = FixedSizeSampling::new(5, 5)
        .unwrap()
        .sample(&mut noise)
        .unwrap();
    assert_eq!(all.indices(), [0, 1, 2, 3, 4]);
    assert!(!all.is_insecure());
}

#[test]
fn two_samples_of_one_source_differ() {
    let mut noise = NoiseSource::insecure_seeded(4);
    let sampling = PoissonSampling::new(0.5).unwrap();
    let first = sampling.sample(256, &mut noise).unwrap();
    let second = sampling.sample(256, &mut noise).unwrap();
    assert_ne!(first.indices(), second.indices());
    let again = sampling
        .sample(256, &mut NoiseSource::insecure_seeded(4))
        .unwrap();
    assert_eq!(first.indices(), again.indices());
}

#[test]
fn only_a_spend_for_exactly_this_sampling_tells_its_noise() {
    let add_remove = dp_core::Adjacency::AddRemoveUser;
    let spend = |event: DpEvent, adjacency| {
        let release = dp_accounting::PlannedRelease::new("step", event, 10);
        crate::test_support::spends_of(vec![release], adjacency).remove(0)
    };
    let q = ClientSampling::from(PoissonSampling::new(0.25).unwrap());
    let paid = |q: f64| spend(DpEvent::sampled_gaussian(2.0, q), add_remove);
    assert!(
        q.noise_multiplier(&paid(0.25))
            .is_ok_and(|z| z.to_bits() == 2.0_f64.to_bits())
    );
    assert!(q.noise_multiplier(&paid(0.25_f64.next_down())).is_err());
    assert!(q.noise_multiplier(&paid(0.25_f64.next_up())).is_err());
    let unsampled = spend(DpEvent::gaussian(2.0), add_remove);
    assert!(q.noise_multiplier(&unsampled).is_err());
    let laplace = spend(DpEvent::laplace(2.0).poisson_sampled(0.25), add_remove);
    assert!(q.noise_multiplier(&laplace).is_err());

    let fixed = |m, n| ClientSampling::from(FixedSizeSampling::new(m, n).unwrap());
    let event = fixed(5, 50).event(DpEvent::gaussian(3.0));
    let paid = spend(event, dp_core::Adjacency::ReplaceUser);
    let multiplier = fixed(5, 50).noise_multiplier(&paid).unwrap();
    assert!(multiplier.to_bits() == 3.0_f64.to_bits());
    for other in [q, fixed(6, 50), fixed(5, 49), fixed(10, 100)] {
        assert!(other.noise_multiplier(&paid).is_err(), "{other:?}");
    }
}

#[test]
fn fixed_sizes_want_the_number_of_clients_that_they_are_for() {
    let mut noise = NoiseSource::insecure_seeded(5);
    let fixed = ClientSampling::from(FixedSizeSampling::new(2, 9).unwrap());
    let sample = fixed.sample(9, &mut noise).unwrap();
    assert!(sample.sampling() == fixed && sample.indices().len() == 2);
    for n in [0, 8, 10] {
        let refused = fixed.sample(n, &mut noise).map(|_| ());
        assert!(matches!(
            refused,
            Err(crate::Error::Population { expected: 9 })
        ));
    }
}
