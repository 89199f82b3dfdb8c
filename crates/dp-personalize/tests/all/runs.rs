//! Requirements on every trainer: its model is a function of its releases, wherever the users are
//! and however often the run was interrupted.

use std::ops::{ControlFlow, Range};

use dp_accounting::{Ledger, Plan, Spend};
use dp_core::{UserSamples, UserSamplesBuilder};
use dp_mechanism::{Error as KernelError, TrainerCheck};
use dp_personalize::{
    AltMinParams, Candidates, Error, ExponentialSelectionParams, Initialisation, Observer, Payer,
    PersonalModel, Progress, Provenance, ReleaseList, ResidualAltMinParams, Run, SingleModelParams,
    Subspace, Trainer,
};

use crate::support::{ADJACENCIES, DIM, fit, ledger, made, seeded, target, variants};

type Bits<M> = fn(&M) -> Vec<u64>;

fn of_subspace(subspace: &Subspace) -> Vec<u64> {
    subspace.basis().iter().map(|x| x.to_bits()).collect()
}

fn of_model(model: &PersonalModel) -> Vec<u64> {
    model.coefficients().iter().map(|x| x.to_bits()).collect()
}

/// The accounts of a run, whose ledgers remain when it ends.
struct Accounts {
    ledgers: Vec<Ledger>,
    n_paid: usize,
}

impl Accounts {
    fn of(plan: &Plan, n_accounts: usize) -> Self {
        let accounts = 0..n_accounts;
        Self {
            ledgers: accounts.map(|account| ledger(plan, account)).collect(),
            n_paid: 0,
        }
    }
}

impl Payer for Accounts {
    fn pay(
        &mut self,
        plan: &Plan,
        releases: Range<usize>,
        account: usize,
    ) -> dp_accounting::Result<Vec<Spend>> {
        self.n_paid += releases.len();
        self.ledgers[account].pay(plan, releases, account)
    }

    fn has_paid(&self, line: &dp_mechanism::PaidLine) -> bool {
        self.ledgers[line.account].has_paid(line)
    }
}

/// Ends a run after this many releases were listed.
struct EndsAfter(usize);

