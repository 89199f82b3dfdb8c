use super::*;

fn inputs(task: Task, intercept: Intercept) -> Inputs {
    let column = |name: &str, range| Column {
        name: name.to_owned(),
        range,
    };
    Inputs {
        target: column("score", Some([0.0, 70.0])),
        features: vec![column("a", Some([-2.0, 6.0])), column("b", None)],
        intercept,
        task,
        l2_penalties: vec![0.1],
        sparse: 0,
    }
}

#[test]
fn values_are_clipped_to_their_range_and_come_back() {
    let inputs = inputs(Task::Regression, Intercept::Shared);
    let mut x = Vec::new();
    inputs.encode(&[4.0, 4.0], &mut x);
    assert_eq!((x.as_slice(), inputs.dim()), (&[0.5, 4.0, 1.0][..], 3));
    inputs.encode(&[1e30, -9.0], &mut x);
    assert_eq!(x, [1.0, -9.0, 1.0]);
    assert!((inputs.label(35.0) - 0.0).abs() < 1e-12 && (inputs.label(1e9) - 1.0).abs() < 1e-12);
    assert!((inputs.answer(inputs.label(21.0)) - 21.0).abs() < 1e-12);
    assert!((inputs.answer(7.0) - 70.0).abs() < 1e-12);
    assert!((inputs.error(0.0, 30.0) - 25.0).abs() < 1e-9);
}

#[test]
fn classes_are_the_sides_of_the_threshold() {
    let inputs = inputs(Task::Classification { threshold: 20.0 }, Intercept::Shared);
    assert!(inputs.label(20.0) < 0.0 && inputs.label(20.5) > 0.0);
    assert!((inputs.answer(0.0) - 0.5).abs() < 1e-12);
    for (score, y, error) in [(0.1, 30.0, 0.0), (0.1, 10.0, 1.0), (-0.1, 10.0, 0.0)] {
        assert!((inputs.error(score, y) - error).abs() < 1e-12);
    }
    assert!(inputs.check().is_ok());
}

#[test]
fn what_cannot_be_used_is_refused() {
    let classes = Task::Classification { threshold: 1.0 };
    assert!(inputs(classes, Intercept::Own).check().is_err());
    let endless = Task::Classification {
        threshold: f64::NAN,
    };
    assert!(inputs(endless, Intercept::None).check().is_err());
    for range in [
        [1.0, 1.0],
        [2.0, 1.0],
        [f64::NAN, 1.0],
        [-f64::MAX, f64::MAX],
    ] {
        let mut bad = inputs(Task::Regression, Intercept::Own);
        bad.features[0].range = Some(range);
        assert!(bad.check().is_err(), "{range:?}");
    }
    // without penalties users average over fits, but not with own coefficients outside the subspace
    let mut weighed = inputs(Task::Regression, Intercept::Own);
    weighed.l2_penalties.clear();
    assert!(weighed.check().is_ok() && weighed.users_weigh());
    weighed.sparse = 1;
    assert!(weighed.check().is_err());
    for penalties in [vec![0.0], vec![1.0, f64::INFINITY]] {
        let mut bad = inputs(Task::Regression, Intercept::Own);
        bad.l2_penalties = penalties;
        assert!(bad.check().is_err());
    }
    for (intercept, most) in [(Intercept::Own, 2), (Intercept::Shared, 3)] {
        for (sparse, fine) in [(most, true), (most + 1, false), (usize::MAX, false)] {
            let mut inputs = inputs(Task::Regression, intercept);
            inputs.sparse = sparse;
            assert_eq!(inputs.check().is_ok(), fine, "{intercept:?} {sparse}");
            assert!(inputs.check_draft().is_ok());
        }
    }
}
