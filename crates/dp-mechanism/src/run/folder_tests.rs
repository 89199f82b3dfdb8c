use std::ops::ControlFlow;

use dp_accounting::{Budget, Error as AccountingError, Ledger};

use super::folder::if_no_room;
use super::tests::{Everything, bits, plan, users};
use super::*;
use crate::ShardSum;

/// Ends a run after this many releases, as an observer may.
struct EndAfter(usize);

impl Observer for EndAfter {
    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Changes the ledger's file after the last release of a run, after which nothing is charged.
struct AfterTheLast<F>(F);

impl<F: FnMut()> Observer for AfterTheLast<F> {
    fn progress(&mut self, at: Progress) -> ControlFlow<()> {
        if at.done == at.total {
            self.0();
        }
        ControlFlow::Continue(())
    }
}

/// Loses its workers during the sum of one step.
struct FailsAt(usize);

impl SumBackend for FailsAt {
    fn sum(&self, request: &SumRequest, shard: &ShardSum<'_>) -> Result<Private<Vec<i64>>> {
        if request.step == self.0 {
            return Err(Error::Link { what: "gone" });
        }
        shard(0)
    }
}

struct Place {
    folder: tempfile::TempDir,
    trainer: Everything,
    plan: Plan,
    users: Private<Interactions>,
}

impl Place {
    fn new(sampled: bool) -> Self {
        let trainer = Everything { sampled };
        Self {
            folder: tempfile::tempdir().unwrap(),
            plan: plan(&trainer),
            trainer,
            users: users(),
        }
    }

    fn ledger(&self, budget: Budget) -> Ledger {
        Ledger::open_or_create(self.folder.path().join("ledger"), "made", budget).unwrap()
    }

    fn train(
        &self,
        budget: Budget,
        observer: &mut dyn Observer,
        backend: &dyn SumBackend,
    ) -> Result<Fitted<Vec<f64>>> {
        let noise = &mut NoiseSource::insecure_seeded(3);
        let ledgers = &mut [self.ledger(budget)];
        let folder = RunFolder::new(self.folder.path().join("run"));
        let parts = (&mut ledgers[..], noise, observer);
        folder.train_with(&self.trainer, &self.users, &self.plan, "r", backend, parts)
    }

    fn n_paid(&self, budget: Budget) -> u64 {
        self.ledger(budget).n_releases()
    }

