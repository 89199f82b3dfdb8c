//! Nights of a paced lifetime: what is learned, and that the model follows from the list of nights
//! however it is reached.

use std::path::Path;

use dp_accounting::{Ledger, Pace};
use dp_mechanism::{Error as RunError, PacedLifetime};
#[allow(
    clippy::disallowed_types,
    reason = "nights with noise that is the same again"
)]
use dp_multitask::NoiseSource;
use dp_multitask::{
    Adjacency, ApproxDp, Budget, Fitted, Interactions, InteractionsBuilder, NightState,
    NightlyFactorization, NightlyModel, NightlyParams, Observed, ObservedSums, Observer, Plan,
    Private, ReleaseList, Run, Trainer,
};

const N_USERS: u32 = 3000;
const N_ITEMS: u32 = 60;
const NIGHTS: u32 = 12;
const MOST_ITEMS: usize = 80;

/// True rating of item `i` by user `u`: biases from -1 to 1, and a taste factor that separates two
/// halves of the users.
fn opinion(user: u32, item: u32) -> f64 {
    let bias = f64::from(item % 11) / 5.0 - 1.0;
    let taste = if (user + item).is_multiple_of(2) {
        0.8
    } else {
        -0.8
    };
    bias + taste
}

/// Users who have arrived by `night`, with twenty items each and some noise.
fn users(night: u32, n_items: u32) -> Private<Interactions> {
    users_of(night, n_items, n_items)
}

/// The same restricted to the first items of a larger catalogue.
fn users_of(night: u32, n_items: u32, n_all: u32) -> Private<Interactions> {
    let mut builder = InteractionsBuilder::new(n_all as usize);
    let arrived = (0..N_USERS).filter(|user| user % NIGHTS <= night);
    for (row, user) in (0..).zip(arrived) {
        for k in 0..20 {
            let item = (user * 7 + k * 13 + k * user % 7) % n_items;
            let luck = f64::from((user * 31 + item * 17) % 101) / 100.0 - 0.5;
            let rating = 3.0 + opinion(user, item) + luck;
            #[allow(clippy::cast_possible_truncation, reason = "ratings from 1 to 5")]
            builder.push(row, item, rating as f32).unwrap();
        }
        builder.set_id(row, 1 << 127 | u128::from(user));
    }
    Private::new(builder.build().0)
}

fn nights(n_tastes: usize) -> NightlyFactorization {
    let params = NightlyParams {
        n_tastes,
        most_nights: 100,
        ..NightlyParams::for_ratings(1.0, 5.0, MOST_ITEMS)
    };
    params.check().unwrap()
}

/// The trainer that goes on from the state of the night before, if there was one.
fn continued(fit: &NightlyFactorization, kept: &mut Option<NightState>) -> NightlyFactorization {
    let fit = fit.clone();
    match kept.take() {
        Some(kept) => fit.continuing(kept),
        None => fit,
    }
}

/// The same with columns that identify the items with equal bias, and the half of them that a user
/// likes.
fn described(n_tastes: usize) -> NightlyFactorization {
    let rows = (0..MOST_ITEMS).flat_map(|item| {
        let groups = (0..11).map(move |group| f64::from(u8::from(item % 11 == group)));
        groups.chain([(item % 2) as f64])
    });
    nights(n_tastes).with_columns(rows.collect(), 12).unwrap()
}

fn plan_of(fit: &NightlyFactorization) -> Plan {
    let target = ApproxDp::target(8.0, 1e-6).unwrap();
    let adjacency = Adjacency::AddRemoveUser;
    fit.plan(N_ITEMS as usize, target, adjacency).unwrap()
}

fn begin(folder: &Path, plan: &Plan) {
    let budget = Budget::new(plan.target(), plan.adjacency()).unwrap();
    let ledger = Ledger::create(folder.join("ledger"), "d", budget).unwrap();
    let pace = Pace::new(0.4, NIGHTS).unwrap();
    drop(PacedLifetime::begin(ledger, plan, pace, folder.join("first-seen")).unwrap());
}

