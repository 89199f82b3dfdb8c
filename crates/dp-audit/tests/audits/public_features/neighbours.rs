//! L4: removed users, users without records, and noise that must not count.

use dp_accounting::{Budget, Ledger};
use dp_audit::audit_sensitivity;
use dp_core::{Adjacency, Interactions, InteractionsBuilder, Private};
use dp_mechanism::{NoiseSource, Trainer};
use dp_pubfeat::SspParams;

use super::{
    Cases, DIM, Learned, N_ITEMS, N_ORDINARY, all, alternating, known_noise, on_given_vectors,
    ordinary, setup, target,
};

const ADD_REMOVE: Adjacency = Adjacency::AddRemoveUser;

pub(super) fn nobody() -> Interactions {
    let empty = InteractionsBuilder::new(N_ITEMS).with_feature_dim(DIM);
    empty.build().0
}

/// The table of a run, with one user who tries to count for more than one.
pub(super) fn table() -> Interactions {
    let mut out = InteractionsBuilder::new(N_ITEMS).with_feature_dim(DIM);
    for (user, row) in (0..).zip(ordinary(N_ITEMS, 0).users()) {
        out.set_features(user, row.features()).unwrap();
        for (item, y) in row.iter() {
            out.push(user, item, y).unwrap();
        }
    }
    out.set_features(N_ORDINARY, &[f32::MAX, -f32::MAX, 1.0])
        .unwrap();
    for item in 0..9 {
        out.push(N_ORDINARY, item, f32::MAX).unwrap();
    }
    out.build().0
}

/// In exact integers, on the production path.
#[test]
fn no_user_moves_the_first_release_further_than_paid_for() {
    let (data, nobody) = (table(), nobody());
    let users: Vec<usize> = (0..=N_ORDINARY as usize).step_by(3).collect();
    for (name, trainer) in on_given_vectors(4.0, ADD_REMOVE) {
        let audit = audit_sensitivity(&data, &users, |data, noise| {
            Ok(trainer.learn(data, &nobody, noise)?.1.remove(0))
        });
        let audit = audit.unwrap();
        assert!(audit.verdict.holds(), "{name}: {audit}");
        assert!(
            audit.largest > 0.9 * audit.allowed as f64,
            "{name}: {audit}"
        );
    }
    let trainer = alternating(4.0, ADD_REMOVE);
    let audit = audit_sensitivity(&data, &users, |data, noise| {
        Ok(trainer.learn(data, &nobody, noise)?.1.remove(0))
    });
    assert!(audit.unwrap().verdict.holds());
}

fn integers(run: &Learned) -> Vec<&[i64]> {
    run.1.iter().map(|view| view.integers.as_slice()).collect()
}

/// Users without records change the true number of users and nothing else: with equal noise, no bit
/// of the releases changes.
#[test]
fn users_who_have_nothing_change_nothing() {
    same_with_idle_users(all(4.0, ADD_REMOVE));
}

pub(super) fn same_with_idle_users(cases: Cases) {
    let nobody = nobody();
    for (name, trainer) in cases {
        let run = |n_idle| {
            let data = Private::new(ordinary(N_ITEMS, n_idle));
            let noise = &mut NoiseSource::insecure_seeded(3);
            trainer.learn(&data, &nobody, noise).unwrap()
        };
        let (few, many) = (run(0), run(40));
        assert!(few.0 == many.0, "{name}: the model");
        assert!(integers(&few) == integers(&many), "{name}: the releases");
    }
}

/// The certificate of a run with repeatable noise states this, and that of any other run does not.
#[test]
fn seeded_noise_is_marked() {
    let fit = SspParams::new(setup()).check().unwrap();
    let plan = fit.plan(N_ITEMS, target(4.0), ADD_REMOVE).unwrap();
    let data = Private::new(ordinary(N_ITEMS, 0));
    let private = |mut noise: NoiseSource| {
        let budget = Budget::new(target(4.0), ADD_REMOVE).unwrap();
        let spends = Ledger::in_memory("audit", budget).unwrap().reserve(&plan);
        let fitted = fit
            .with(known_noise())
            .fit(&data, &plan, spends.unwrap(), &mut noise);
        fitted.unwrap().certificate.verify().unwrap().is_private()
    };
    assert!(private(NoiseSource::operating_system()));
    assert!(!private(NoiseSource::insecure_seeded(1)));
}
