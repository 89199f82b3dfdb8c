//! Residual rounds in other units: of ratings, and of features' weights.

use dp_core::{Interactions, InteractionsBuilder, Private};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    AmResidualSspParams, FeatureModel, FeaturePrior, ItemFeatures, ItemFeaturesBuilder,
    PriorVariances, Trainer,
};

use crate::support::{ADD_REMOVE, N_ITEMS, features, pay, target};

fn prior(features: &ItemFeatures) -> FeaturePrior {
    FeaturePrior::new(features, PriorVariances::for_features(features)).unwrap()
}

fn fitted(
    params: AmResidualSspParams,
    prior: &FeaturePrior,
    data: &Private<Interactions>,
) -> FeatureModel {
    let fit = params.check().unwrap();
    let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(8);
    let made = fit.with(prior).fit(data, &plan, pay(&plan), noise).unwrap();
    made.model
}

/// Six ratings of each of 40 users, `scale` times what they are above `center`.
fn in_units(center: f32, scale: f32) -> Private<Interactions> {
    let mut out = InteractionsBuilder::new(N_ITEMS);
    for user in 0..40_u32 {
        for i in 0..6_u32 {
            let y = 1.0 + ((user * 7 + i * 5 + user * i) % 9) as f32 / 2.0;
            let item = (user + i * 2) % N_ITEMS as u32;
            out.push(user, item, scale * (y - center)).unwrap();
        }
    }
    Private::new(out.build().0)
}

#[test]
fn settings_in_other_units_give_the_same_model_in_those_units() {
    const SCALE: f32 = 4.0; // a power of 2, so that released integers are the same
    let scale = f64::from(SCALE);
    let params = AmResidualSspParams::for_target(target());
    let mut other = params.clone().in_units(scale);
    other.user_step.label_center = 0.0;
    let prior = prior(&features());
    let one = fitted(params, &prior, &in_units(0.0, 1.0));
    let four = fitted(other, &prior, &in_units(3.5, SCALE));
    let largest = one
        .item_vectors()
        .iter()
        .fold(0.0_f64, |m, v| m.max(v.abs()));
    for (a, b) in one.item_vectors().iter().zip(four.item_vectors()) {
        assert!((b - scale * a).abs() < 1e-9 * scale * largest, "{b} {a}");
    }
}

#[test]
fn weights_of_features_count_by_their_ratios_even_where_their_squares_vanish_or_overflow() {
    let data = in_units(0.0, 1.0);
    let vectors = |unit: f64| {
        let mut builder = ItemFeaturesBuilder::new(N_ITEMS, &[3]).unwrap();
        for item in 0..N_ITEMS as u32 {
            builder.push(item, item % 3, 3.0 * unit).unwrap();
            builder.push(item, (item + 1) % 3, 4.0 * unit).unwrap();
        }
        let params = AmResidualSspParams::for_target(target());
        fitted(params, &prior(&builder.build()), &data)
            .item_vectors()
            .to_vec()
    };
    let plain = vectors(1.0);
    for unit in [1e-300, 1e300] {
        let pairs = plain.iter().zip(vectors(unit));
        assert!(
            pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-3),
            "{unit}"
        );
    }
}
