//! Working memory goes from user to user: nothing of the one before may be left in it. The kernel's loops renew it in debug builds, so
//! their tests cannot tell; steps here are made without them.

use super::{LocalState, LocalStep, RoundLayout, StepScratch};
use crate::{AdditiveLoss, AdditiveModel, BatchReduction, PersonalizedObjective};

const DIM: usize = 5;
const N_ROUNDS: usize = 3;

type Rows = Vec<([f32; DIM], f32)>;

/// Users with few rows and many, with rows that overflow, without any, and the first one again.
fn users() -> Vec<Rows> {
    let row = |user: usize, at: usize| {
        let number = |k: usize| ((user * 101 + at * 31 + k * 7) % 23) as f32 / 11.0 - 1.0;
        (std::array::from_fn(number), ((user + at) % 4) as f32) // of three classes: 3 is none
    };
    let of = |user: usize| (0..=3 * user).map(|at| row(user, at)).collect();
    let mut all: Vec<Rows> = (0..3).map(of).collect();
    all.insert(1, vec![([f32::MAX; DIM], 1.0), ([f32::MIN; DIM], 0.0)]);
    all.push(Rows::new());
    all.push(all[0].clone());
    all
}

/// What a user sends in one round after the other, and what stays, to the bit.
fn bits(model: &AdditiveModel, rows: &Rows, mut scratch: Option<&mut StepScratch>) -> Vec<u64> {
    let n = model.n_shared();
    let shared: Vec<f64> = (0..n).map(|k| 0.1 * k as f64 - 0.3).collect();
    let (mut state, mut bits) = (LocalState::new(n, true), Vec::new());
    for round in 1..=N_ROUNDS {
        let step = LocalStep {
            round,
            shared: &shared,
            clip_norm: 0.5,
            rate: 0.1,
            reduction: BatchReduction::Mean,
            layout: RoundLayout {
                n_shared: n,
                within: true,
                count: true,
                extra: 0.1,
            },
        };
        let mut fresh = StepScratch::new(DIM);
        let scratch = scratch.as_deref_mut().unwrap_or(&mut fresh);
        state.step(model, step, scratch, |_, batch| {
            rows.iter().for_each(|(x, y)| batch.push(x, *y));
        });
        bits.extend(state.sent.iter().chain(&state.theta).map(|x| x.to_bits()));
    }
    bits.extend(state.average(N_ROUNDS).iter().map(|x| x.to_bits()));
    bits
}

#[test]
fn nothing_of_a_user_is_left_in_the_working_memory_of_the_next() {
    for loss in [
        AdditiveLoss::Squared,
        AdditiveLoss::Logistic,
        AdditiveLoss::Softmax { n_classes: 3 },
        AdditiveLoss::OneVsAll { n_classes: 3 },
        AdditiveLoss::OneVsAllLogistic { n_classes: 3 },
    ] {
        let model = AdditiveModel::new(loss, DIM).unwrap();
        let scratch = &mut StepScratch::new(DIM);
        let mut seen = Vec::new();
        for (user, rows) in users().iter().enumerate() {
            let fresh = bits(&model, rows, None);
            let reused = bits(&model, rows, Some(scratch));
            assert!(fresh == reused, "{loss:?}, user {user}");
            seen.push(fresh);
        }
        // users differ, so that something left would show
        assert!(seen[0] != seen[2] && seen[0] != seen[3], "{loss:?}");
        assert!(seen[0] == seen[5], "{loss:?}");
    }
}
