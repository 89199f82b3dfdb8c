//! Spends, ledgers, plans.

use dp_accounting::{Budget, Error, Ledger, Plan, PlannedRelease, ReleaseRequest, Requests};
use dp_audit::audit_black_box;
use dp_audit::testing::{Payer, spends};
use dp_core::{Adjacency, ApproxDp, DpEvent, Private, Relation, ReplaceFactor};
use dp_mechanism::{
    ExponentialMechanism, Grid, NoiseSource, PoissonSampling, Run, ScoreChange, VectorSum,
};

use crate::support::{Halves, table};

fn target(epsilon: f64) -> ApproxDp {
    ApproxDp::target(epsilon, 1e-5).unwrap()
}

fn request(n_draws: u64) -> ReleaseRequest {
    ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, n_draws)
}

#[test]
fn a_spend_pays_for_its_own_release_only() {
    let grid = Grid::new(2.0, 1.0).unwrap();
    let release = |z, factor, draws| {
        let spend = spends(&[(z, factor, draws)]).unwrap().remove(0);
        let sum = VectorSum::empty(10, grid).unwrap();
        sum.release(spend, &mut NoiseSource::operating_system())
            .is_ok()
    };
    assert!(release(2.0, ReplaceFactor::Two, 10));
    assert!(!release(2.5, ReplaceFactor::Two, 10), "pays for more noise");
    assert!(!release(2.0, ReplaceFactor::Two, 9), "pays for fewer draws");
    assert!(
        !release(2.0, ReplaceFactor::SqrtTwo, 10),
        "pays for a PSD sum"
    );
}

/// Every kind of release is bounded per user; adding or removing one record is a replacement of the
/// user's contribution, at up to twice the distance.
#[test]
fn spends_for_adding_and_removing_records_pay_for_nothing_that_is_bounded_per_user() {
    let grid = Grid::new(2.0, 1.0).unwrap();
    let noise = &mut NoiseSource::operating_system();
    let zcdp = DpEvent::Zcdp {
        rho: grid.zcdp_rho(),
        relation: Relation::AddRemove,
    };
    let chooser = ExponentialMechanism::new(1.0, 1.0, ScoreChange::General, Relation::AddRemove);
    let chooser = chooser.unwrap();
    let mut made = |adjacency| {
        let spend = |event| Payer::new(event, 2, adjacency).unwrap().spend().unwrap();
        let sum = || VectorSum::empty(2, grid).unwrap();
        let gaussian = sum().release(spend(DpEvent::gaussian(2.0)), noise).is_ok();
        let discrete = sum().release_discrete(spend(zcdp.clone()), noise).is_ok();
        let selected = chooser.select(&[0.0, 1.0], spend(chooser.event()), noise);
        [gaussian, discrete, selected.is_ok()]
    };
    assert_eq!(made(Adjacency::AddRemoveUser), [true; 3]);
    assert_eq!(made(Adjacency::AddRemoveRecord), [false; 3]);
}

#[test]
fn what_is_handed_out_is_on_disk_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let budget = Budget::new(target(1.0), Adjacency::AddRemoveUser).unwrap();
    let plan = Plan::calibrate(target(1.0), Adjacency::AddRemoveUser, &[request(5)]).unwrap();
    let mut ledger = Ledger::open_or_create(&path, "d", budget).unwrap();
    let paid = ledger.reserve(&plan).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(paid[0].release_id()) && text.lines().count() == 2);
    assert!(matches!(
        ledger.reserve(&plan),
        Err(Error::BudgetSpent { .. })
    ));
    drop(ledger);
    let mut again = Ledger::open_or_create(&path, "d", budget).unwrap();
    assert!(again.reserve(&plan).is_err());
}

/// A held release can be released only once, even if the ledger is reopened in between.
#[test]
fn a_held_release_is_handed_out_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let budget = Budget::new(target(1.0), Adjacency::AddRemoveUser).unwrap();
    let plan = Plan::calibrate(target(1.0), Adjacency::AddRemoveUser, &[request(5)]).unwrap();
    let mut ledger = Ledger::open_or_create(&path, "d", budget).unwrap();
    let held = ledger.hold(&plan).unwrap();
    assert!(ledger.take(&held, 0).is_ok());
    let again = ledger.take(&held, 0);
    assert!(matches!(again, Err(Error::AlreadyTaken { .. })));
    drop(ledger);
    let mut later = Ledger::open_or_create(&path, "d", budget).unwrap();
    let held = later.held(held.release_ids()).unwrap();
    let again = later.take(&held, 0);
    assert!(matches!(again, Err(Error::AlreadyTaken { .. })));
}

