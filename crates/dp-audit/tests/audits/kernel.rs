//! L0, L1 and L4 at the kernel.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use dp_audit::testing::spends;
use dp_audit::{
    View, audit_independence, audit_release, audit_sampler, audit_sensitivity, draws_needed,
    observe_grams, observe_vector,
};
use dp_core::{Private, ReplaceFactor};
use dp_mechanism::{FlooredGaussian, GramSums, NoiseSource};

use crate::support::{Halves, LEVEL, Lopsided, table, users_around_the_clip};

const Z: f64 = 3.0;

fn vector(
    data: &Private<dp_core::Interactions>,
    n: usize,
    noise: &mut NoiseSource,
) -> dp_audit::Result<View> {
    let spend = spends(&[(Z, ReplaceFactor::Two, n as u64)])?.remove(0);
    observe_vector(data, n, 1.0, &Halves, spend, noise)
}

fn grams(
    data: &Private<dp_core::Interactions>,
    dim: usize,
    noise: &mut NoiseSource,
) -> dp_audit::Result<[View; 2]> {
    let n_items = data.expose().n_items();
    let mut paid = spends(&[
        (
            Z,
            ReplaceFactor::SqrtTwo,
            GramSums::matrix_draws(n_items, dim),
        ),
        (2.0, ReplaceFactor::Two, GramSums::rhs_draws(n_items, dim)),
    ])?;
    let (rhs, matrix) = (paid.remove(1), paid.remove(0));
    observe_grams(data, (1.0, 0.7), &Lopsided { dim }, (matrix, rhs), noise)
}

#[test]
fn the_sampler_fits_its_probabilities() {
    let mut draws = vec![0; 2_000_000];
    let noise = FlooredGaussian::new(64).unwrap();
    noise.fill(&mut ChaCha20Rng::from_seed([5; 32]), &mut draws);
    let audit = audit_sampler(draws, 64, LEVEL).unwrap();
    assert!(audit.verdict.holds(), "{audit}");
}

#[test]
fn released_vectors_have_the_noise_that_was_paid_for() {
    let n = usize::try_from(draws_needed(0.99, LEVEL, 1e-6)).unwrap();
    let data = Private::new(table(n, &users_around_the_clip()));
    let mut source = NoiseSource::operating_system();
    let first = vector(&data, n, &mut source).unwrap();
    let audit = audit_release(&first, LEVEL).unwrap();
    assert!(audit.verdict.holds(), "{audit}");
    // another release from the same source, and the first release from another source
    let second = vector(&data, n, &mut source).unwrap();
    let third = vector(&data, n, &mut NoiseSource::operating_system()).unwrap();
    let residuals: Vec<_> = [("first", first), ("second", second), ("third", third)]
        .into_iter()
        .map(|(name, view)| (name.to_owned(), view.residuals()))
        .collect();
    for check in audit_independence(&residuals, LEVEL) {
        assert!(check.passed(), "{check:?}");
    }
}

#[test]
fn seeded_releases_of_one_source_differ() {
    let data = Private::new(table(5000, &users_around_the_clip()));
    let mut source = NoiseSource::insecure_seeded(1);
    let mut residuals = || vector(&data, 5000, &mut source).unwrap().residuals();
    let pair = [
        ("first".to_owned(), residuals()),
        ("second".to_owned(), residuals()),
    ];
    assert!(audit_independence(&pair, LEVEL).iter().all(|c| c.passed()));
}

#[test]
fn released_grams_have_the_noise_that_was_paid_for() {
    let data = Private::new(table(50_000, &users_around_the_clip()));
    let views = grams(&data, 3, &mut NoiseSource::operating_system()).unwrap();
    for view in &views {
        let audit = audit_release(view, LEVEL).unwrap();
        assert!(audit.verdict.holds(), "{audit}");
    }
    let residuals = views.map(|view| (view.label.clone(), view.residuals()));
    let checks = audit_independence(&residuals, LEVEL);
    assert!(checks.iter().all(|c| c.passed()), "{checks:?}");
}

#[test]
fn no_user_moves_a_vector_further_than_paid_for() {
    let data = table(16, &users_around_the_clip());
    let users: Vec<usize> = (0..data.n_users()).collect();
    let audit = audit_sensitivity(&data, &users, |data, noise| vector(data, 16, noise)).unwrap();
    assert!(audit.verdict.holds(), "{audit}");
    // there are users at the clip, so the bound is reached
    assert!(audit.largest > 0.999 * audit.allowed as f64, "{audit}");
}

#[test]
fn no_user_moves_gram_sums_further_than_paid_for() {
    let data = table(16, &users_around_the_clip());
    let users: Vec<usize> = (0..data.n_users()).collect();
    for part in 0..2 {
        for dim in [1, 2] {
            let audit = audit_sensitivity(&data, &users, |data, noise| {
                Ok(grams(data, dim, noise)?[part].clone())
            })
            .unwrap();
            assert!(audit.verdict.holds(), "{audit}");
            assert!(audit.largest > 0.3 * audit.allowed as f64, "{audit}");
        }
    }
}

#[test]
fn too_little_noise_is_caught() {
    let n = 600_000;
    let data = Private::new(table(n, &users_around_the_clip()));
    let mut view = vector(&data, n, &mut NoiseSource::insecure_seeded(2)).unwrap();
    for (y, s) in view.integers.iter_mut().zip(&view.exact) {
        *y = s.wrapping_add(y.wrapping_sub(*s) / 100 * 99);
    }
    assert!(audit_release(&view, LEVEL).unwrap().verdict.is_violated());
}
