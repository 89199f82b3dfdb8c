//! Settings of callers, written to and read from files.

use std::fmt::Debug;

use dp_data::{
    GeneratedLabels, Layout, LeafRows, LongTailRatings, PersonalOffsets, PublicFeatureTask,
    RatingsColumns, RatingsFormat, SampleColumns, SampleShares, SharedSubspace, SkewedTasks,
    SplitFractions,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn same_again<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&text).unwrap();
    assert_eq!(read, *value, "{text}");
}

#[test]
fn settings_read_back_as_they_were_written() {
    let columns = RatingsColumns {
        user: Some("who".to_owned()),
        ..RatingsColumns::default()
    };
    let format = RatingsFormat::default().with_layout(Layout::DoubleColon);
    same_again(&format.with_columns(columns));
    same_again(&SampleColumns::default());
    same_again(&SampleShares::default());
    same_again(&SplitFractions::new(0.7, 0.1, 0.2).unwrap());
    let rows = LeafRows {
        n_features: 784,
        label: Some(1),
    };
    same_again(&rows);
    same_again(&LongTailRatings::movielens_1m());
    same_again(&SharedSubspace::section_6());
    same_again(&SkewedTasks::appendix_c(0.5));
    same_again(&PersonalOffsets::figure_1a());
    same_again(&PublicFeatureTask {
        labels: GeneratedLabels::Signs { scale: 2.0 },
        ..PublicFeatureTask::new(100)
    });
}

#[test]
fn shares_that_do_not_add_up_are_refused_when_they_are_read() {
    for (text, holds) in [
        (r#"{"train": 0.8, "valid": 0.1, "test": 0.1}"#, true),
        (r#"{"train": 0.8, "valid": 0.1, "test": 0.2}"#, false),
        (r#"{"train": -0.2, "valid": 0.6, "test": 0.6}"#, false),
        (r#"{"train": 0.8, "valid": 0.2}"#, false),
    ] {
        let read = serde_json::from_str::<SplitFractions>(text);
        assert_eq!(read.is_ok(), holds, "{text}");
    }
}
