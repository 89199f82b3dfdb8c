//! Nights of a paced lifetime: the subspace that is learned, and that it follows from the list of nights however it is come to.

use std::path::Path;

use dp_accounting::{Budget, Ledger, Pace, Plan};
use dp_core::{Adjacency, UserSamples, UserSamplesBuilder};
use dp_data::SubspaceData;
use dp_mechanism::{
    Error as RunError, Fitted, Grid, NoiseSource, Observed, ObservedSums, Observer, PacedLifetime,
    ReleaseList, Run, Trainer,
};
use dp_personalize::{
    NightlySubspace, NightlySubspaceModel, NightlySubspaceParams, Subspace, SubspaceState,
};

use crate::errors::scatter;
use crate::support::{DIM, distance, made, target};

const NIGHTS: u32 = 24;
const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

fn nights() -> NightlySubspace {
    NightlySubspaceParams::new(2).check().unwrap()
}

/// Whoever has arrived by a night, under ids of their own; users have only their first `n_rows` rows.
fn arrived(data: &SubspaceData, night: u32, n_rows: usize) -> UserSamples {
    let mut builder = UserSamplesBuilder::new(DIM, 10).unwrap();
    let users = (0_u32..).zip(data.samples.users());
    let users = users.filter(|(user, _)| user % NIGHTS <= night);
    for (row, (user, rows)) in (0..).zip(users) {
        for (x, y) in rows.iter().take(n_rows) {
            builder.push(row, x, y).unwrap();
        }
        builder.set_id(row, 1 << 127 | u128::from(user));
    }
    builder.build().0
}

fn plan_of(fit: &NightlySubspace) -> Plan {
    fit.plan(DIM, target(5.0), ADJACENCY).unwrap()
}

fn begin(folder: &Path, plan: &Plan) {
    let budget = Budget::new(plan.target(), plan.adjacency()).unwrap();
    let ledger = Ledger::create(folder.join("ledger"), "d", budget).unwrap();
    let pace = Pace::new(0.4, NIGHTS).unwrap();
    drop(PacedLifetime::begin(ledger, plan, pace, folder.join("first-seen")).unwrap());
}

fn night(
    folder: &Path,
    fit: &NightlySubspace,
    number: u32,
    samples: &UserSamples,
    observer: &mut dyn Observer,
) -> dp_personalize::Result<Fitted<NightlySubspaceModel>> {
    seeded_night(folder, fit, (number, 0), samples, observer)
}

fn seeded_night(
    folder: &Path,
    fit: &NightlySubspace,
    (number, seed): (u32, u64),
    samples: &UserSamples,
    observer: &mut dyn Observer,
) -> dp_personalize::Result<Fitted<NightlySubspaceModel>> {
    let plan = plan_of(fit);
    let ledger = Ledger::open(folder.join("ledger"), "d", ADJACENCY).unwrap();
    let id = ledger.lifetimes().next().unwrap().to_owned();
    let mut lifetime = PacedLifetime::resume(ledger, id, folder.join("first-seen"))?;
    let list = ReleaseList::open(folder.join("nights.list"), "test", &plan)?;
    let noise = &mut NoiseSource::insecure_seeded(u64::from(number) + 1000 * seed);
    let run = Run::nightly(&plan, &mut lifetime, number, noise)?;
    fit.run(samples, run.listed_in(list).observed_by(observer))
}

/// Squared norms of what users add to nights, over the squares of their bounds.
struct Norms<'a> {
    samples: &'a UserSamples,
    most: Vec<f64>,
}

impl Observer for Norms<'_> {
    fn reads_users(&self) -> bool {
        true
    }

    fn release(&mut self, seen: &Observed<'_>) {
        let ObservedSums::Vector { one_user, .. } = seen.sums else {
            panic!("a night is a vector");
        };
        let users = self.samples.table().expose().users();
        let squares = users.map(|row| {
            let added = one_user(row).into_iter();
            added
                .map(|(_, z)| u128::from(z.unsigned_abs()).pow(2))
                .sum()
        });
        let of_night: u128 = squares.max().unwrap();
        self.most.push((of_night as f64).sqrt());
    }
}

#[test]
fn nights_learn_the_subspace_for_any_features() {
    for decay in [0.0, 1.0] {
        let data = made(6_000, decay);
        let folder = tempfile::tempdir().unwrap();
        begin(folder.path(), &plan_of(&nights()));
        let mut kept: Option<SubspaceState> = None;
        let mut seen = Vec::new();
        for number in 0..NIGHTS {
            let samples = arrived(&data, number, 10);
            let fit = match kept.take() {
                Some(kept) => nights().continuing(kept),
                None => nights(),
            };
            let mut norms = Norms {
                samples: &samples,
                most: Vec::new(),
            };
            let made = night(folder.path(), &fit, number, &samples, &mut norms).unwrap();
            let NightlySubspaceModel { subspace, state } = made.model;
            // somebody who comes tonight has the largest bound, and the kernel drops whoever is above it
            let multiplier = plan_of(&fit).releases()[0].noise_multiplier().unwrap();
            let whole = Grid::new(multiplier, 1.0).unwrap().l2_bound();
            let bound = Pace::new(0.4, NIGHTS).unwrap().bounds(whole).unwrap()[0] as f64;
            let most = norms.most[0] / bound;
            // the sizes of residual gradients may all be below the clip until that has followed them
            let is_step = state.stage() == "steps";
            let may_be_small = is_step && number + 1 < NIGHTS;
            assert!(most <= 1.0 && (most > 0.99 || may_be_small), "{most}");
            seen.push((state.stage(), distance(&data, &subspace)));
            kept = Some(state);
        }
        let kept = kept.unwrap();
        assert_eq!(kept.n_nights(), NIGHTS as usize);
        assert!(kept.moved().unwrap() < 0.1);
        // noise is seeded, so these are facts and no tests of chance
        assert_eq!(seen[0].0, "projectors", "directions of 250 users are clear");
        let (stage, last) = seen[NIGHTS as usize - 1];
        assert_eq!(stage, "steps", "{seen:?}");
        let limit = if decay > 0.0 { 0.15 } else { 0.03 };
        assert!(last < limit, "{seen:?}");
    }
}