    fn expected(&self) -> Vec<u64> {
        let noise = &mut NoiseSource::insecure_seeded(3);
        let budget = Budget::schedule(self.plan.target(), self.plan.adjacency()).unwrap();
        let spends = Ledger::in_memory("made", budget)
            .unwrap()
            .reserve(&self.plan);
        let fitted = self
            .trainer
            .fit(&self.users, &self.plan, spends.unwrap(), noise);
        bits(&fitted.unwrap().model)
    }
}

fn schedule(plan: &Plan) -> Budget {
    Budget::schedule(plan.target(), plan.adjacency()).unwrap()
}

#[test]
fn a_run_ended_after_any_release_goes_on_and_a_schedule_pays_once() {
    for sampled in [false, true] {
        let expected = Place::new(sampled).expected();
        let n = if sampled { 9 } else { 7 };
        for made in 1..=n {
            let place = Place::new(sampled);
            let budget = schedule(&place.plan);
            let ended = place.train(budget, &mut EndAfter(made), &InProcess);
            assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
            let again = place.train(budget, &mut (), &InProcess).unwrap();
            assert_eq!(bits(&again.model), expected);
            assert!(again.certificate.verify().is_ok());
            let n_planned = place.plan.releases().len() as u64;
            assert_eq!(place.n_paid(budget), n_planned);
            // a further call takes everything from the list
            let once_more = place.train(budget, &mut (), &InProcess).unwrap();
            assert_eq!(once_more.releases_hash, again.releases_hash);
            assert_eq!(place.n_paid(budget), n_planned);
        }
    }
}

#[test]
fn a_release_that_was_taken_and_not_listed_is_paid_for_again_where_there_is_room() {
    let place = Place::new(true);
    // the coins of step 1 were tossed, then its workers failed
    let rdp = |epsilon| {
        let target = dp_core::ApproxDp::target(epsilon, 1e-5).unwrap();
        Budget::rdp(target, place.plan.adjacency(), 8.0).unwrap()
    };
    let lost = place.train(rdp(12.0), &mut (), &FailsAt(7));
    assert!(matches!(lost, Err(Error::Link { .. })), "{lost:?}");
    let n_planned = place.plan.releases().len() as u64;
    assert_eq!(place.n_paid(rdp(12.0)), n_planned);
    let again = place.train(rdp(12.0), &mut (), &InProcess).unwrap();
    assert_eq!(place.n_paid(rdp(12.0)), n_planned + 1);
    assert!(again.certificate.verify().is_ok());

    let place = Place::new(true);
    let budget = schedule(&place.plan);
    let lost = place.train(budget, &mut (), &FailsAt(7));
    assert!(matches!(lost, Err(Error::Link { .. })));
    let refused = place.train(budget, &mut (), &InProcess);
    let named = "step 1";
    assert!(
        matches!(&refused, Err(Error::Accounting(dp_accounting::Error::AlreadyTaken { label })) if label == named),
        "{refused:?}"
    );
}

#[test]
fn a_ledger_replaced_after_the_last_payment_is_made_whole_or_keeps_the_model_back() {
    let place = Place::new(false);
    let target = dp_core::ApproxDp::target(30.0, 1e-5).unwrap();
    let budget = Budget::rdp(target, place.plan.adjacency(), 8.0).unwrap();
    drop(place.ledger(budget));
    let (path, older) = (
        place.folder.path().join("ledger"),
        place.folder.path().join("older"),
    );
    std::fs::copy(&path, &older).unwrap();
    // the ledger is missing, so it is unknown what was spent
    let elsewhere = place.folder.path().join("elsewhere");
    let mut remove = AfterTheLast(|| std::fs::rename(&path, &elsewhere).unwrap());
    let refused = place.train(budget, &mut remove, &InProcess);
    assert!(
        matches!(
            &refused,
            Err(Error::Accounting(
                dp_accounting::Error::LedgerReplaced { .. }
            ))
        ),
        "{refused:?}"
    );
    // after restoring it, everything is taken from the list
    std::fs::rename(&elsewhere, &path).unwrap();
    assert!(place.train(budget, &mut (), &InProcess).is_ok());

    // an older copy is completed with the lines that it lacks before the model is released
    std::fs::remove_dir_all(place.folder.path().join("run")).unwrap();
    std::fs::rename(&older, &path).unwrap();
    std::fs::copy(&path, &older).unwrap();
    let mut put_back = AfterTheLast(|| std::fs::rename(&older, &path).unwrap());
    assert!(place.train(budget, &mut put_back, &InProcess).is_ok());
    assert!(!older.exists());
    let n_planned = place.plan.releases().len() as u64;
    assert_eq!(place.n_paid(budget), n_planned);
}

#[test]
fn sums_over_everybody_that_never_arrived_cost_nothing() {
    let place = Place::new(false);
    let budget = schedule(&place.plan);
    for step in 0..6 {
        let lost = place.train(budget, &mut (), &FailsAt(step));
        assert!(matches!(lost, Err(Error::Link { .. })), "{step}");
    }
    let whole = place.train(budget, &mut (), &InProcess).unwrap();
    assert_eq!(bits(&whole.model), place.expected());
}

#[test]
fn a_folder_of_another_ledger_or_run_is_refused() {
    let place = Place::new(false);
    let budget = schedule(&place.plan);
    place
        .train(budget, &mut EndAfter(2), &InProcess)
        .unwrap_err();
    std::fs::remove_file(place.folder.path().join("ledger")).unwrap();
    let refused = place.train(budget, &mut (), &InProcess);
    assert!(matches!(refused, Err(Error::List { .. })), "{refused:?}");
    let noise = &mut NoiseSource::insecure_seeded(3);
    let folder = RunFolder::new(place.folder.path().join("run"));
    let ledgers = &mut [place.ledger(budget)];
    let (trainer, plan) = (&place.trainer, &place.plan);
    let refused = folder.train(
        trainer,
        &place.users,
        plan,
        ledgers,
        "other",
        noise,
        &mut (),
    );
    assert!(matches!(refused, Err(Error::ListOfAnotherRun { .. })));
    assert_eq!(ledgers[0].n_releases(), 0);
}

#[test]
fn a_run_with_too_few_ledgers_or_too_many_is_refused_before_it_begins() {
    let place = Place::new(false);
    let budget = schedule(&place.plan);
    let folder = RunFolder::new(place.folder.path().join("run"));
    let in_memory = || Ledger::in_memory("made", budget).unwrap();
    for mut ledgers in [vec![], vec![in_memory(), in_memory()]] {
        let (noise, observer) = (&mut NoiseSource::insecure_seeded(3), &mut ());
        let parts = (
            &mut ledgers[..],
            &mut *noise,
            &mut *observer as &mut dyn Observer,
        );
        let (users, plan) = (&place.users, &place.plan);
        let refused = folder.train_with(&place.trainer, users, plan, "r", &InProcess, parts);
        assert!(matches!(refused, Err(Error::Shape(_))), "{refused:?}");
        assert!(!folder.is_begun());
        assert!(ledgers.iter().all(|ledger| ledger.n_releases() == 0));
    }
}

/// The ledger holds the schedule, but the process ended before the folder recorded its lines.
#[test]
fn a_schedule_that_was_held_and_never_used_is_adopted_and_not_paid_for_again() {
    let place = Place::new(true);
    let budget = schedule(&place.plan);
    let n_planned = place.plan.releases().len() as u64;
    drop(place.ledger(budget).hold(&place.plan).unwrap());
    assert_eq!(place.n_paid(budget), n_planned);
    let whole = place.train(budget, &mut (), &InProcess).unwrap();
    assert_eq!(bits(&whole.model), place.expected());
    assert_eq!(place.n_paid(budget), n_planned);

    // a schedule of which a line was handed out belongs to another run
    let place = Place::new(true);
    let mut ledger = place.ledger(budget);
    let reservation = ledger.hold(&place.plan).unwrap();
    drop(ledger.take(&reservation, 0).unwrap());
    drop(ledger);
    let refused = place.train(budget, &mut (), &InProcess);
    assert!(matches!(refused, Err(Error::Accounting(_))), "{refused:?}");
    assert_eq!(place.n_paid(budget), n_planned);
}

#[test]
fn only_a_ledger_without_room_says_that_a_release_was_taken() {
    let taken = || AccountingError::AlreadyTaken {
        label: "sum".to_owned(),
    };
    let full = AccountingError::Io {
        path: "l.ledger".into(),
        source: std::io::ErrorKind::StorageFull.into(),
    };
    assert!(matches!(
        if_no_room(taken(), full),
        AccountingError::Io { .. }
    ));
    let no_room = if_no_room(taken(), AccountingError::ScheduleInParts);
    assert!(matches!(no_room, AccountingError::AlreadyTaken { .. }));
}