fn night(
    folder: &Path,
    fit: &NightlyFactorization,
    number: u32,
    data: &Private<Interactions>,
) -> dp_multitask::Result<Fitted<NightlyModel>> {
    seeded_night(folder, fit, (number, u64::from(number)), data)
}

fn seeded_night(
    folder: &Path,
    fit: &NightlyFactorization,
    (number, seed): (u32, u64),
    data: &Private<Interactions>,
) -> dp_multitask::Result<Fitted<NightlyModel>> {
    let plan = plan_of(fit);
    let adjacency = Adjacency::AddRemoveUser;
    let ledger = Ledger::open(folder.join("ledger"), "d", adjacency).unwrap();
    let id = ledger.lifetimes().next().unwrap().to_owned();
    let mut lifetime = PacedLifetime::resume(ledger, id, folder.join("first-seen"))?;
    let list = ReleaseList::open(folder.join("nights.list"), "test", &plan)?;
    let noise = &mut NoiseSource::insecure_seeded(seed);
    let run = Run::nightly(&plan, &mut lifetime, number, noise)?;
    fit.run(data, run.listed_in(list))
}

/// Root mean square difference between predicted and true ratings, over all users and items of the
/// first hundred.
fn error(model: &dp_multitask::FactorModel, data: &Private<Interactions>) -> f64 {
    let table = data.expose();
    let (mut sum, mut n) = (0.0, 0.0);
    for row in 0..100 {
        let user = u32::try_from(table.user_id(row) & 0xffff).unwrap();
        let own = model.fold_in(table.user(row)).unwrap();
        for item in 0..N_ITEMS {
            let error = model.predict(&own, item as usize) - 3.0 - opinion(user, item);
            sum += error * error;
            n += 1.0;
        }
    }
    (sum / n).sqrt()
}

#[test]
fn nights_learn_biases_and_then_tastes() {
    let error_with = |n_tastes| {
        let folder = tempfile::tempdir().unwrap();
        let fit = nights(n_tastes);
        begin(folder.path(), &plan_of(&fit));
        let mut kept: Option<NightState> = None;
        let mut errors = Vec::new();
        for number in 0..NIGHTS {
            let data = users(number, N_ITEMS);
            let fit = continued(&fit, &mut kept);
            let made = night(folder.path(), &fit, number, &data).unwrap().model;
            errors.push(error(&made.model, &data));
            kept = Some(made.state);
        }
        let kept = kept.unwrap();
        assert_eq!(kept.n_nights(), NIGHTS as usize);
        assert_eq!(kept.n_tastes(), n_tastes);
        assert!(kept.moved().unwrap() < 0.3);
        errors
    };
    // true ratings have a root mean square of 1.02, taste factors alone one of .8; noise is seeded,
    // so the results are deterministic
    let biases = error_with(0);
    let last = biases.last().unwrap();
    assert!((0.78..0.9).contains(last), "{biases:?}");
    let tastes = error_with(3);
    assert!(*tastes.last().unwrap() < 0.6, "{tastes:?}");
}

/// Variance of a coordinate of the items over lifetimes with other noise, in units of the squared
/// standard errors, mean over the items. The sign and the length of a column are those of the first
/// lifetime: they are arbitrary for taste factors.
fn scatter(models: &[dp_multitask::FactorModel], at: usize) -> f64 {
    let column =
        |of: &[f64], dim: usize| -> Vec<f64> { of.iter().skip(at).step_by(dim).copied().collect() };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let first = column(models[0].item_factors(), models[0].dim());
    let columns: Vec<(Vec<f64>, Vec<f64>)> = models
        .iter()
        .map(|model| {
            let found = column(model.item_factors(), model.dim());
            let errors = column(model.standard_errors().unwrap(), model.dim());
            let scale = if at == 0 {
                1.0
            } else {
                dot(&found, &first) / dot(&found, &found)
            };
            let times = |of: Vec<f64>| of.into_iter().map(|x| scale * x).collect();
            (times(found), times(errors))
        })
        .collect();
    let (n, n_items) = (models.len() as f64, first.len());
    let of_item = |item: usize| {
        let mean = columns.iter().map(|of| of.0[item]).sum::<f64>() / n;
        let squares: f64 = columns.iter().map(|of| (of.0[item] - mean).powi(2)).sum();
        let expected: f64 = columns.iter().map(|of| of.1[item].powi(2)).sum();
        squares / (n - 1.0) / (expected / n)
    };
    (0..n_items).map(of_item).sum::<f64>() / n_items as f64
}

