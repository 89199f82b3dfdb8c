//! Warnings for the operator: about settings for everyone, about records for internal files only.

use std::collections::HashMap;

use dp_accounting::gdp;
use dp_core::ApproxDp;
use dp_data::{ItemTable, Ratings, SampleTable};
use dp_multitask::NoisyCounts;

use crate::output::rounded_up;

/// Text of internal files when users, or their own parameters, are not in the process that wrote
/// them.
pub(crate) const USERS_ELSEWHERE: &str = "users are at the workers of this run, so nothing is measured on them here; `release_metrics` measures \
     held-out records at the workers, within the budget";
/// The same for users on devices.
pub(crate) const USERS_ON_DEVICES: &str =
    "users are on devices, so nothing is measured on them here";

/// A larger delta should not be accepted.
const LARGE_DELTA: f64 = 1e-3;
/// Noise on a count of users from which on a warning says so, in users: its standard deviation if
/// the whole budget is spent on that count.
const LARGE_NOISE: f64 = 100.0;
/// The same for a declared number of users, as a share of them.
const LARGE_NOISE_SHARE: f64 = 0.1;
/// A larger epsilon promises hardly any privacy.
const LARGE_EPSILON: f64 = 20.0;

/// Warnings that follow from the target and the declared number of users alone: public.
pub(crate) fn of_settings(target: ApproxDp, n_users: Option<f64>) -> Vec<String> {
    let ApproxDp { epsilon, delta } = target;
    let mut all = Vec::new();
    if delta > LARGE_DELTA {
        all.push(format!(
            "delta {delta:e} is above 1e-3: with that probability the run may reveal anything about a user; choose it well below one \
             over the number of users"
        ));
    }
    if let Some(n_users) = n_users.filter(|n_users| delta * n_users > 1.0) {
        all.push(format!(
            "delta {delta:e} is above one over the declared number of users, {n_users}: a mechanism that publishes the data of {} of them would still meet it; \
             choose it well below one over that number",
            (delta * n_users).floor()
        ));
    }
    if epsilon > LARGE_EPSILON {
        all.push(format!(
            "epsilon {epsilon} is above 20: the guarantee allows a conclusion about a user to be {} times as likely, which \
             is hardly any protection",
            rounded_up(epsilon.exp())
        ));
    }
    let noise = gdp::mu_for(target).map(f64::recip).ok();
    let least = n_users.map_or(LARGE_NOISE, |n| LARGE_NOISE_SHARE * n);
    if let Some(noise) = noise.filter(|noise| *noise > least) {
        let users = n_users.map_or_else(String::new, |n| format!(" of {n}"));
        all.push(format!(
            "epsilon {epsilon} is too small to learn much: even if the whole budget were spent on one count of users, its noise would have standard \
             deviation {noise:.0}{users}, and a model divides the budget among many releases; choose a larger epsilon, or expect a model that is \
             mostly noise"
        ));
    }
    all
}

/// Number of standard deviations up to which the sum of all released counts is considered noise.
const ALL_NOISE: f64 = 3.0;

/// Warning about released counts of items that are noise alone, as with a catalogue of other items:
/// public, since it follows from what was released.
pub(crate) fn of_counts(counts: &NoisyCounts) -> Option<String> {
    let n = counts.values().len() as f64;
    let sum: f64 = counts.values().iter().sum();
    let is_noise = n > 0.0 && sum <= ALL_NOISE * counts.noise_stddev() * n.sqrt();
    is_noise.then(|| {
        "the released counts of all items together do not stand out from their noise: either hardly any record is of an item of the catalogue, or there are \
         too few records for this epsilon. The internal report says how many records were used"
            .to_owned()
    })
}

/// With fewer users it is not possible to say what is usual.
const FEW: usize = 20;

