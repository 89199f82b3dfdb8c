//! Client sampling, and the discrete Gaussian.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use dp_audit::{audit_discrete_sampler, audit_fixed_size, audit_poisson};
use dp_mechanism::{DiscreteGaussian, NoiseSource};

use crate::support::LEVEL;

/// 4 million coins: a probability off by one percent is 13 standard errors away.
#[test]
fn clients_take_part_with_the_probability_that_is_accounted_for() {
    let noise = &mut NoiseSource::operating_system();
    let audit = audit_poisson(0.3, 2000, 2000, LEVEL, noise).unwrap();
    assert!(audit.verdict.holds(), "{audit}");
}

#[test]
fn samples_of_fixed_size_are_uniform_subsets() {
    let noise = &mut NoiseSource::operating_system();
    for (m, n, n_samples) in [(3, 5, 50_000), (6, 60, 50_000)] {
        let audit = audit_fixed_size(m, n, n_samples, LEVEL, noise).unwrap();
        assert!(audit.verdict.holds(), "{audit}");
    }
}

/// 2 million draws at the smallest scale: a shift by 1/2 changes the statistic by 22 standard
/// deviations.
#[test]
fn the_discrete_sampler_fits_its_probabilities() {
    let mut draws = vec![0; 2_000_000];
    let noise = DiscreteGaussian::new(32).unwrap();
    noise.fill(&mut ChaCha20Rng::from_seed([6; 32]), &mut draws);
    let audit = audit_discrete_sampler(draws, 32, LEVEL).unwrap();
    assert!(audit.verdict.holds(), "{audit}");
}