/// The last models of six lifetimes with other noise.
fn lifetimes(
    fit: &NightlyFactorization,
    data: impl Fn(u32) -> Private<Interactions>,
) -> Vec<dp_multitask::FactorModel> {
    let made = (0..6).map(|seed| {
        let folder = tempfile::tempdir().unwrap();
        begin(folder.path(), &plan_of(fit));
        let mut kept: Option<NightState> = None;
        let mut last = None;
        for number in 0..NIGHTS {
            let fit = continued(fit, &mut kept);
            let night = (number, u64::from(NIGHTS * seed + number));
            let made = seeded_night(folder.path(), &fit, night, &data(number))
                .unwrap()
                .model;
            last = Some(made.model);
            kept = Some(made.state);
        }
        last.unwrap()
    });
    made.collect()
}

/// Six lifetimes of 60 items; noise is seeded, so the results are deterministic. Standard errors
/// half as large would give four times the scatter.
#[test]
fn standard_errors_of_nights_are_at_least_the_scatter_over_lifetimes() {
    let models = |n_tastes| lifetimes(&nights(n_tastes), |number| users(number, N_ITEMS));
    let (biases, tastes) = (models(0), models(1));
    // errors are upper estimates: more of a residual passes its bound here than the estimate assumes
    let found = [
        scatter(&biases, 0),
        scatter(&tastes, 0),
        scatter(&tastes, 1),
    ];
    assert!((0.5..1.0).contains(&found[0]), "{found:?}");
    assert!(
        found[1..].iter().all(|of| (0.25..1.0).contains(of)),
        "{found:?}"
    );
}

/// Users who like 10 items each: those with even numbers like even items, the others odd ones.
fn likes(users: std::ops::Range<u32>) -> Private<Interactions> {
    let mut builder = InteractionsBuilder::new(N_ITEMS as usize);
    for user in users {
        for k in 0..10 {
            let item = 2 * ((user * 7 + k * 11) % (N_ITEMS / 2)) + user % 2;
            builder.push(user, item, 1.0).unwrap();
        }
        builder.set_id(user, 1 << 127 | u128::from(user));
    }
    Private::new(builder.build().0)
}

/// Six lifetimes of 60 items, the noise of which is seeded, so that the results are deterministic.
/// The mean of 60 sums of five squares has a relative standard deviation of .08.
#[test]
fn standard_errors_of_nights_of_likes_are_those_of_the_scatter_over_lifetimes() {
    let models = |n_tastes| {
        let params = NightlyParams {
            n_tastes,
            most_nights: 100,
            least_signal: 0.0,
            ..NightlyParams::for_likes(MOST_ITEMS)
        };
        let fit = params.check().unwrap();
        lifetimes(&fit, |number| likes(0..400 * (number + 1)))
    };
    let (popularity, tastes) = (models(0), models(1));
    let found = [
        scatter(&popularity, 0),
        scatter(&tastes, 0),
        scatter(&tastes, 1),
    ];
    assert!(found.iter().all(|of| (0.7..1.3).contains(of)), "{found:?}");
}

