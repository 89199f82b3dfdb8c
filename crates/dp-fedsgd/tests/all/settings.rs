//! Serialisation of settings.

use dp_fedsgd::{
    AdditiveLoss, BatchReduction, ClipSchedule, LocalTraining, Participation, PpSgdParams,
    StepSchedule,
};
use dp_mechanism::{ClientSampling, FixedSizeSampling, PoissonSampling};

fn same_again(params: PpSgdParams) {
    let text = serde_json::to_string(&params).unwrap();
    let read: PpSgdParams = serde_json::from_str(&text).unwrap();
    assert_eq!(read, params, "{text}");
}

#[test]
fn settings_read_back_as_they_were_written() {
    let mut params = PpSgdParams::new(f64::INFINITY, 0.1, 2.0, 30, 500.0);
    same_again(params);
    same_again(params.shrinking(0.1));
    let coins = ClientSampling::from(PoissonSampling::new(0.1).unwrap());
    same_again(params.sampled(coins));
    params.alpha = 0.1;
    params.n_users = 2000.0;
    params.reduction = BatchReduction::Sum { rows_per_user: 7.5 };
    params.minimum_clients = Some(3.0);
    params.clip = ClipSchedule::Quantile {
        start: 1.0,
        quantile: 0.5,
        rate: 0.2,
        low: 0.01,
        high: 9.0,
    };
    params.local_schedule = StepSchedule::InverseSqrt;
    same_again(params.sampled(FixedSizeSampling::new(50, 2000).unwrap().into()));
}

#[test]
fn files_say_what_is_meant() {
    let params = PpSgdParams::new(f64::INFINITY, 0.1, 2.0, 30, 500.0);
    let written = serde_json::to_value(params).unwrap();
    assert_eq!(written["alpha"], "inf");
    assert_eq!(written["clip"]["kind"], "constant");
    assert_eq!(written["participation"], "full");
    assert_eq!(
        serde_json::to_value(LocalTraining::WhenAsked).unwrap(),
        "when-asked"
    );
    let classes = AdditiveLoss::OneVsAll { n_classes: 3 };
    assert_eq!(serde_json::to_value(classes).unwrap()["kind"], "one-vs-all");
    let with = |name: &str, value: serde_json::Value| {
        let mut changed = written.clone();
        changed[name] = value;
        serde_json::from_value::<PpSgdParams>(changed)
    };
    assert!(with("alpha", "infinite".into()).is_err());
    assert!(with("alpah", 1.0.into()).is_err());
    assert!(with("alpha", 2.0.into()).is_ok());
    // a probability that is not allowed is refused when it is read
    let sampled = |q: f64| {
        let scheme = serde_json::json!({"sampled": {"poisson": {"sampling_probability": q}}});
        serde_json::from_value::<Participation>(scheme)
    };
    assert!(sampled(1.5).is_err() && sampled(0.0).is_err());
    assert!(sampled(0.25).is_ok());
}
