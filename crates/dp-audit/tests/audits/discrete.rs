//! Releases with discrete noise, from one party and from two servers.

use dp_accounting::Spend;
use dp_audit::testing::Payer;
use dp_audit::{Layout, audit_release, draws_needed, vector_view};
use dp_core::{Adjacency, DpEvent, Private, Relation};
use dp_mechanism::{Grid, NoiseSource, NoisyShare, ReleasedVector, Share, ShareServer, VectorSum};

use crate::support::LEVEL;

const Z: f64 = 3.0;

fn grid() -> Grid {
    Grid::new(Z, 1.0).unwrap()
}

fn paid(rho: f64, n: usize) -> Spend {
    let relation = Relation::AddRemove;
    let event = DpEvent::Zcdp { rho, relation };
    let payer = Payer::new(event, n as u64, Adjacency::AddRemoveUser).unwrap();
    payer.spend().unwrap()
}

/// Two servers whose shares add up to zero and who each added their own noise.
fn by_two_servers(n: usize) -> ReleasedVector {
    let shares = Share::split(Private::new(vec![0; n])).unwrap();
    let totals = shares.map(|share| {
        let mut server = ShareServer::new(n, grid());
        server.receive(&share).unwrap();
        let noise = &mut NoiseSource::operating_system();
        server
            .noisy_total(paid(grid().zcdp_rho(), n), noise)
            .unwrap()
    });
    NoisyShare::release(totals).unwrap()
}

/// At this scale, the half step between floored and discrete noise is 2^-40 of a standard
/// deviation.
#[test]
fn discrete_releases_have_the_noise_that_was_paid_for() {
    let n = usize::try_from(draws_needed(0.99, LEVEL, 1e-6)).unwrap();
    let noise = &mut NoiseSource::operating_system();
    let sum = VectorSum::empty(n, grid()).unwrap();
    let one = sum
        .release_discrete(paid(grid().zcdp_rho(), n), noise)
        .unwrap();
    let audit = audit_release(&vector_view("one party", Z, &grid(), &one), LEVEL).unwrap();
    assert!(audit.verdict.holds(), "{audit}");
    // the full noise of each server: neither server's guarantee relies on the other's noise
    let mut view = vector_view("two servers", Z, &grid(), &by_two_servers(n));
    let variance = 2 * u128::from(grid().sigma()).pow(2);
    view.layout = Layout::Vector {
        sigma: u64::try_from(variance.isqrt()).unwrap(),
    };
    let audit = audit_release(&view, LEVEL).unwrap();
    assert!(audit.verdict.holds(), "{audit}");
}

#[test]
fn discrete_noise_is_added_only_to_what_was_paid_for() {
    let right = grid().zcdp_rho();
    let made = |spend: &dyn Fn() -> Spend| {
        let noise = &mut NoiseSource::operating_system();
        let sum = VectorSum::empty(4, grid()).unwrap();
        let server = ShareServer::new(4, grid());
        let one = sum.release_discrete(spend(), noise).is_ok();
        [one, server.noisy_total(spend(), noise).is_ok()]
    };
    assert_eq!(made(&|| paid(right, 4)), [true; 2]);
    assert_eq!(made(&|| paid(right.next_down(), 4)), [false; 2], "less rho");
    assert_eq!(made(&|| paid(right, 3)), [false; 2], "fewer draws");
    let gaussian = || dp_audit::testing::spends(&[(Z, dp_core::ReplaceFactor::Two, 4)]);
    let other = made(&|| gaussian().unwrap().remove(0));
    assert_eq!(other, [false; 2], "another mechanism");
}