#[test]
fn columns_tell_of_items_that_nobody_has_rated() {
    let errors = |fit: NightlyFactorization| {
        let folder = tempfile::tempdir().unwrap();
        begin(folder.path(), &plan_of(&fit));
        let mut last = None;
        for number in 0..NIGHTS {
            let data = users_of(number, N_ITEMS, N_ITEMS + 20);
            let made = night(folder.path(), &fit, number, &data).unwrap();
            last = Some((made.model, data));
        }
        let (made, data) = last.unwrap();
        let table = data.expose();
        let mut squares = 0.0;
        for row in 0..100 {
            let user = u32::try_from(table.user_id(row) & 0xffff).unwrap();
            let own = made.model.fold_in(table.user(row)).unwrap();
            for item in N_ITEMS..N_ITEMS + 20 {
                let found = made.model.predict(&own, item as usize);
                squares += (found - 3.0 - opinion(user, item)).powi(2);
            }
        }
        (squares / 2000.0_f64).sqrt()
    };
    // true ratings have a root mean square of 1.02, and of .8 if all biases are known; noise is
    // seeded. Without columns only the trend is known
    let of = [
        errors(nights(0)),
        errors(described(0)),
        errors(nights(3)),
        errors(described(3)),
    ];
    assert!(of[0] > 1.02 && of[1] < 0.92, "{of:?}");
    assert!(of[2] > 1.02 && of[3] < 0.84, "{of:?}");
}

#[test]
fn columns_have_to_be_there_for_all_items_and_not_with_likes() {
    let (folder, fit) = (tempfile::tempdir().unwrap(), nights(0));
    let fit = fit.with_columns(vec![1.0; 59], 1).unwrap();
    begin(folder.path(), &plan_of(&fit));
    let refused = night(folder.path(), &fit, 0, &users(0, N_ITEMS)).unwrap_err();
    assert!(refused.to_string().contains("n_items"), "{refused}");
    let likes = NightlyParams::for_likes(MOST_ITEMS).check().unwrap();
    assert!(likes.with_columns(vec![1.0; MOST_ITEMS], 1).is_err());
    assert!(nights(0).with_columns(vec![f64::NAN; 60], 1).is_err());
}

#[test]
fn the_model_follows_from_the_list_of_nights_however_it_is_come_to() {
    follows_from_its_list(nights(2));
    follows_from_its_list(described(2));
}

fn follows_from_its_list(fit: NightlyFactorization) {
    let folder = tempfile::tempdir().unwrap();
    let (folder, plan) = (folder.path(), plan_of(&fit));
    begin(folder, &plan);
    let mut kept = None;
    let mut last = None;
    // two nights were missed, and the catalogue grew on the last ones
    for (number, n_items) in [(0, N_ITEMS), (1, N_ITEMS), (4, N_ITEMS), (5, 70), (6, 70)] {
        let data = users(number, n_items);
        let again = match kept.clone() {
            Some(kept) => fit.clone().continuing(kept),
            None => fit.clone(),
        };
        let made = night(folder, &again, number, &data).unwrap();
        assert_eq!(made.model.model.n_items(), n_items as usize);
        kept = Some(made.model.state.clone());
        last = Some(made);
    }
    let last = last.unwrap();
    assert_eq!(last.model.state.last_night(), 6);
    let data = users(6, 70);
    // again on the same night, with and without the stored state, with the state of another list,
    // and without users
    let other = NightState::default();
    for fit in [
        fit.clone(),
        fit.clone().continuing(last.model.state.clone()),
        fit.clone().continuing(other),
    ] {
        let again = night(folder, &fit, 6, &data).unwrap();
        assert_eq!(again.model, last.model);
        assert_eq!(again.certificate, last.certificate);
    }
    let list = ReleaseList::read(folder.join("nights.list"), "test", &plan).unwrap();
    let nobody = Private::new(InteractionsBuilder::new(70).build().0);
    let replayed = fit.run(&nobody, Run::replay(&plan, list).unwrap()).unwrap();
    assert_eq!(
        replayed.model.model.item_factors(),
        last.model.model.item_factors()
    );
    // nothing was paid twice
    let adjacency = Adjacency::AddRemoveUser;
    let ledger = Ledger::open(folder.join("ledger"), "d", adjacency).unwrap();
    let id = ledger.lifetimes().next().unwrap().to_owned();
    assert_eq!(ledger.lifetime(&id).unwrap().n_nights, 5);
}

