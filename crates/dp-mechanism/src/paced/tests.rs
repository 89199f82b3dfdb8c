use std::fs;
use std::path::{Path, PathBuf};

use dp_accounting::{
    Budget, CertificateBuilder, Error as AccountingError, Ledger, Pace, Plan, ReleaseRequest,
    Requests,
};
use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private, ReplaceFactor};
use tempfile::TempDir;

use super::PacedLifetime;
use crate::{
    Coordinator, Error, Fitted, NoiseSource, Observed, ObservedSums, Observer, ReleaseEntry,
    ReleaseList, Result, Run, Sharded, SparseBuffer, SumBackend, Trainer, VectorContribution,
    worker_channels,
};

const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
const RUN: &str = "item biases";
const N_ITEMS: usize = 4;
const HORIZON: u32 = 5;
const TARGET: ApproxDp = ApproxDp {
    epsilon: 8.0,
    delta: 1e-5,
};

/// One bias per item: a whole trainer over nights.
struct ItemBiases;

struct Residuals<'b>(&'b [f64]);

impl VectorContribution for Residuals<'_> {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: dp_core::UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let n = u32::try_from(self.0.len()).unwrap();
        let weight = (0.5 / user.len().max(1) as f64).sqrt();
        for (item, value) in user.iter() {
            let residual = (f64::from(value) - self.0[item as usize]).clamp(-1.0, 1.0);
            out.push(item, weight * residual);
            out.push(n + item, weight);
        }
    }
}

impl Trainer for ItemBiases {
    type Data = Private<Interactions>;
    type Model = Vec<f64>;
    type Error = Error;

    fn width(&self, data: &Self::Data) -> usize {
        data.expose().n_items()
    }

