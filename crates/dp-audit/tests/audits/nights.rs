//! Paced lifetimes: whatever a user does on whichever nights costs one event, and no night is made
//! twice.

use std::fs;
use std::path::Path;

use dp_accounting::{Budget, Ledger, Pace, Plan, PlannedRelease, Requests};
use dp_core::{
    Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private, ReplaceFactor, UserRow,
};
use dp_mechanism::{
    Error, GridForm, NoiseSource, Observer, PacedLifetime, ReleaseEntry, Run, SparseBuffer,
    VectorContribution,
};

const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
const HORIZON: u32 = 6;
const MULTIPLIER: f64 = 2.0;
/// Nights that are made; two were missed.
const NIGHTS: [u32; 14] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 15];

/// The largest allowed contribution, for the user's only item.
struct Largest;

impl VectorContribution for Largest {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        out.extend(user.items().first().map(|&item| (item, 1.0)));
    }
}

fn plan(n_coordinates: usize) -> Plan {
    let draws = (NIGHTS.len() * n_coordinates) as u64;
    let event = PlannedRelease::gaussian("nights", MULTIPLIER, ReplaceFactor::Two, draws);
    Plan::with_noise_multipliers(1e-5, ADJACENCY, vec![event.unwrap()]).unwrap()
}

fn ledger(folder: &Path) -> Ledger {
    let target = ApproxDp::target(8.0, 1e-5).unwrap();
    let budget = Budget::new(target, ADJACENCY).unwrap();
    Ledger::open_or_create(folder.join("ledger"), "d", budget).unwrap()
}

fn begin(folder: &Path, plan: &Plan) -> PacedLifetime {
    let pace = Pace::new(0.4, HORIZON).unwrap();
    PacedLifetime::begin(ledger(folder), plan, pace, folder.join("first-seen")).unwrap()
}

fn resume(folder: &Path) -> Result<PacedLifetime, Error> {
    let ledger = ledger(folder);
    let id = ledger.lifetimes().next().unwrap().to_owned();
    PacedLifetime::resume(ledger, id, folder.join("first-seen"))
}

#[derive(Default)]
struct Listed(Vec<ReleaseEntry>);

impl Observer for Listed {
    fn listed(&mut self, entry: &ReleaseEntry) {
        self.0.push(entry.clone());
    }
}

fn night(
    lifetime: &mut PacedLifetime,
    plan: &Plan,
    number: u32,
    data: &Private<Interactions>,
    noise: &mut NoiseSource,
) -> Result<ReleaseEntry, Error> {
    let n = data.expose().n_items();
    let mut listed = Listed::default();
    let mut run = Run::nightly(plan, lifetime, number, noise)?.observed_by(&mut listed);
    run.begin(&Requests::Fixed(plan.releases().to_vec()), 1)?;
    assert!(run.night(data, (n, 1.0), &Largest)?.is_some());
    drop(run);
    Ok(listed.0.remove(0))
}

/// The users of a night in addition to the canary: a few who come and go.
fn everybody(number: u32, canary: Option<u32>) -> Private<Interactions> {
    let mut builder = InteractionsBuilder::new(16);
    for user in 0..20 {
        if user % 3 != number % 3 && user <= 4 * number {
            builder.push(user, user % 8, 1.0).unwrap();
            builder.set_id(user, u128::from(user) << 64);
        }
    }
    if let Some(item) = canary {
        builder.push(1000, item, 1.0).unwrap();
        builder.set_id(1000, 77);
    }
    Private::new(builder.build().0)
}

/// All nights of a lifetime, with noise that is the same in every lifetime. The canary has one item
/// on each night, or is not there.
fn lifetime(canary: impl Fn(u32) -> Option<u32>) -> (GridForm, Vec<Vec<i64>>) {
    let (folder, plan) = (tempfile::tempdir().unwrap(), plan(16));
    drop(begin(folder.path(), &plan));
    let mut grid = None;
    let mut nights = Vec::new();
    for number in NIGHTS {
        let data = everybody(number, canary(number));
        let noise = &mut NoiseSource::insecure_seeded(u64::from(number));
        let mut lifetime = resume(folder.path()).unwrap();
        let entry = night(&mut lifetime, &plan, number, &data, noise).unwrap();
        assert_eq!(entry.form().night, Some(number));
        grid = Some(entry.form().grids[0]);
        nights.push(entry.integers().to_vec());
    }
    (grid.unwrap(), nights)
}