#[test]
fn a_night_that_cannot_be_is_refused_before_it_is_paid() {
    let (folder, fit) = (tempfile::tempdir().unwrap(), nights(2));
    let (folder, plan) = (folder.path(), plan_of(&fit));
    begin(folder, &plan);
    night(folder, &fit, 3, &users(3, N_ITEMS)).unwrap();
    // missing items, more items than the lifetime supports, a night that has passed
    for (number, n_items) in [(4, 50), (4, 81)] {
        let refused = night(folder, &fit, number, &users(3, n_items));
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("n_items"), "{error}");
    }
    // a list with no night at all has no model
    let empty = ReleaseList::hashes_only("test", &plan).unwrap();
    let nobody = Private::new(InteractionsBuilder::new(60).build().0);
    let replayed = fit.run(&nobody, Run::replay(&plan, empty).unwrap());
    assert!(matches!(
        replayed,
        Err(dp_multitask::Error::Mechanism(RunError::EndOfList))
    ));
    let adjacency = Adjacency::AddRemoveUser;
    let ledger = Ledger::open(folder.join("ledger"), "d", adjacency).unwrap();
    let id = ledger.lifetimes().next().unwrap().to_owned();
    assert_eq!(ledger.lifetime(&id).unwrap().n_nights, 1);
}

#[test]
fn other_columns_than_those_of_earlier_nights_are_refused_before_a_night_is_paid() {
    let folder = tempfile::tempdir().unwrap();
    let columns = |n_items: usize, first: f64| {
        let rows = (0..n_items).map(|item| if item == 0 { first } else { (item % 3) as f64 });
        nights(0).with_columns(rows.collect(), 1).unwrap()
    };
    let fit = columns(60, 0.0);
    begin(folder.path(), &plan_of(&fit));
    let made = night(folder.path(), &fit, 0, &users(0, N_ITEMS)).unwrap();
    let kept = made.model.state;
    for other in [columns(60, 1.0), columns(70, 1.0), nights(0)] {
        let refused = night(
            folder.path(),
            &other.continuing(kept.clone()),
            1,
            &users(1, N_ITEMS),
        );
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("first 60 items"), "{error}");
    }
    let ledger = Ledger::open(folder.path().join("ledger"), "d", Adjacency::AddRemoveUser).unwrap();
    let id = ledger.lifetimes().next().unwrap().to_owned();
    assert_eq!(ledger.lifetime(&id).unwrap().n_nights, 1);
    drop(ledger);
    // rows for further items are allowed
    let more = columns(70, 0.0).continuing(kept);
    night(folder.path(), &more, 1, &users(1, 70)).unwrap();
}

/// Squared norms of users' contributions to a night, as integers.
struct Norms<'a>(&'a Private<Interactions>, Vec<u128>);

impl Observer for Norms<'_> {
    fn reads_users(&self) -> bool {
        true
    }

    fn release(&mut self, seen: &Observed<'_>) {
        let ObservedSums::Vector { one_user, .. } = seen.sums else {
            panic!("a night is a vector");
        };
        let squares = self.0.expose().users().map(|row| {
            let added = one_user(row).into_iter();
            added
                .map(|(_, z)| u128::from(z.unsigned_abs()).pow(2))
                .sum()
        });
        self.1 = squares.collect();
    }
}

