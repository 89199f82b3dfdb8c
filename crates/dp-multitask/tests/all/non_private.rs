//! Alternating least squares without privacy: after convergence no item factor can be improved.

use chacha20::ChaCha20Rng;
use dp_core::{Interactions, InteractionsBuilder, Private};
use dp_multitask::{FactorModel, NonPrivateAls};
use rand::{RngExt, SeedableRng};

const N_USERS: u32 = 40;
const N_ITEMS: usize = 9;

/// A third of all pairs; the last user has no records.
fn table() -> Private<Interactions> {
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let mut builder = InteractionsBuilder::new(N_ITEMS);
    for user in 0..N_USERS - 1 {
        for item in (0_u32..).take(N_ITEMS) {
            if rng.random_range(0..3) == 0 {
                let rating = rng.random_range(2..9_u32) as f32 / 2.0;
                builder.push(user, item, rating).unwrap();
            }
        }
    }
    builder.ensure_users(N_USERS as usize);
    Private::new(builder.build().0)
}

/// The largest partial derivative of the objective, computed from its definition, with respect to a
/// coordinate of an item.
fn steepest(model: &FactorModel, data: &Private<Interactions>, als: &NonPrivateAls) -> f64 {
    let personal = model.fold_in_all(data).unwrap().into_exposed();
    let mut slopes: Vec<f64> = model
        .item_factors()
        .iter()
        .map(|x| als.l2_penalty * x)
        .collect();
    for (row, user) in data.expose().users().zip(&personal) {
        for (item, slope) in slopes.chunks_exact_mut(als.dim).enumerate() {
            let score = model.predict(user, item);
            let record = row.iter().find(|&(own, _)| own as usize == item);
            let label = record.map(|(_, y)| als.unobserved_weight.map_or(f64::from(y), |_| 1.0));
            let pull =
                label.map_or(0.0, |y| score - y) + als.unobserved_weight.unwrap_or(0.0) * score;
            slope[0] += pull;
            for (slope, v) in slope[1..].iter_mut().zip(user.factor()) {
                *slope += pull * v;
            }
        }
    }
    slopes
        .into_iter()
        .fold(0.0, |most, slope| slope.abs().max(most))
}

#[test]
fn many_rounds_end_where_no_item_factor_can_be_improved() {
    let data = table();
    let explicit = NonPrivateAls {
        dim: 3,
        l2_penalty: 0.3,
        ..NonPrivateAls::default()
    };
    let implicit = NonPrivateAls {
        unobserved_weight: Some(0.2),
        ..explicit
    };
    for als in [explicit, implicit] {
        let [short, long] = [2, 3000].map(|n_rounds| {
            let als = NonPrivateAls { n_rounds, ..als };
            steepest(&als.fit(&data).unwrap(), &data, &als)
        });
        assert!(short > 1e-3, "{short}: nothing was left to improve");
        assert!(long < 1e-6 * short, "{long} after {short}");
    }
}

#[test]
fn errors_grow_with_the_scale_of_ratings_and_nothing_else() {
    let data = table();
    let errors = |scale: f32, offset: f32| -> Vec<f64> {
        let mut builder = InteractionsBuilder::new(N_ITEMS);
        for (user, row) in (0..).zip(data.expose().users()) {
            for (item, y) in row.iter() {
                builder.push(user, item, scale * y + offset).unwrap();
            }
        }
        builder.ensure_users(N_USERS as usize);
        let data = Private::new(builder.build().0);
        let als = NonPrivateAls {
            dim: 3,
            l2_penalty: 0.3,
            ..NonPrivateAls::default().on_scale_of(&data)
        };
        let pairs = als.fit(&data).unwrap().predict_held_out(&data, &data);
        let pairs = pairs.unwrap().into_exposed().into_iter();
        pairs
            .map(|(predicted, y)| (predicted - y) / f64::from(scale))
            .collect()
    };
    let own = errors(1.0, 0.0);
    for (scale, offset) in [
        (8.0, 0.0),
        (0.125, -1.0),
        (4096.0, 1024.0),
        (2_f32.powi(-14), 0.0),
    ] {
        for (a, b) in own.iter().zip(errors(scale, offset)) {
            approx::assert_abs_diff_eq!(*a, b, epsilon = 1e-6);
        }
    }
}

#[test]
fn a_weight_out_of_range_is_refused() {
    let als = NonPrivateAls {
        unobserved_weight: Some(f64::NAN),
        ..NonPrivateAls::default()
    };
    assert!(als.fit(&table()).is_err());
}
