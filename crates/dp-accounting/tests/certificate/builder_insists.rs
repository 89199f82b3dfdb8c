//! A certificate is made of the releases that were planned and paid, or not at all.

use dp_accounting::{Certificate, Error, Plan};
use dp_core::Adjacency;

use super::support::{TARGET, builder, run};

#[test]
fn builder_insists_on_the_plans_releases() {
    let (plan, records) = run(Adjacency::AddRemoveUser);
    let build = |made| Certificate::builder(&plan, "d").releases(made).build();
    assert!(build(records.clone()).is_ok());
    let mut fewer_draws = records.clone();
    fewer_draws[1].n_draws -= 1;
    let swapped = records.iter().rev().cloned().collect();
    for wrong in [vec![], records[..1].to_vec(), fewer_draws, swapped] {
        assert!(matches!(
            build(wrong),
            Err(Error::CertificateMismatch {
                field: "releases",
                ..
            })
        ));
    }
}

#[test]
fn run_without_releases_cannot_be_called_private() {
    let empty = Plan::calibrate(TARGET, Adjacency::AddRemoveUser, &[]).unwrap();
    let private = Certificate::builder(&empty, "d").build();
    assert!(matches!(private, Err(Error::NothingReleased)));
    let baseline = Certificate::builder(&empty, "d")
        .not_private("no noise")
        .build();
    assert!(!baseline.unwrap().verify().unwrap().is_private());
}

#[test]
fn two_runs_never_share_a_payment() {
    let adjacency = Adjacency::AddRemoveUser;
    let (first, second) = (builder(adjacency).build(), builder(adjacency).build());
    for (a, b) in first
        .unwrap()
        .releases
        .iter()
        .zip(&second.unwrap().releases)
    {
        assert_eq!(a.event, b.event);
        assert_ne!(a.release_id, b.release_id);
    }
}
