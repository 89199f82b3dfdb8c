//! Serialisation of settings.

use std::fmt::Debug;

use dp_personalize::{
    AltMinParams, ConvexLoss, DpGdEmbedding, Embedding, ExponentialSelectionParams, Initialisation,
    Provenance, ResidualAltMinParams, RowSplit, SelectionLoss, SingleModelParams, Subspace,
    UserBatches,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn same_again<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let written = serde_json::to_value(value).unwrap();
    let read: T = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(read, *value, "{written}");
}

fn plane() -> Subspace {
    let columns = [1.0, 0.2, 0.5, 1.0, 0.0, 0.3];
    Subspace::spanned_by(3, 2, &columns, Provenance::SeededNoise).unwrap()
}

fn descent() -> AltMinParams {
    AltMinParams {
        init: Initialisation::Given(plane()),
        embedding: Embedding::Gd(DpGdEmbedding {
            loss: ConvexLoss::Huber { threshold: 0.5 },
            gradient_clip: 0.1,
            learning_rate: 0.3,
            l2_penalty: 0.01,
        }),
        batches: UserBatches::Disjoint,
        rows: RowSplit::Quarters,
        ..AltMinParams::section_6(2)
    }
}

const fn huber() -> SelectionLoss {
    SelectionLoss::Huber {
        slope: 0.5,
        feature_clip: 1.0,
        model_bound: 4.0,
    }
}

#[test]
fn settings_read_back_as_they_were_written() {
    same_again(&AltMinParams::section_6(2));
    same_again(&AltMinParams::section_6(3).isometric());
    same_again(&AltMinParams {
        init: Initialisation::Projectors,
        ..AltMinParams::section_6(2)
    });
    same_again(&descent());
    same_again(&ResidualAltMinParams::new(2));
    same_again(&ResidualAltMinParams {
        whitening: None,
        ..ResidualAltMinParams::new(4)
    });
    same_again(&SingleModelParams::new(0.1, 3.0));
    same_again(&ExponentialSelectionParams::new(0.5));
    same_again(&ExponentialSelectionParams {
        epsilon: 2.0,
        loss: huber(),
    });
}

#[test]
fn files_say_what_is_meant() {
    let written = serde_json::to_value(descent()).unwrap();
    assert_eq!(written["init"]["kind"], "given");
    assert_eq!(written["embedding"]["kind"], "gd");
    assert_eq!(written["embedding"]["loss"]["kind"], "huber");
    assert_eq!(written["embedding"]["loss"]["threshold"], 0.5);
    assert_eq!(written["batches"], "disjoint");
    assert_eq!(written["rows"], "quarters");
    let written = serde_json::to_value(AltMinParams::section_6(2)).unwrap();
    assert_eq!(written["init"]["kind"], "pairs");
    assert_eq!(written["init"]["label_bound"], 1e-4);
    assert_eq!(written["embedding"]["kind"], "ssp");
    assert_eq!(written["rows"], "shared");
    let start = ExponentialSelectionParams::new(0.5);
    assert_eq!(start.loss, SelectionLoss::Explained);
}

/// Whether settings can still be read with `value` at `place`.
fn reads<T: Serialize + DeserializeOwned>(
    settings: &T,
    place: &str,
    value: serde_json::Value,
) -> bool {
    let mut changed = serde_json::to_value(settings).unwrap();
    let (parent, name) = place.rsplit_once('/').unwrap();
    let parent = changed.pointer_mut(parent).unwrap();
    parent.as_object_mut().unwrap().insert(name.into(), value);
    serde_json::from_value::<T>(changed).is_ok()
}

#[test]
fn fields_that_nobody_knows_are_refused_wherever_they_stand() {
    let (pairs, given) = (AltMinParams::section_6(2), descent());
    for place in ["/rnak", "/init/clip", "/embedding/clip"] {
        assert!(!reads(&pairs, place, 1.0.into()), "{place}");
        assert!(!reads(&given, place, 1.0.into()), "{place}");
    }
    assert!(!reads(&given, "/embedding/loss/slope", 1.0.into()));
    assert!(!reads(&ResidualAltMinParams::new(2), "/clip", 1.0.into()));
    assert!(!reads(
        &ResidualAltMinParams::new(2),
        "/whitening/clip",
        1.0.into()
    ));
    assert!(!reads(
        &SingleModelParams::new(1.0, 1.0),
        "/eta",
        1.0.into()
    ));
    let selection = ExponentialSelectionParams {
        loss: huber(),
        ..ExponentialSelectionParams::new(1.0)
    };
    assert!(!reads(&selection, "/slope", 1.0.into()));
    assert!(!reads(&selection, "/loss/slpoe", 1.0.into()));
    assert!(reads(&given, "/init_share", 0.5.into()));
    assert!(!reads(&given, "/batches", "other".into()));
}

#[test]
fn a_subspace_from_a_file_has_an_orthonormal_basis() {
    let basis = |values: [f64; 6]| reads(&plane(), "/basis", values.to_vec().into());
    assert!(basis([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]));
    assert!(basis([0.6, 0.0, 0.8, 0.0, 0.0, 1.0]));
    assert!(!basis([0.6, 0.0, 0.9, 0.0, 0.0, 1.0]), "a column too long");
    assert!(
        !basis([0.6, 0.8, 0.8, 0.6, 0.0, 0.0]),
        "not at right angles"
    );
    assert!(!basis([1e300; 6]));
    for (place, value) in [("/rank", 1), ("/rank", 4), ("/dim", 2), ("/dim", 0)] {
        assert!(!reads(&plane(), place, value.into()), "{place} {value}");
    }
    assert!(!reads(&plane(), "/basis", vec![1.0; 5].into()));
    assert!(!reads(&plane(), "/provenance", "trusted".into()));
}
