//! Settings from files: a misspelt field is an error at every level, including a field that may be
//! left out.

use std::fmt::Debug;

use dp_multitask::{
    BudgetAllocation, Gramian, LocalBias, RecordSampling, RegressionLoss, ResidualBounds, SspSolve,
    StepSize, TaskCounts, UserRule,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Whether settings can be read back as written, but not with an additional field at `place` (`""`
/// for the top level).
fn holds<T: Serialize + DeserializeOwned + PartialEq + Debug>(settings: &T, places: &[&str]) {
    let written = serde_json::to_value(settings).unwrap();
    assert_eq!(
        &serde_json::from_value::<T>(written.clone()).unwrap(),
        settings
    );
    for place in places {
        let mut changed: Value = written.clone();
        let object = changed.pointer_mut(place).unwrap().as_object_mut().unwrap();
        object.insert("cuonts".to_owned(), 1.0.into());
        let read = serde_json::from_value::<T>(changed);
        assert!(read.is_err(), "{read:?} from {written} at {place:?}");
    }
}

#[test]
fn fields_that_nobody_knows_are_refused_wherever_they_stand() {
    let rule = UserRule::Clip {
        n_users: 100.0,
        concentration: 1.0,
    };
    let public = TaskCounts::Public {
        values: vec![3.0, 1.0],
    };
    let released = TaskCounts::Released {
        share: 0.1,
        clip_norm: 2.0,
    };
    let adaptive = |counts| BudgetAllocation::AdaptiveWeights {
        exponent: 0.25,
        counts,
        slack: 0.0,
        floor: 1.0,
        rule,
    };
    holds(&adaptive(None), &["", "/rule"]);
    holds(&adaptive(Some(released)), &["", "/rule", "/counts"]);
    holds(&adaptive(Some(public)), &["", "/counts"]);
    let uniform = BudgetAllocation::UniformSampling {
        tasks_per_user: 5,
        seed: 1,
        rule,
    };
    holds(&uniform, &["", "/rule"]);
    let sampling = RecordSampling::Uniform {
        records_per_user: 5,
        seed: 1,
    };
    holds(&sampling, &[""]);
    let bias = LocalBias {
        center: 3.5,
        shrinkage: 5.0,
    };
    holds(&bias, &[""]);
    holds(&RegressionLoss::Huber { threshold: 1.0 }, &[""]);
    holds(&Gramian::Pooled { share: 0.5 }, &[""]);
    holds(&ResidualBounds::Geometric { ratio: 0.5 }, &[""]);
    let ridge = SspSolve::Ridge {
        noise_factor: 0.5,
        l2_penalty: 1.0,
    };
    holds(&ridge, &[""]);
    holds(&StepSize::StronglyConvex { convexity: 0.5 }, &[""]);
}
