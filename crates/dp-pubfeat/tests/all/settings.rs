//! Serialisation of settings.

use std::fmt::Debug;

use dp_pubfeat::{
    AmSspParams, ConvexSspParams, DpSgdParams, ExampleWeights, ItemNumbers, Optimiser,
    ProblemSetup, ResidualSspParams, SampledSspParams, SspParams, UserStep, ValueDescentParams,
    WeightRule,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn setup() -> ProblemSetup {
    let values = vec![0.5, 1.0];
    let omega = ItemNumbers::Public { values };
    ProblemSetup {
        user_norm: 2.0,
        label_norm: 0.25,
        weights: ExampleWeights::given(omega, WeightRule::default()).unwrap(),
        ..ProblemSetup::new(3, 0.5)
    }
}

fn alternating() -> AmSspParams {
    let user_step = UserStep {
        label_center: 3.5,
        offset_shrinkage: None,
        l2_penalty: 0.1,
    };
    AmSspParams::new(setup().example_level(), user_step, 4)
}

fn sgd() -> DpSgdParams {
    let (rate, decay) = (0.01, 0.9);
    DpSgdParams::new(setup(), 20, 0.1, Optimiser::Momentum { rate, decay })
}

/// Settings are the same after writing and reading; with an unknown field they are refused.
fn holds<T: Serialize + DeserializeOwned + PartialEq + Debug>(settings: &T, objects: &[&str]) {
    let written = serde_json::to_value(settings).unwrap();
    assert_eq!(
        serde_json::from_value::<T>(written.clone()).unwrap(),
        *settings,
        "{written}"
    );
    for object in objects {
        let mut changed = written.clone();
        let place = changed.pointer_mut(object).unwrap();
        let known = place.as_object_mut().unwrap();
        known.insert("nobody_knows".to_owned(), 1.0.into());
        assert!(
            serde_json::from_value::<T>(changed).is_err(),
            "{object} of {written}"
        );
    }
}

#[test]
fn settings_read_back_as_they_were_written_and_nothing_else_is_read() {
    const SETUP: [&str; 3] = ["", "/setup", "/setup/weights"];
    holds(&setup(), &["", "/weights", "/weights/omega"]);
    holds(&SspParams::new(setup()), &SETUP);
    holds(&SampledSspParams::new(setup(), 20, 0.1), &SETUP);
    holds(&ConvexSspParams::new(setup(), 5), &SETUP);
    holds(
        &ResidualSspParams::new(setup(), 5, 1.0, 0.1),
        &["", "/setup"],
    );
    holds(&alternating(), &["", "/setup", "/user_step"]);
    holds(&sgd(), &["", "/setup", "/optimiser"]);
    holds(&ValueDescentParams::new(10), &[""]);
}

#[test]
fn starts_are_what_they_say() {
    let half = [
        alternating().matrix_share,
        SampledSspParams::new(setup(), 20, 0.1).matrix_share,
    ];
    assert!(half.iter().all(|share| (share - 0.5).abs() < 1e-15));
    // vectors of norm 2, labels up to a norm of .25
    assert!((sgd().gradient_norm - 0.5).abs() < 1e-15);
    assert!(sgd().check().is_ok());
    assert!(SampledSspParams::new(setup(), 20, 0.1).check().is_ok());
    let written = serde_json::to_value(sgd()).unwrap();
    assert_eq!(written["optimiser"]["kind"], "momentum");
    assert_eq!(
        serde_json::to_value(alternating()).unwrap()["setup"]["unit"],
        "example"
    );
}