/// The exact squared distance of all releases together.
fn squared_shift(a: &[Vec<i64>], b: &[Vec<i64>]) -> u128 {
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs
        .map(|(&x, &y)| u128::from(x.wrapping_sub(y).unsigned_abs()).pow(2))
        .sum()
}

fn of_night(number: u32, first: u32) -> Option<u32> {
    (number >= first).then_some(12)
}

#[test]
fn whatever_a_user_does_on_whichever_nights_is_worth_one_event() {
    let (grid, without) = lifetime(|_| None);
    let bound = u128::from(grid.l2_bound).pow(2);
    let mu =
        |shift: u128| (shift as f64).sqrt() / 2.0_f64.powi(i32::try_from(grid.log2_sigma).unwrap());
    let claim = 1.0 / MULTIPLIER;
    // comes on night 3 and stays
    let (_, stays) = lifetime(|number| of_night(number, 3));
    let shift = squared_shift(&stays, &without);
    assert!(shift <= bound, "mu {} of {claim}", mu(shift));
    // night 8 is the last of its six, and none of them was missed
    assert!(mu(shift) > 0.95 * claim, "mu {} of {claim}", mu(shift));
    // there before the first night; comes, rates again, leaves, deletes and returns
    let behaviours: [&dyn Fn(u32) -> Option<u32>; 4] = [
        &|_| Some(15),
        &|number| (number % 2 == 0).then_some(8 + number % 5),
        &|number| [1, 2, 12, 13, 15].contains(&number).then_some(9),
        &|number| (number >= 13).then_some(number),
    ];
    for canary in behaviours {
        let (_, with) = lifetime(canary);
        let shift = squared_shift(&with, &without);
        assert!(0 < shift && shift <= bound, "mu {} of {claim}", mu(shift));
        // replaced by someone who comes on another night
        assert!(squared_shift(&with, &stays) <= 4 * bound);
    }
}

#[test]
fn nights_have_the_noise_that_was_paid_for() {
    let (folder, plan) = (tempfile::tempdir().unwrap(), plan(6000));
    let mut lifetime = begin(folder.path(), &plan);
    let nobody = Private::new(InteractionsBuilder::new(6000).build().0);
    let noise = &mut NoiseSource::operating_system();
    let (mut sum, mut n) = (0.0, 0.0);
    for number in NIGHTS {
        let entry = night(&mut lifetime, &plan, number, &nobody, noise).unwrap();
        let sigma = 2.0_f64.powi(i32::try_from(entry.form().grids[0].log2_sigma).unwrap());
        let squares = entry
            .integers()
            .iter()
            .map(|&y| ((y as f64 + 0.5) / sigma).powi(2));
        sum += squares.sum::<f64>();
        n += entry.integers().len() as f64;
    }
    // 84,000 draws: 1e-9 on either side is six standard deviations
    assert!(
        (sum / n - 1.0).abs() < 6.0 * (2.0 / n).sqrt(),
        "{}",
        sum / n
    );
}

#[test]
fn no_night_is_made_twice() {
    let (folder, plan) = (tempfile::tempdir().unwrap(), plan(16));
    let mut lifetime = begin(folder.path(), &plan);
    let noise = &mut NoiseSource::operating_system();
    let data = everybody(5, None);
    night(&mut lifetime, &plan, 5, &data, noise).unwrap();
    for number in [5, 4, 0] {
        assert!(night(&mut lifetime, &plan, number, &data, noise).is_err());
    }
    drop(lifetime);
    let mut lifetime = resume(folder.path()).unwrap();
    assert!(night(&mut lifetime, &plan, 5, &data, noise).is_err());
    assert_eq!(lifetime.state().unwrap().n_nights, 1);
}

#[test]
fn a_store_that_was_rolled_back_is_refused() {
    let (folder, plan) = (tempfile::tempdir().unwrap(), plan(16));
    let path = folder.path().join("first-seen");
    let mut lifetime = begin(folder.path(), &plan);
    let noise = &mut NoiseSource::operating_system();
    let empty = fs::read(&path).unwrap();
    for number in [0, 1] {
        night(
            &mut lifetime,
            &plan,
            number,
            &everybody(number, Some(12)),
            noise,
        )
        .unwrap();
    }
    drop(lifetime);
    let newest = fs::read(&path).unwrap();
    fs::write(&path, &empty).unwrap();
    assert!(matches!(
        resume(folder.path()).map(drop),
        Err(Error::FirstSeen { .. })
    ));
    fs::write(&path, &newest).unwrap();
    assert!(resume(folder.path()).is_ok());
}