#[test]
fn users_add_nearly_all_that_they_may_and_never_more() {
    // likes have taste factors from the second night on
    let likes = |n_tastes| NightlyParams {
        n_tastes,
        least_signal: 0.0,
        ..NightlyParams::for_likes(MOST_ITEMS)
    };
    for (fit, made) in [
        (nights(0), 0),
        (likes(0).check().unwrap(), 0),
        (likes(3).check().unwrap(), 1),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (folder, plan) = (folder.path(), plan_of(&fit));
        begin(folder, &plan);
        let ledger = Ledger::open(folder.join("ledger"), "d", Adjacency::AddRemoveUser).unwrap();
        let id = ledger.lifetimes().next().unwrap().to_owned();
        let mut lifetime = PacedLifetime::resume(ledger, id, folder.join("first-seen")).unwrap();
        let data = users(0, N_ITEMS);
        let mut norms = Norms(&data, Vec::new());
        let noise = &mut NoiseSource::insecure_seeded(1);
        for number in 0..=made {
            let list = ReleaseList::open(folder.join("nights.list"), "test", &plan).unwrap();
            let run = Run::nightly(&plan, &mut lifetime, number, noise).unwrap();
            let run = run.listed_in(list).observed_by(&mut norms);
            let made = fit.run(&data, run).unwrap().model;
            assert_eq!(made.state.n_nights(), number as usize + 1);
        }
        let norms = norms.1;
        let grid = dp_mechanism::Grid::new(plan.releases()[0].noise_multiplier().unwrap(), 1.0);
        let bounds = Pace::new(0.4, NIGHTS)
            .unwrap()
            .bounds(grid.unwrap().l2_bound())
            .unwrap();
        let most = u128::from(bounds[made as usize]).pow(2);
        assert_eq!(norms.len(), (N_USERS / NIGHTS) as usize);
        assert!(norms.iter().all(|&z| z <= most));
        // residuals of ratings are bounded at .7: nearly all users reach the bound
        let full = norms.iter().filter(|&&z| z > most / 10 * 9).count();
        let of = |z: u128| (z as f64 / most as f64).sqrt();
        let shown: Vec<f64> = norms.iter().take(5).map(|&z| of(z)).collect();
        assert!(full > norms.len() * 9 / 10, "{full}: {shown:?}");
    }
}

#[test]
fn popular_items_come_first_where_records_are_likes() {
    let (folder, fit) = (
        tempfile::tempdir().unwrap(),
        NightlyParams::for_likes(MOST_ITEMS).check().unwrap(),
    );
    begin(folder.path(), &plan_of(&fit));
    let mut last = None;
    for number in 0..3 {
        let mut builder = InteractionsBuilder::new(N_ITEMS as usize);
        for user in 0..1000 * (number + 1) {
            for item in 0..N_ITEMS {
                // item i is liked by one user in i + 2
                if (user * 13 + item * 7) % (item + 2) == 0 {
                    builder.push(user, item, 1.0).unwrap();
                }
            }
            builder.set_id(user, 1 << 127 | u128::from(user));
        }
        let data = Private::new(builder.build().0);
        last = Some(night(folder.path(), &fit, number, &data).unwrap().model);
    }
    let last = last.unwrap();
    let nobody = {
        let mut builder = InteractionsBuilder::new(N_ITEMS as usize);
        builder.ensure_users(1);
        builder.build().0
    };
    let own = last.model.fold_in(nobody.user(0)).unwrap();
    let best = last.model.recommend(&own, 5, &[]).unwrap();
    let best: Vec<u32> = best.into_iter().map(|(item, _)| item).collect();
    assert_eq!(best, [0, 1, 2, 3, 4]);
}