/// Warnings about the user column, from ids and numbers of records, and about delta for the number
/// of users: private.
fn of_users<'a>(users: impl Iterator<Item = (&'a str, usize)>, delta: f64) -> Vec<String> {
    let (mut alike, mut n_users, mut n_tiny) = (HashMap::<String, usize>::new(), 0_usize, 0_usize);
    for (id, n_records) in users {
        *alike.entry(id.trim().to_lowercase()).or_default() += 1;
        n_users += 1;
        n_tiny += usize::from(n_records <= 1);
    }
    let n_alike: usize = alike.into_values().filter(|&n| n > 1).sum();
    let mut all = Vec::new();
    if n_alike > 0 {
        all.push(format!(
            "{n_alike} user ids differ from another id only in case or surrounding spaces: each id counts as a separate user, so \
             a person with several ids is protected less than stated"
        ));
    }
    if n_users >= FEW && 2 * n_tiny > n_users {
        all.push(format!(
            "{n_tiny} of {n_users} users have a single record: make sure that the user column names people, not visits or sessions"
        ));
    }
    if delta * n_users as f64 > 1.0 {
        all.push(format!(
            "delta {delta:e} is above one over the number of users, {n_users}: choose it well below that in later runs"
        ));
    }
    all
}

/// Warnings about users, and about the catalogue that the ratings were read with.
pub(crate) fn of_ratings(ratings: &Ratings, delta: f64) -> Vec<String> {
    let rows = ratings.interactions().expose().users();
    let ids = ratings.user_ids().expose().iter().map(String::as_str);
    let mut all = of_users(ids.zip(rows.map(|row| row.len())), delta);
    let read = ratings.summary().expose();
    all.extend(of_catalogue(read.n_outside_catalogue, read.n_read));
    all.extend(of_nobody(
        ratings.interactions().expose().n_records(),
        "records",
    ));
    all
}

/// Warning about data of nobody. They are no error: whether there is a user is private.
fn of_nobody(n_records: usize, what: &str) -> Option<String> {
    (n_records == 0).then(|| {
        format!(
            "no {what} of the file could be used, and a release made from it is noise alone: check the file, its user ids and its item ids"
        )
    })
}

/// Warning about a catalogue that lacks many items of the records.
fn of_catalogue(n_outside: usize, n_read: usize) -> Option<String> {
    (2 * n_outside > n_read).then(|| {
        format!(
            "{n_outside} of {n_read} records are of items that are not in the catalogue and were left out: check that its ids match \
             those in the item column, and that the user and item columns are not swapped"
        )
    })
}

/// A rating more than this many label bounds away from its user's mean is treated as if it were
/// this far away.
const FURTHEST: f64 = 3.0;

/// Warnings about the assumed rating scale, with labels bounded by `bound`, which follow from
/// settings if `is_given`.
pub(crate) fn of_scale(ratings: &Ratings, bound: f64, is_given: bool) -> Vec<String> {
    let rows = ratings.interactions().expose().users();
    scale_of(rows.map(|row| row.values()), bound, is_given)
}

fn scale_of<'a>(users: impl Iterator<Item = &'a [f32]>, bound: f64, is_given: bool) -> Vec<String> {
    let (mut n_users, mut far, mut squares) = (0.0, 0.0, 0.0);
    for ratings in users.filter(|ratings| ratings.len() > 1) {
        let n = ratings.len() as f64;
        let mean = ratings.iter().copied().map(f64::from).sum::<f64>() / n;
        let apart = || ratings.iter().map(|y| (f64::from(*y) - mean).abs());
        n_users += 1.0;
        far += apart().filter(|d| *d > FURTHEST * bound).count() as f64 / n;
        squares += apart().map(|d| d * d).sum::<f64>() / n;
    }
    let (far, spread) = (far / n_users, (squares / n_users).sqrt());
    let means = match is_given {
        true => "check the scale that the settings state (`rating_range`, `label_bound`)",
        false => "if the scale is publicly known, give it as `rating_range`, such as 1,5",
    };
    if far > 0.05 {
        vec![format!(
            "{:.0} % of a user's ratings are more than {} from the user's mean and are clipped to that: {means}",
            100.0 * far,
            FURTHEST * bound
        )]
    } else if spread < 0.25 * bound {
        vec![format!(
            "the standard deviation of ratings around users' means is only {spread:.2}, but the noise is scaled for {bound}: {means}"
        )]
    } else {
        Vec::new()
    }
}

/// Share of ratings outside their declared range from which a warning says so.
const OUTSIDE: f64 = 0.05;

