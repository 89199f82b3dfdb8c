//! Sums of one number per user, and the number of users.

use dp_audit::testing::Payer;
use dp_audit::{Layout, View, audit_release};
use dp_core::{Adjacency, DpEvent, Interactions, Private, UserRow};
use dp_mechanism::{Grid, NoiseSource, ReleasedScalar, release_scalar_sum, release_user_count};

use crate::support::{LEVEL, table};

const Z: f64 = 2.0;
/// Number of releases of one number: noise too small by a tenth is missed with probability 1e-5.
const N: usize = 6000;

/// The same release repeated, as the coordinates of one view.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a released number has far fewer than 63 bits"
)]
fn view(clip: f64, exact: i64, release: impl FnMut() -> ReleasedScalar) -> View {
    let grid = Grid::new(Z, clip).unwrap();
    let integer = |value: f64| (value / grid.step() - 0.5).round() as i64;
    View {
        label: "scalar".to_owned(),
        layout: Layout::Vector {
            sigma: grid.sigma(),
        },
        noise_multiplier: Z,
        integers: std::iter::repeat_with(release)
            .take(N)
            .map(|released| integer(released.value()))
            .collect(),
        exact: vec![exact; N],
        canaries: Vec::new(),
    }
}

fn payer() -> Payer {
    Payer::new(DpEvent::gaussian(Z), 1, Adjacency::AddRemoveUser).unwrap()
}

/// Eleven users, one of them without records.
fn users() -> Private<Interactions> {
    let mut users: Vec<Vec<(u32, f32)>> = (0..10).map(|n| vec![(n % 4, 1.0), (4, 2.0)]).collect();
    users.push(Vec::new());
    Private::new(table(5, &users))
}

#[test]
fn user_counts_have_the_noise_that_was_paid_for() {
    let (data, payer) = (users(), payer());
    let noise = &mut NoiseSource::operating_system();
    // a user at the clip contributes the integer below clip / step
    let one = Grid::new(Z, 1.0).unwrap().quantise(1.0);
    let view = view(1.0, 11 * one, || {
        release_user_count(&data, payer.spend().unwrap(), noise).unwrap()
    });
    let audit = audit_release(&view, LEVEL).unwrap();
    assert!(audit.verdict.holds(), "{audit}");
}

#[test]
fn sums_have_the_noise_that_was_paid_for() {
    let (data, payer) = (users(), payer());
    let noise = &mut NoiseSource::operating_system();
    let first = |user: UserRow<'_>| user.values().first().copied().map_or(0.0, f64::from);
    let one = Grid::new(Z, 4.0).unwrap().quantise(1.0);
    let view = view(4.0, 10 * one, || {
        release_scalar_sum(&data, 4.0, first, payer.spend().unwrap(), noise).unwrap()
    });
    let audit = audit_release(&view, LEVEL).unwrap();
    assert!(audit.verdict.holds(), "{audit}");
}

/// Equal noise on both sides cancels: a user beyond the clip counts as one at the clip, and changes
/// the sum by no more than the clip.
#[test]
fn users_beyond_the_clip_count_as_users_at_the_clip() {
    let (data, payer) = (users(), payer());
    let sum = |value: f64| {
        let noise = &mut NoiseSource::insecure_seeded(1);
        let spend = payer.spend().unwrap();
        let released = release_scalar_sum(&data, 4.0, |_| value, spend, noise);
        released.unwrap().value()
    };
    for value in [4.5, 1e9, 1e300, f64::INFINITY] {
        assert!(sum(value).to_bits() == sum(4.0).to_bits(), "{value}");
        assert!(sum(-value).to_bits() == sum(-4.0).to_bits(), "-{value}");
    }
    assert!(sum(f64::NAN).to_bits() == sum(0.0).to_bits());
}