/// Nights on which item biases slowly reverse, or stay constant.
fn of_drift(is_drifting: bool, forgets: bool) -> (f64, NightlyModel) {
    let params = NightlyParams {
        n_tastes: 0,
        most_nights: 100,
        forgets,
        ..NightlyParams::for_ratings(1.0, 5.0, MOST_ITEMS)
    };
    let (folder, fit) = (tempfile::tempdir().unwrap(), params.check().unwrap());
    begin(folder.path(), &plan_of(&fit));
    const LAST: u32 = 30;
    let bias = |item: u32, night: u32| {
        let turned = if is_drifting {
            0.25 * f64::from(night)
        } else {
            0.0
        };
        (f64::from(item) + turned).sin()
    };
    let mut kept: Option<NightState> = None;
    let mut last = None;
    for number in 0..LAST {
        let mut builder = InteractionsBuilder::new(N_ITEMS as usize);
        // a hundred users arrive on every night with records of that night, and are gone after
        // three nights
        for user in 100 * number..100 * (number + 3) {
            for k in 0..20 {
                let item = (user * 7 + k * 13) % N_ITEMS;
                let luck = f64::from((user * 31 + item * 17) % 101) / 100.0 - 0.5;
                let rating = 3.0 + bias(item, number) + luck;
                #[allow(clippy::cast_possible_truncation, reason = "ratings from 1 to 5")]
                builder.push(user, item, rating as f32).unwrap();
            }
            builder.set_id(user, 1 << 127 | u128::from(user));
        }
        let data = Private::new(builder.build().0);
        let fit = continued(&fit, &mut kept);
        let made = night(folder.path(), &fit, number, &data).unwrap().model;
        kept = Some(made.state.clone());
        last = Some(made);
    }
    let last = last.unwrap();
    let rows = last.model.item_factors().iter().copied();
    let rows: Vec<f64> = rows.step_by(last.model.dim()).collect();
    let truth: Vec<f64> = (0..N_ITEMS).map(|item| bias(item, LAST - 1)).collect();
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (a, b) = (mean(&rows), mean(&truth));
    let squares = rows
        .iter()
        .zip(&truth)
        .map(|(h, x)| (h - a - x + b).powi(2));
    ((squares.sum::<f64>() / f64::from(N_ITEMS)).sqrt(), last)
}

#[test]
fn nights_of_the_past_are_forgotten_where_items_drift_and_kept_where_they_stay() {
    let (drifted, model) = of_drift(true, true);
    let (kept, _) = of_drift(true, false);
    let factor = model.state.forgets_by();
    assert!(factor < 1.0, "{factor}");
    assert!(drifted < 0.8 * kept, "{drifted} {kept}");
    // the cost is very small if there is nothing to forget
    let (with, _) = of_drift(false, true);
    let (without, _) = of_drift(false, false);
    assert!(with < without + 0.02, "{with} {without}");
}

#[test]
fn likes_have_tastes_once_they_are_clear() {
    let params = NightlyParams {
        n_tastes: 4,
        most_nights: 100,
        ..NightlyParams::for_likes(MOST_ITEMS)
    };
    let (folder, fit) = (tempfile::tempdir().unwrap(), params.check().unwrap());
    begin(folder.path(), &plan_of(&fit));
    let mut kept: Option<NightState> = None;
    let mut last = None;
    for number in 0..NIGHTS {
        let fit = continued(&fit, &mut kept);
        let data = likes(0..400 * (number + 1));
        let made = night(folder.path(), &fit, number, &data).unwrap().model;
        kept = Some(made.state.clone());
        last = Some(made);
    }
    let last = last.unwrap();
    assert_eq!(last.state.n_tastes(), 4);
    let (mut right, mut n) = (0, 0);
    let some = likes(10_000..10_100);
    for user in some.expose().users() {
        let own = last.model.fold_in(user).unwrap();
        for (item, _) in last.model.recommend(&own, 5, user.items()).unwrap() {
            right += usize::from(item % 2 == user.items()[0] % 2);
            n += 1;
        }
    }
    // popularity alone is correct for half of them
    assert!(n == 500 && right > 450, "{right} of {n}");
    // the model follows from the list
    let list =
        ReleaseList::read(folder.path().join("nights.list"), "test", &plan_of(&fit)).unwrap();
    let nobody = Private::new(InteractionsBuilder::new(N_ITEMS as usize).build().0);
    let replayed = fit.run(&nobody, Run::replay(&plan_of(&fit), list).unwrap());
    let replayed = replayed.unwrap().model;
    assert_eq!(replayed.model.item_factors(), last.model.item_factors());
}