#[test]
fn the_subspace_follows_from_the_list_of_nights_however_it_is_come_to() {
    let data = made(4_000, 0.5);
    let folder = tempfile::tempdir().unwrap();
    let (folder, plan) = (folder.path(), plan_of(&nights()));
    begin(folder, &plan);
    let mut kept: Option<SubspaceState> = None;
    let mut last = None;
    // nights are missed, and users' rows come one after the other
    for (number, n_rows) in [(0, 5), (1, 6), (4, 6), (5, 9), (6, 10), (20, 10), (22, 10)] {
        let samples = arrived(&data, number, n_rows);
        let again = match kept.clone() {
            Some(kept) => nights().continuing(kept),
            None => nights(),
        };
        let made = night(folder, &again, number, &samples, &mut ()).unwrap();
        kept = Some(made.model.state.clone());
        last = Some(made);
    }
    let last = last.unwrap();
    assert_eq!(last.model.state.last_night(), 22);
    assert_eq!(last.model.state.stage(), "steps");
    let samples = arrived(&data, 22, 10);
    for fit in [nights(), nights().continuing(last.model.state.clone())] {
        let again = night(folder, &fit, 22, &samples, &mut ()).unwrap();
        assert_eq!(again.model, last.model);
        assert_eq!(again.certificate, last.certificate);
    }
    let text = serde_json::to_string(&last.model.state).unwrap();
    let read: SubspaceState = serde_json::from_str(&text).unwrap();
    assert_eq!(read, last.model.state);
    let nobody = UserSamplesBuilder::new(DIM, 10).unwrap().build().0;
    let list = || ReleaseList::read(folder.join("nights.list"), "test", &plan).unwrap();
    let replayed = nights().run(&nobody, Run::replay(&plan, list()).unwrap());
    let replayed = replayed.unwrap().model.subspace;
    assert_eq!(replayed.basis(), last.model.subspace.basis());
    let earlier = nights()
        .until(3)
        .run(&nobody, Run::replay(&plan, list()).unwrap());
    assert_eq!(earlier.unwrap().model.state.last_night(), 4);
    let ledger = Ledger::open(folder.join("ledger"), "d", ADJACENCY).unwrap();
    let id = ledger.lifetimes().next().unwrap().to_owned();
    assert_eq!(ledger.lifetime(&id).unwrap().n_nights, 7);
    // a list with no night at all has no model
    let empty = ReleaseList::hashes_only("test", &plan).unwrap();
    let replayed = nights().run(&nobody, Run::replay(&plan, empty).unwrap());
    assert!(matches!(
        replayed,
        Err(dp_personalize::Error::Mechanism(RunError::EndOfList))
    ));
}

/// 20 lifetimes of the same users with other noise, 12 nights each. The mean of 120 squares, correlated within a run, has a
/// standard error of about .18: seeds by which this fails occur once in 35. This noise gave 1.06.
#[test]
#[ignore = "heavy: part of CI"]
fn heavy_standard_errors_of_shares_are_those_of_the_noise_of_all_nights() {
    let data = made(6_000, 0.0);
    let everybody = arrived(&data, NIGHTS, 10);
    let of_seed = |seed| {
        let folder = tempfile::tempdir().unwrap();
        begin(folder.path(), &plan_of(&nights()));
        let (mut kept, mut last): (Option<SubspaceState>, _) = (None, None);
        for number in 0..12 {
            let fit = match kept.take() {
                Some(kept) => nights().continuing(kept),
                None => nights(),
            };
            let made = seeded_night(folder.path(), &fit, (number, seed), &everybody, &mut ());
            let NightlySubspaceModel { subspace, state } = made.unwrap().model;
            assert_eq!(
                subspace.share_errors().is_some(),
                state.stage() == "steps" && number > 1
            );
            (kept, last) = (Some(state), Some(subspace));
        }
        last.unwrap()
    };
    let runs: Vec<Subspace> = (0..20).map(of_seed).collect();
    let (square, covered) = scatter(&runs);
    assert!((0.6..1.4).contains(&square), "{square}");
    assert!(covered > 0.9, "{covered}");
}

#[test]
fn settings_out_of_range_are_refused() {
    let with = |change: fn(&mut NightlySubspaceParams)| {
        let mut params = NightlySubspaceParams::new(2);
        change(&mut params);
        params.check()
    };
    assert!(with(|params| params.rank = 0).is_err());
    assert!(with(|params| params.most_nights = 0).is_err());
    assert!(with(|params| params.least_signal = 0.0).is_err());
    assert!(with(|params| params.moment_weight = f64::NAN).is_err());
    assert!(nights().plan(1, target(1.0), ADJACENCY).is_err());
}