    fn requests(&self, _: usize, _: Adjacency) -> Result<Requests> {
        // 20 nights of at most six items
        let draws = 20 * 2 * 6;
        let event = ReleaseRequest::new("nights", 1.0, ReplaceFactor::Two, draws);
        Ok(Requests::Shares(vec![event]))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        certificate.released_output("item biases", "everybody")
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<Vec<f64>> {
        let n = data.expose().n_items();
        let (mut biases, mut sums, mut weights) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        while let Some(night) = run.night(data, (2 * n, 1.0), &Residuals(&biases))? {
            let values = night.sum.values();
            let (residuals, totals) = values.split_at(n);
            for item in 0..n {
                // residuals relative to the model of that night become sums relative to 0
                sums[item] += residuals[item] + totals[item] * biases[item];
                weights[item] += totals[item];
                biases[item] = sums[item] / (weights[item].max(0.0) + 20.0);
            }
        }
        Ok(biases)
    }
}

/// The id of a user on every night.
fn id_of(user: u32) -> u128 {
    (u128::from(user) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

/// Users `0..n`, each with a row.
fn users(n: u32, n_items: usize) -> Private<Interactions> {
    let mut builder = InteractionsBuilder::new(n_items);
    for user in 0..n {
        builder
            .push(user, user % 4, 3.0 + (user % 3) as f32)
            .unwrap();
        builder.set_id(user, id_of(user));
    }
    Private::new(builder.build().0)
}

struct Place {
    folder: TempDir,
    plan: Plan,
}

impl Place {
    fn new() -> Self {
        let plan = ItemBiases.plan(N_ITEMS, TARGET, ADJACENCY).unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            plan,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ledger(&self) -> Ledger {
        let budget = Budget::new(TARGET, ADJACENCY).unwrap();
        Ledger::open_or_create(self.at("ledger"), "d", budget).unwrap()
    }

    fn begin(&self) -> Result<PacedLifetime> {
        let pace = Pace::new(0.4, HORIZON).unwrap();
        PacedLifetime::begin(self.ledger(), &self.plan, pace, self.at("first-seen"))
    }

    fn resume(&self) -> Result<PacedLifetime> {
        let ledger = self.ledger();
        let id = ledger.lifetimes().next().unwrap().to_owned();
        PacedLifetime::resume(ledger, id, self.at("first-seen"))
    }

    fn list(&self) -> ReleaseList {
        ReleaseList::open(self.at("list"), RUN, &self.plan).unwrap()
    }

    /// One night, as run by a nightly job.
    fn night(
        &self,
        lifetime: &mut PacedLifetime,
        number: u32,
        data: &Private<Interactions>,
    ) -> Result<(Fitted<Vec<f64>>, Norms)> {
        let noise = &mut NoiseSource::insecure_seeded(u64::from(number));
        let mut norms = Norms::of(data);
        let run = Run::nightly(&self.plan, lifetime, number, noise)?.listed_in(self.list());
        let fitted = ItemBiases.run(data, run.observed_by(&mut norms))?;
        Ok((fitted, norms))
    }
}

/// Exact squared norms of each user's contributions to the nights that were made.
struct Norms {
    users: Vec<(u128, dp_core::UserKey)>,
    data: Interactions,
    seen: Vec<Vec<u128>>,
    listed: Vec<ReleaseEntry>,
}

impl Norms {
    fn of(data: &Private<Interactions>) -> Self {
        let data = data.expose().clone();
        let users = (0..data.n_users()).map(|u| (data.user_id(u), data.user(u).key()));
        Self {
            users: users.collect(),
            data,
            seen: Vec::new(),
            listed: Vec::new(),
        }
    }
}

impl Observer for Norms {
    fn release(&mut self, seen: &Observed<'_>) {
        let ObservedSums::Vector { one_user, .. } = seen.sums else {
            panic!("nights are vectors")
        };
        let norm = |row| -> u128 {
            let entries: Vec<(usize, i64)> = one_user(row);
            entries
                .iter()
                .map(|&(_, z)| u128::from(z.unsigned_abs()).pow(2))
                .sum()
        };
        self.seen.push(self.data.users().map(norm).collect());
        assert_eq!(self.users.len(), self.data.n_users());
    }

    fn listed(&mut self, entry: &ReleaseEntry) {
        self.listed.push(entry.clone());
    }
}

fn refused_store<T>(outcome: Result<T>, word: &str) {
    match outcome.map(|_| ()) {
        Err(error @ Error::FirstSeen { .. }) => {
            assert!(error.to_string().contains(word), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

fn private_mode(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn a_trainer_goes_on_night_after_night_and_its_model_follows_from_the_list() {
    let place = Place::new();
    drop(place.begin().unwrap());
    let mut last = None;
    for (made, number) in [0, 1, 4, 6].into_iter().enumerate() {
        let mut lifetime = place.resume().unwrap();
        let data = users(10 + 5 * number, N_ITEMS);
        let (fitted, seen) = place.night(&mut lifetime, number, &data).unwrap();
        assert_eq!(fitted.n_releases, made + 1);
        assert_eq!((seen.seen.len(), seen.listed.len()), (1, made + 1));
        assert_eq!(fitted.certificate.releases.len(), 1);
        // repeating the same night makes nothing and arrives at the same model
        let (again, seen) = place.night(&mut lifetime, number, &data).unwrap();
        assert!(again.model == fitted.model && seen.seen.is_empty());
        assert_eq!(lifetime.state().unwrap().n_nights, made + 1);
        last = Some(fitted);
    }
    let last = last.unwrap();
    let list = ReleaseList::read(place.at("list"), RUN, &place.plan).unwrap();
    let nobody = users(0, N_ITEMS);
    let replayed = ItemBiases
        .run(&nobody, Run::replay(&place.plan, list).unwrap())
        .unwrap();
    let bits = |model: &[f64]| model.iter().map(|b| b.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&replayed.model), bits(&last.model));
    assert_eq!(replayed.releases_hash, last.releases_hash);
    assert!(last.model.iter().any(|b| b.abs() > 1e-3));
}

#[test]
fn users_are_held_to_the_bound_of_the_nights_since_they_came() {
    let place = Place::new();
    let mut lifetime = place.begin().unwrap();
    let grid = crate::Grid::new(place.plan.releases()[0].noise_multiplier().unwrap(), 1.0).unwrap();
    let by_age = Pace::new(0.4, HORIZON)
        .unwrap()
        .bounds(grid.l2_bound())
        .unwrap();
    // user 0 from night 2, users 1 and 2 from night 4; nights 3 and 5 are skipped; night 8 has no
    // users
    let mut spent = [0_u128; 3];
    for (number, present) in [(2, 1), (4, 3), (6, 3), (7, 2), (8, 0), (9, 3), (30, 3)] {
        let data = users(present, N_ITEMS);
        let (_, seen) = place.night(&mut lifetime, number, &data).unwrap();
        for (user, &norm) in seen.seen[0].iter().enumerate() {
            let age = number - if user == 0 { 2 } else { 4 };
            let bound = by_age.get(age as usize).copied().unwrap_or(0);
            let square = u128::from(bound).pow(2);
            assert!(norm <= square, "user {user}, night {number}");
            assert_eq!(norm == 0, bound == 0, "user {user}, night {number}");
            spent[user] += norm;
        }
    }
    assert!(
        spent
            .iter()
            .all(|&sum| sum <= u128::from(grid.l2_bound()).pow(2))
    );
}

#[test]
fn shards_in_one_process_make_the_same_night_and_other_machines_none() {
    let entries = |backend: &dyn SumBackend| -> Result<ReleaseEntry> {
        let place = Place::new();
        let mut lifetime = place.begin()?;
        let (data, noise) = (users(40, N_ITEMS), &mut NoiseSource::insecure_seeded(4));
        let mut norms = Norms::of(&data);
        let run = Run::nightly(&place.plan, &mut lifetime, 0, noise)?.summed_by(backend);
        ItemBiases.run(&data, run.observed_by(&mut norms))?;
        assert_eq!(lifetime.state()?.n_nights, 1);
        Ok(norms.listed.remove(0))
    };
    let one = entries(&crate::InProcess).unwrap();
    let three = entries(&Sharded::new(3).unwrap()).unwrap();
    assert_eq!(one.integers(), three.integers());
    let (pool, _links) = worker_channels(2);
    let refused = entries(&Coordinator::new(pool));
    assert!(matches!(refused, Err(Error::Nightly { what }) if what.contains("without workers")));
    // other runs do not make nights, and nightly runs do not make other releases
    let place = Place::new();
    let data = users(3, N_ITEMS);
    let mut lifetime = place.begin().unwrap();
    let noise = &mut NoiseSource::insecure_seeded(4);
    let mut run = Run::nightly(&place.plan, &mut lifetime, 0, noise).unwrap();
    let requests = ItemBiases.requests(N_ITEMS, ADJACENCY).unwrap();
    run.begin(&requests, 1).unwrap();
    assert!(matches!(run.count(&data), Err(Error::Nightly { .. })));
    drop(run);
    let mut payer = Ledger::in_memory("d", Budget::new(TARGET, ADJACENCY).unwrap()).unwrap();
    let run = Run::paying(&place.plan, &mut payer, noise).unwrap();
    assert!(matches!(
        ItemBiases.run(&data, run),
        Err(Error::Nightly { .. })
    ));
    // the plan must be the reserved one
    let requests = [ReleaseRequest::new("nights", 1.0, ReplaceFactor::Two, 7)];
    let other = Plan::calibrate(TARGET, ADJACENCY, &requests).unwrap();
    let refused = Run::nightly(&other, &mut lifetime, 0, noise);
    assert!(matches!(refused.map(|_| ()), Err(Error::Plan { .. })));
}

#[test]
fn a_crash_between_any_two_writes_of_a_night_is_gone_on_from() {
    let place = Place::new();
    let mut lifetime = place.begin().unwrap();
    place.night(&mut lifetime, 0, &users(5, N_ITEMS)).unwrap();
    let read = |name: &str| fs::read(place.at(name)).unwrap();
    let names = ["ledger", "first-seen", "list"];
    let before = names.map(read);
    place.night(&mut lifetime, 2, &users(9, N_ITEMS)).unwrap();
    drop(lifetime);
    let after = names.map(read);
    let put = |ledger: &[u8], store: &[u8], next: Option<&[u8]>, list: &[u8]| {
        for (name, bytes) in names.iter().zip([ledger, store, list]) {
            fs::write(place.at(name), bytes).unwrap();
        }
        let _ = fs::remove_file(place.at("first-seen.next"));
        if let Some(next) = next {
            fs::write(place.at("first-seen.next"), next).unwrap();
        }
    };
    let [old_ledger, old_store, old_list] = &before;
    let [new_ledger, new_store, new_list] = &after;
    let cut = &new_store[..new_store.len() / 2];
    // the store is written as a pending file, named by the ledger, and moved into place; then the
    // list is written
    for (ledger, store, next, list, last) in [
        (old_ledger, old_store, Some(cut), old_list, 0),
        (old_ledger, old_store, Some(&new_store[..]), old_list, 0),
        (new_ledger, old_store, Some(&new_store[..]), old_list, 2),
        (new_ledger, new_store, None, old_list, 2),
        (new_ledger, new_store, None, new_list, 2),
    ] {
        put(ledger, store, next, list);
        let mut lifetime = place.resume().unwrap();
        assert_eq!(lifetime.state().unwrap().last_night, Some(last));
        let is_lost = last == 2 && list == old_list;
        // tonight again: made if it was not handed out, lost if it was and is not listed, otherwise
        // replayed
        let again = place.night(&mut lifetime, 2, &users(9, N_ITEMS));
        match again {
            Ok(_) => assert!(!is_lost),
            Err(Error::Accounting(AccountingError::NightPassed { night: 2, last: 2 })) => {
                assert!(is_lost);
            }
            Err(other) => panic!("{other}"),
        }
        let (_, seen) = place.night(&mut lifetime, 3, &users(9, N_ITEMS)).unwrap();
        // user 0 was first seen on night 0 and user 8 on night 2, whatever crashed
        let norms = &seen.seen[0];
        assert!(norms[0] < norms[8], "{norms:?}");
    }
    // a write that reached the ledger while the pending store was lost is rejected
    put(new_ledger, old_store, None, old_list);
    refused_store(place.resume(), "ledger's last line");
}

#[test]
fn a_store_that_is_missing_older_or_changed_is_refused() {
    let place = Place::new();
    let mut lifetime = place.begin().unwrap();
    let path = place.at("first-seen");
    let mut states = vec![fs::read(&path).unwrap()];
    for number in [0, 1] {
        place
            .night(&mut lifetime, number, &users(5, N_ITEMS))
            .unwrap();
        states.push(fs::read(&path).unwrap());
    }
    drop(lifetime);
    for name in ["first-seen", "first-seen.key"] {
        private_mode(&place.at(name));
    }
    // two states differ even if no new user came
    assert_ne!(states[1], states[2]);
    let newest = states.pop().unwrap();
    let mut changed = newest.clone();
    *changed.last_mut().unwrap() ^= 1;
    for bad in [
        &states[0],
        &states[1],
        &changed,
        &Vec::new(),
        &newest[..newest.len() - 20].to_vec(),
    ] {
        fs::write(&path, bad).unwrap();
        refused_store(place.resume(), "ledger's last line");
        fs::write(&path, &newest).unwrap();
    }
    fs::remove_file(&path).unwrap();
    refused_store(place.resume(), "it is missing");
    fs::write(&path, &newest).unwrap();
    let key = fs::read(place.at("first-seen.key")).unwrap();
    fs::write(place.at("first-seen.key"), "zz").unwrap();
    refused_store(place.resume(), "damaged");
    fs::write(place.at("first-seen.key"), "00".repeat(32)).unwrap();
    refused_store(place.resume(), "ledger's last line");
    fs::remove_file(place.at("first-seen.key")).unwrap();
    refused_store(place.resume(), "key");
    fs::write(place.at("first-seen.key"), key).unwrap();
    assert!(place.resume().is_ok());
    // a store in use cannot begin a second lifetime
    refused_store(place.begin(), "resume that one");
    // it contains no id in the clear
    for id in (0..5).map(|user| id_of(user) | (1 << 127)) {
        for bytes in [id.to_le_bytes(), id.to_be_bytes()] {
            assert!(!newest.windows(8).any(|w| w == &bytes[4..12]));
        }
    }
}

#[test]
fn a_table_whose_users_have_numbers_only_is_refused() {
    let place = Place::new();
    let mut lifetime = place.begin().unwrap();
    let mut builder = InteractionsBuilder::new(N_ITEMS);
    builder.push(0, 1, 1.0).unwrap();
    builder.set_id(0, 7);
    builder.push(1, 1, 1.0).unwrap();
    let data = Private::new(builder.build().0);
    let refused = place.night(&mut lifetime, 0, &data).map(|_| ());
    assert!(matches!(refused, Err(Error::Nightly { what }) if what.contains("ids")));
    assert_eq!(lifetime.state().unwrap().n_nights, 0);
}

#[test]
fn a_lifetime_that_was_not_reserved_leaves_a_store_that_the_next_try_takes() {
    let place = Place::new();
    let path = place.at("first-seen");
    super::FirstSeen::create(&path).unwrap();
    fs::remove_file(&path).unwrap(); // only the key
    super::FirstSeen::create(&path).unwrap();
    let id = place.begin().unwrap().release_id().to_owned();
    // interrupted before the id was noted: the reservation is found by its store
    assert_eq!(place.begin().unwrap().release_id(), id);
    assert_eq!(place.ledger().lifetimes().count(), 1);
    let other = Pace::new(0.5, HORIZON).unwrap();
    let begun = PacedLifetime::begin(place.ledger(), &place.plan, other, &path);
    refused_store(begun, "resume that one");
    assert_eq!(place.ledger().lifetimes().count(), 1);
}

#[test]
fn whoever_is_erased_does_not_come_back_as_somebody_new() {
    let place = Place::new();
    let mut lifetime = place.begin().unwrap();
    place.night(&mut lifetime, 0, &users(3, N_ITEMS)).unwrap();
    let data = users(4, N_ITEMS);
    // one user who was there and one who never was
    lifetime
        .erase([data.expose().user_id(1), data.expose().user_id(3)])
        .unwrap();
    drop(lifetime);
    let mut lifetime = place.resume().unwrap();
    let (_, seen) = place.night(&mut lifetime, 1, &data).unwrap();
    let zero: Vec<bool> = seen.seen[0].iter().map(|&norm| norm == 0).collect();
    assert_eq!(zero, [false, true, false, true]);
}

#[test]
fn the_catalogue_may_grow_within_the_reserved_draws() {
    let place = Place::new();
    let mut lifetime = place.begin().unwrap();
    let data = users(12, N_ITEMS);
    let noise = &mut NoiseSource::insecure_seeded(1);
    let mut sizes = Vec::new();
    for (number, n) in [(0, 8), (1, 12), (2, 200)] {
        let mut run = Run::nightly(&place.plan, &mut lifetime, number, noise).unwrap();
        run.begin(&ItemBiases.requests(n, ADJACENCY).unwrap(), 1)
            .unwrap();
        let night = run
            .night(&data, (n, 1.0), &Residuals(&[0.0; N_ITEMS]))
            .unwrap();
        sizes.push(night.unwrap().sum.len());
        assert!(
            run.night(&data, (n, 1.0), &Residuals(&[0.0; N_ITEMS]))
                .unwrap()
                .is_none()
        );
    }
    assert_eq!(sizes, [8, 12, 200]);
    let mut run = Run::nightly(&place.plan, &mut lifetime, 3, noise).unwrap();
    run.begin(&ItemBiases.requests(21, ADJACENCY).unwrap(), 1)
        .unwrap();
    let refused = run.night(&data, (21, 1.0), &Residuals(&[0.0; N_ITEMS]));
    let expected = AccountingError::NightDraws {
        asked: 21,
        left: 20,
    };
    assert!(
        matches!(refused, Err(Error::Accounting(error)) if error.to_string() == expected.to_string())
    );
    assert_eq!(lifetime.state().unwrap().n_nights, 3);
}

#[test]
fn a_list_with_nights_that_the_ledger_forgot_is_refused() {
    let place = Place::new();
    let mut lifetime = place.begin().unwrap();
    let (old_ledger, old_store) = (place.at("ledger"), place.at("first-seen"));
    let copies = [&old_ledger, &old_store].map(|path| fs::read(path).unwrap());
    place.night(&mut lifetime, 0, &users(3, N_ITEMS)).unwrap();
    drop(lifetime);
    // ledger and store rolled back together, which no MAC reveals
    for (path, bytes) in [&old_ledger, &old_store].into_iter().zip(&copies) {
        fs::write(path, bytes).unwrap();
    }
    let mut lifetime = place.resume().unwrap();
    let refused = place.night(&mut lifetime, 1, &users(3, N_ITEMS));
    assert!(matches!(refused, Err(Error::UnpaidNight { night: 0 })));
}

/// Norms of one night's users.
fn norms(place: &Place, lifetime: &mut PacedLifetime, number: u32, n: u32) -> Vec<u128> {
    let (_, mut seen) = place.night(lifetime, number, &users(n, N_ITEMS)).unwrap();
    seen.seen.remove(0)
}

fn square_of(place: &Place, age: usize) -> u128 {
    let multiplier = place.plan.releases()[0].noise_multiplier().unwrap();
    let lifetime = crate::Grid::new(multiplier, 1.0).unwrap().l2_bound();
    let by_age = Pace::new(0.4, HORIZON).unwrap().bounds(lifetime).unwrap();
    u128::from(by_age[age]).pow(2)
}

#[test]
#[cfg(unix)]
fn a_night_that_another_program_made_meanwhile_is_seen() {
    let place = Place::new();
    let mut lifetime = place.begin().unwrap();
    place.night(&mut lifetime, 0, &users(1, N_ITEMS)).unwrap();
    // a synchronising program replaces the ledger by a copy, which another run may lock
    let (ledger, copy) = (place.at("ledger"), place.at("copy"));
    fs::copy(&ledger, &copy).unwrap();
    fs::rename(&copy, &ledger).unwrap();
    let mut other = place.resume().unwrap();
    assert!(norms(&place, &mut other, 1, 3)[2] > 0);
    drop(other);
    // this store does not contain users 1 and 2, who have spent their whole lifetime budget
    let noise = &mut NoiseSource::insecure_seeded(2);
    let run = Run::nightly(&place.plan, &mut lifetime, 2, noise).unwrap();
    let again = ItemBiases.run(&users(3, N_ITEMS), run).map(|_| ());
    assert!(matches!(
        again,
        Err(Error::Accounting(AccountingError::FirstSeenChanged))
    ));
    drop(lifetime);
    let mut lifetime = place.resume().unwrap();
    let found = norms(&place, &mut lifetime, 2, 3);
    assert!(found[0] <= square_of(&place, 2) && found[2] <= square_of(&place, 1));
}

#[test]
fn users_who_share_an_id_add_nothing() {
    let place = Place::new();
    let mut lifetime = place.begin().unwrap();
    let mut builder = InteractionsBuilder::new(N_ITEMS);
    for (row, user) in [(0, 0), (1, 7), (2, 7), (3, 9)] {
        builder.push(row, 1, 4.0).unwrap();
        builder.set_id(row, id_of(user));
    }
    let data = Private::new(builder.build().0);
    let (_, seen) = place.night(&mut lifetime, 0, &data).unwrap();
    let spoke: Vec<bool> = seen.seen[0].iter().map(|&norm| norm > 0).collect();
    assert_eq!(spoke, [true, false, false, true]);
}

#[test]
fn users_of_whom_none_was_there_before_are_told_apart_and_have_their_night() {
    let place = Place::new();
    let mut lifetime = place.begin().unwrap();
    place.night(&mut lifetime, 0, &users(3, N_ITEMS)).unwrap();
    let of = |ids: &[u32]| {
        let mut builder = InteractionsBuilder::new(N_ITEMS);
        for (row, &user) in (0..).zip(ids) {
            builder.push(row, 1, 4.0).unwrap();
            builder.set_id(row, id_of(user));
        }
        Private::new(builder.build().0)
    };
    let strangers = |lifetime: &PacedLifetime, ids: &[u32]| {
        lifetime.knows_nobody_of(ids.iter().map(|&user| id_of(user)))
    };
    assert!(strangers(&lifetime, &[10, 11]));
    // one known user is enough, however many are new; and an empty table has no strangers
    assert!(!strangers(&lifetime, &[2, 10, 11, 12, 13]));
    assert!(!strangers(&lifetime, &[]));
    // whether a night is made does not depend on this: with user 2 among them or without
    place.night(&mut lifetime, 1, &of(&[10, 11])).unwrap();
    // who was erased is no stranger
    lifetime.erase([id_of(2)]).unwrap();
    assert!(!strangers(&lifetime, &[2, 12]));
    assert!(strangers(&lifetime, &[12]));
}

#[test]
fn after_a_restore_nobody_spends_more_than_one_lifetime() {
    let place = Place::new();
    let mut lifetime = place.begin().unwrap();
    place.night(&mut lifetime, 0, &users(1, N_ITEMS)).unwrap();
    let names = ["ledger", "first-seen", "list"];
    let copies = names.map(|name| fs::read(place.at(name)).unwrap());
    let mut spent = [0_u128; 4];
    let mut add = |found: Vec<u128>| {
        for (sum, norm) in spent.iter_mut().zip(found) {
            *sum += norm;
        }
    };
    // users 1 and 2 come on nights that the backup lacks, user 3 afterwards
    add(norms(&place, &mut lifetime, 1, 2));
    add(norms(&place, &mut lifetime, 2, 3));
    drop(lifetime);
    for (name, bytes) in names.iter().zip(&copies) {
        fs::write(place.at(name), bytes).unwrap();
    }
    let mut lifetime = place.resume().unwrap().restored();
    let found = norms(&place, &mut lifetime, 3, 4);
    // as if first seen on night 1
    assert!(
        found[1..]
            .iter()
            .all(|&z| 0 < z && z <= square_of(&place, 2))
    );
    add(found);
    drop(lifetime);
    for number in 4..12 {
        add(norms(&place, &mut place.resume().unwrap(), number, 4));
    }
    let whole: u128 = (0..HORIZON as usize)
        .map(|age| square_of(&place, age))
        .sum();
    assert!(spent.iter().all(|&sum| sum <= whole), "{spent:?} {whole}");
}