/// Warning about ratings outside the range that the settings state.
pub(crate) fn of_range(ratings: &Ratings, [low, high]: [f64; 2], remedy: &str) -> Option<String> {
    let rows = ratings.interactions().expose().users();
    let (mut n, mut n_outside) = (0_usize, 0_usize);
    for row in rows {
        n += row.len();
        n_outside += row
            .values()
            .iter()
            .filter(|y| is_outside(**y, [low, high]))
            .count();
    }
    (n_outside as f64 > OUTSIDE * n as f64).then(|| {
        format!(
            "{n_outside} of {n} ratings are outside {low} to {high}, the range that the settings state (`rating_range`): {remedy}"
        )
    })
}

/// Whether a rating, which is single, is outside a range.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the ends as a rating of that value is"
)]
pub(crate) fn is_outside(rating: f32, [low, high]: [f64; 2]) -> bool {
    rating < low as f32 || rating > high as f32
}

/// Warnings about item feature columns that follow the ratings.
pub(crate) fn of_items(items: &ItemTable, ratings: &Ratings) -> Vec<String> {
    let table = ratings.interactions().expose();
    let mut counts = vec![0.0; table.n_items()];
    for row in table.users() {
        row.items()
            .iter()
            .for_each(|&item| counts[item as usize] += 1.0);
    }
    let index = |id: &str| ratings.catalogue().index(id);
    let columns = items.columns().iter().enumerate();
    let followed = columns.filter(|&(at, _)| {
        let pairs = items.ids().filter_map(|id| {
            let [number] = items.names(id, at) else {
                return None;
            };
            Some((number.parse().ok()?, counts[index(id)?]))
        });
        follows(&pairs.collect::<Vec<_>>())
    });
    followed
        .map(|(_, name)| made_of_counts(name, "ratings of an item"))
        .collect()
}

/// Warning about targets that are clipped to their range.
pub(crate) fn of_targets(table: &SampleTable, [low, high]: [f64; 2]) -> Option<String> {
    let n_features = table.features().len();
    let users = table.users().expose().iter();
    let targets = users.flat_map(|user| user.rows(n_features).map(|(_, y)| f64::from(y)));
    let (mut n, mut n_outside) = (0_usize, 0_usize);
    for y in targets {
        n += 1;
        n_outside += usize::from(y < low || y > high);
    }
    (n_outside > 0).then(|| {
        format!(
            "{n_outside} of {n} targets lie outside the range {low} to {high} and are clipped to it: make sure that range and column are those that you \
             mean"
        )
    })
}

/// Warnings about users and feature columns of labelled rows.
pub(crate) fn of_rows(table: &SampleTable, delta: f64) -> Vec<String> {
    let (users, n_features) = (table.users().expose(), table.features().len());
    let sizes = users
        .iter()
        .map(|user| (user.id(), user.rows(n_features).len()));
    let n_rows = users.iter().map(|user| user.rows(n_features).len()).sum();
    let mut all = of_users(sizes, delta);
    all.extend(of_nobody(n_rows, "rows"));
    for (at, name) in table.features().iter().enumerate() {
        let first = users.iter().filter_map(|user| {
            let mut rows = user.rows(n_features);
            let (n_rows, first) = (rows.len(), rows.next()?.0[at]);
            let is_constant = rows.all(|(x, _)| x[at].to_bits() == first.to_bits());
            is_constant.then_some((f64::from(first), n_rows as f64))
        });
        let pairs: Vec<_> = first.collect();
        if 2 * pairs.len() > users.len() && follows(&pairs) {
            all.push(made_of_counts(name, "rows of a user"));
        }
    }
    all
}

fn made_of_counts(column: &str, of: &str) -> String {
    format!(
        "column {column} is almost perfectly correlated with the number of {of}: the guarantee does not cover a feature that was computed from the data"
    )
}

/// Correlation from which a column is assumed to be derived from counts.
const ALIKE: f64 = 0.98;