impl Observer for EndsAfter {
    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        self.0 -= 1;
        match self.0 {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// A run that is killed after every single release, and continued by the next process from the
/// file.
fn resumes_from_a_file<T>(trainer: &T, samples: &UserSamples, name: &str, bits: Bits<T::Model>)
where
    T: Trainer<Data = UserSamples, Error = Error>,
{
    let whole = fit(trainer, samples, target(5.0), ADJACENCIES[0]).unwrap();
    let plan = trainer.plan(DIM, target(5.0), ADJACENCIES[0]).unwrap();
    let folder = std::env::temp_dir().join(format!("dp-personalize-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.releases"));
    let mut accounts = Accounts::of(&plan, trainer.n_accounts());
    let mut process = |made: usize| {
        let (mut noise, mut end) = (seeded(), EndsAfter(made));
        let list = ReleaseList::open(&path, name, &plan).unwrap();
        let run = Run::paying(&plan, &mut accounts, &mut noise).unwrap();
        trainer.run(samples, run.listed_in(list).observed_by(&mut end))
    };
    for made in 1..=whole.n_releases {
        let ended = process(made).map(|_| ());
        let cancelled = matches!(ended, Err(Error::Mechanism(KernelError::Cancelled)));
        assert!(cancelled, "{name} after {made}: {ended:?}");
    }
    let fitted = process(usize::MAX).unwrap();
    std::fs::remove_dir_all(&folder).ok();
    assert_eq!(bits(&fitted.model), bits(&whole.model), "{name}");
    assert_eq!(fitted.n_releases, whole.n_releases);
    let n_planned = plan.releases().len() * trainer.n_accounts();
    assert_eq!(
        accounts.n_paid, n_planned,
        "{name} paid for something twice"
    );
    assert_eq!(fitted.certificate.releases.len(), plan.releases().len());
}

fn check<T>(trainer: &T, samples: &UserSamples, name: &str, bits: Bits<T::Model>)
where
    T: Trainer<Data = UserSamples, Error = Error> + Sync,
{
    let plan = trainer.plan(DIM, target(5.0), ADJACENCIES[0]).unwrap();
    let check = TrainerCheck {
        trainer,
        plan: &plan,
        data: samples,
        nobody: &samples.without_users(),
        table: &UserSamples::table,
        deal: &|k, part| {
            let parts = samples.deal(k, part).into_iter();
            parts.map(Box::new).collect()
        },
        bits: &bits,
    };
    check.all().unwrap_or_else(|law| panic!("{name}: {law}"));
    resumes_from_a_file(trainer, samples, name, bits);
}

/// A run resumed after the first of two releases computes the second one without the cache that
/// served both, and copies of rows in shards find the entries of the table's cache.
#[test]
fn models_are_functions_of_the_list_of_releases() {
    let samples = made(60, 0.5).samples;
    for (at, settings) in variants().into_iter().enumerate() {
        let name = format!("variant-{at}");
        check(&settings.check().unwrap(), &samples, &name, of_subspace);
    }
    let start = Subspace::spanned_by(DIM, 1, &[1.0; DIM], Provenance::NonPrivate).unwrap();
    let given = AltMinParams {
        init: Initialisation::Given(start),
        ..AltMinParams::section_6(1)
    };
    check(&given.check().unwrap(), &samples, "given", of_subspace);
    let whitened = ResidualAltMinParams::new(2);
    let unwhitened = ResidualAltMinParams {
        whitening: None,
        ..whitened
    };
    for (name, settings) in [("whitened", whitened), ("unwhitened", unwhitened)] {
        check(&settings.check().unwrap(), &samples, name, of_subspace);
    }
    let single = SingleModelParams::new(3.0, 2.0).check().unwrap();
    check(&single, &samples, "single", of_model);
    let net = Candidates::net(DIM, 1, 2).unwrap();
    let selection = ExponentialSelectionParams::new(0.1).check(net).unwrap();
    check(&selection, &samples, "selection", of_subspace);
}

/// A replay without a remaining release ends, and does not make one.
#[test]
fn a_replay_makes_nothing() {
    let samples = made(30, 0.0).samples;
    let fit = ResidualAltMinParams::new(2).check().unwrap();
    let plan = fit.plan(DIM, target(5.0), ADJACENCIES[0]).unwrap();
    let list = ReleaseList::of_entries("nothing", &plan, Vec::new()).unwrap();
    let ended = fit.run(&samples, Run::replay(&plan, list).unwrap());
    let ended = ended.map(|_| ());
    assert!(matches!(
        ended,
        Err(Error::Mechanism(KernelError::EndOfList))
    ));
}

/// Levels lie behind a user's rows, and no method may read them as one.
#[test]
fn levels_beside_the_rows_change_no_subspace() {
    let samples = made(60, 0.5).samples;
    let (dim, max_rows) = (samples.n_features(), samples.max_rows());
    let mut builder = UserSamplesBuilder::new(dim, max_rows)
        .unwrap()
        .with_levels();
    for (user, rows) in (0..).zip(samples.users()) {
        for (x, y) in rows.iter() {
            builder.push(user, x, y).unwrap();
        }
        builder.set_level(user, 1e30, 1e30);
    }
    let with = builder.build().0;
    let same = |name: &str, learned: &dyn Fn(&UserSamples) -> Subspace| {
        assert_eq!(learned(&with), learned(&samples), "{name}");
    };
    for (at, settings) in variants().into_iter().enumerate() {
        let trainer = settings.check().unwrap();
        same(&format!("variant {at}"), &|samples| {
            fit(&trainer, samples, target(5.0), ADJACENCIES[0])
                .unwrap()
                .model
        });
    }
    let trainer = ResidualAltMinParams::new(2).check().unwrap();
    same("residual", &|samples| {
        fit(&trainer, samples, target(5.0), ADJACENCIES[0])
            .unwrap()
            .model
    });
}