/// If the charge is rejected, nothing secret was drawn before, neither noise nor the coins of a
/// sample: the source of a seeded run is in the same state as before.
#[test]
fn no_secret_bit_is_drawn_before_it_is_paid_for() {
    let adjacency = Adjacency::AddRemoveUser;
    let sampling = PoissonSampling::new(0.5).unwrap();
    let data = Private::new(table(2, &[vec![(0, 1.0)], vec![(1, 1.0)]]));
    let next = |noise: &mut NoiseSource| {
        let spend = spends(&[(2.0, ReplaceFactor::Two, 10)]).unwrap().remove(0);
        let sum = VectorSum::empty(10, Grid::new(2.0, 1.0).unwrap()).unwrap();
        sum.release(spend, noise).unwrap().integers().to_vec()
    };
    let untouched = next(&mut NoiseSource::insecure_seeded(5));
    for sampled in [false, true] {
        let requests = Requests::schedule(move |z| {
            let event = match sampled {
                true => DpEvent::sampled_gaussian(z, 0.5),
                false => DpEvent::gaussian(z),
            };
            vec![PlannedRelease::new("sum", event, 2)]
        });
        let plan = requests.calibrate(target(1.0), adjacency).unwrap();
        let too_little = Budget::schedule(target(0.1), adjacency).unwrap();
        let mut ledger = Ledger::in_memory("d", too_little).unwrap();
        let noise = &mut NoiseSource::insecure_seeded(5);
        let mut run = Run::paying(&plan, &mut ledger, noise).unwrap();
        run.begin(&requests, 1).unwrap();
        let made = match sampled {
            true => run.sampled_vector(sampling, &data, (2, 1.0), &Halves),
            false => run.vector(&data, (2, 1.0), &Halves),
        };
        assert!(matches!(made, Err(dp_mechanism::Error::Accounting(_))));
        drop(run);
        assert_eq!(next(noise), untouched, "sampled: {sampled}");
    }
}

#[test]
fn plans_meet_their_target() {
    for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
        for epsilon in [0.5, 5.0] {
            let plan = Plan::calibrate(target(epsilon), adjacency, &[request(9)]).unwrap();
            assert!(plan.guarantee().epsilon <= epsilon);
        }
    }
}

/// L2 under replacement: 16,000 users, each alone on a coordinate with a contribution at the clip,
/// compared with the same users with the sign reversed.
#[test]
fn replaced_users_are_hidden_as_claimed() {
    let n = 16_000;
    let adjacency = Adjacency::ReplaceUser;
    let plan = Plan::calibrate(target(5.0), adjacency, &[request(n)]).unwrap();
    let mu = plan.gdp().unwrap().mu;
    let scores = |sign: f32| -> Vec<f64> {
        let budget = Budget::new(target(5.0), adjacency).unwrap();
        let mut ledger = Ledger::in_memory("d", budget).unwrap();
        let spend = ledger.reserve(&plan).unwrap().remove(0);
        let grid = Grid::new(spend.noise_multiplier().unwrap(), 1.0).unwrap();
        let users: Vec<_> = (0..16_000).map(|item| vec![(item, sign)]).collect();
        let data = Private::new(table(16_000, &users));
        let sum = VectorSum::accumulate(&data, 16_000, grid, &Halves).unwrap();
        let released = sum
            .release(spend, &mut NoiseSource::operating_system())
            .unwrap();
        let sigma = grid.sigma() as f64;
        released
            .integers()
            .iter()
            .map(|&y| (y as f64 + 0.5) / sigma)
            .collect()
    };
    let (minus, plus) = (scores(-1.0), scores(1.0));
    let audit = audit_black_box("replace", mu, &minus, &plus, 0.0, 1.0 - 1e-9).unwrap();
    assert!(audit.verdict.holds(), "{audit}");
    assert!(audit.lower_bound_mu > 0.8 * mu, "{audit}");
}