/// Whether the first number of each pair is approximately a linear function of the second.
fn follows(pairs: &[(f64, f64)]) -> bool {
    if pairs.len() < FEW {
        return false;
    }
    let n = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |of: fn(f64, f64) -> f64| -> f64 {
        pairs.iter().map(|pair| of(pair.0 - x, pair.1 - y)).sum()
    };
    let (both, left, right) = (sum(|a, b| a * b), sum(|a, _| a * a), sum(|_, b| b * b));
    both.abs() > ALIKE * (left * right).sqrt() && left * right > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_that_promise_nothing_are_told() {
        let of = |epsilon, delta, n| of_settings(ApproxDp { epsilon, delta }, n).len();
        assert_eq!(of(20.0, 1e-3, None), 0);
        assert_eq!(of(20.5, 1e-3, None), 1);
        assert_eq!(of(1.0, 1.1e-3, None), 1);
        assert_eq!(of(1.0, 1e-4, Some(1e4)), 0);
        assert_eq!(of(1.0, 1e-4, Some(1.1e4)), 1);
        assert_eq!(of(30.0, 0.5, Some(10.0)), 3);
        // at epsilon 1 and delta 1e-5 the noise has standard deviation 3.73
        assert_eq!(of(1.0, 1e-5, Some(40.0)), 0);
        assert_eq!(of(1.0, 1e-5, Some(30.0)), 1);
        assert_eq!((of(0.5, 1e-5, None), of(0.01, 1e-5, None)), (0, 1));
        assert_eq!(of(0.01, 1e-5, Some(1e4)), 0);
    }

    #[test]
    fn counts_that_are_noise_alone_are_told() {
        let of = |values: &[f64]| {
            let counts = NoisyCounts::released_elsewhere(values.to_vec(), 10.0, false);
            of_counts(&counts.unwrap()).is_some()
        };
        assert!(of(&[15.0, -12.0, 9.0, 1.0]) && of(&[60.0, 0.0, 0.0, 0.0]));
        assert!(!of(&[60.0, 0.0, 0.0, 1.0]) && !of(&[]));
    }

    #[test]
    fn ids_that_look_like_one_person_and_users_that_look_like_visits_are_told() {
        let users =
            |ids: &[&str], n_records: usize| of_users(ids.iter().map(|id| (*id, n_records)), 1e-5);
        assert!(users(&["ann", "bob"], 1).is_empty());
        let found = users(&["ann", "Ann ", "bob"], 5);
        assert!(
            found.len() == 1 && found[0].starts_with("2 user ids"),
            "{found:?}"
        );
        let many: Vec<String> = (0..40).map(|n| format!("u{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(users(&many, 2).is_empty());
        assert!(users(&many, 1)[0].starts_with("40 of 40 users"));
    }

    #[test]
    fn a_delta_too_large_for_the_users_and_a_catalogue_of_other_items_are_told() {
        let of = |delta| of_users((0..50).map(|_| ("", 2)), delta);
        let n = |delta| {
            of(delta)
                .iter()
                .filter(|text| text.contains("delta"))
                .count()
        };
        assert_eq!((n(0.02), n(0.021)), (0, 1));
        assert_eq!(of_catalogue(5, 10), None);
        let told = of_catalogue(6, 10).unwrap();
        assert!(told.starts_with("6 of 10 records are of items"), "{told}");
    }

    #[test]
    fn ratings_on_another_scale_are_told() {
        let of = |users: &[&[f32]]| scale_of(users.iter().copied(), 1.0, false);
        let stars: &[f32] = &[1.0, 5.0, 4.0, 4.0];
        assert!(of(&[stars, &[2.0], &[]]).is_empty() && of(&[]).is_empty());
        let percent: &[f32] = &[20.0, 100.0, 80.0, 77.0]; // the last is 7.75 from the mean, all are far
        let found = of(&[stars, percent]);
        assert!(
            found[0].starts_with("50 % of a user's ratings are more than 3 "),
            "{found:?}"
        );
        let shares: &[f32] = &[0.2, 1.0, 0.8, 0.8];
        // the square root of the mean of .09 and squares
        let found = of(&[shares, &[0.5, 0.5]]);
        assert!(found[0].contains("is only 0.21, but"), "{found:?}");
    }

    #[test]
    fn counts_are_known_on_any_scale() {
        let pairs = |x: fn(f64) -> f64| {
            (0..30)
                .map(f64::from)
                .map(|n| (x(n), n * n))
                .collect::<Vec<_>>()
        };
        assert!(follows(&pairs(|n| n * n)) && follows(&pairs(|n| -7.0 * n * n + 3.0)));
        assert!(!follows(&pairs(|n| (n * 7.0) % 11.0)) && !follows(&pairs(|_| 1.0)));
        assert!(!follows(&pairs(|n| n * n)[..FEW - 1]));
    }
}
