//! Models follow from release lists: after a crash, over shards, with workers, in a replay.

use std::ops::ControlFlow;
use std::thread;

use dp_accounting::{Budget, Ledger, Plan};
use dp_core::{Adjacency, UserSamples};
use dp_fedsgd::{
    AlphaSelection, ClipSchedule, Coordinator, Error, Fitted, HeldBatches, LocalTraining, Observer,
    PpSgdModel, PpSgdParams, Progress, PublicEarlyStopping, ReleaseList, Run, Server, Shard,
    Trainer, UserBatches, UserRow,
};
use dp_mechanism::{
    CoordinatorLink, Error as KernelError, FixedSizeSampling, NoiseSource, PoissonSampling,
    ReleaseEntry, RunFolder, ShardAnswer, Sharded, ToWorker, TrainerCheck, worker_channels,
};

use crate::support::{ADD_REMOVE, bits, paid, samples, squared, trusting};

const N: usize = 40;
const DIM: usize = 3;
const ROUNDS: usize = 5;
const RUN: &str = "rounds over users";
const SEED: u64 = 5;

fn data() -> UserSamples {
    samples(u32::try_from(N).unwrap(), DIM, 4, 3)
}

fn everybody() -> PpSgdParams {
    let mut params = PpSgdParams::new(2.0, 0.3, 0.5, ROUNDS, N as f64);
    params.average = true;
    params
}

fn following_a_quantile() -> PpSgdParams {
    let mut params = everybody();
    params.minimum_clients = Some(10.0);
    params.clip = ClipSchedule::Quantile {
        start: 0.5,
        quantile: 0.6,
        rate: 0.2,
        low: 0.1,
        high: 2.0,
    };
    params
}

/// Users train only when they are asked.
fn when_asked() -> PpSgdParams {
    everybody().sampled(PoissonSampling::new(0.4).unwrap().into())
}

fn every_round() -> PpSgdParams {
    let mut params = when_asked();
    params.local_training = LocalTraining::EveryRound;
    params
}

fn fixed_size() -> PpSgdParams {
    everybody().sampled(FixedSizeSampling::new(15, N).unwrap().into())
}

fn plan(params: PpSgdParams) -> Plan {
    let adjacency = if params == fixed_size() {
        Adjacency::ReplaceUser
    } else {
        ADD_REMOVE
    };
    let fit = params.check().unwrap();
    fit.plan_with_noise(DIM, 2.0, 1e-5, adjacency).unwrap()
}

/// Bits of the released part.
fn shared_bits(model: &PpSgdModel) -> Vec<u64> {
    let shared = &model.shared;
    let all = shared.last().iter().chain(shared.average().unwrap());
    all.map(|x| x.to_bits()).collect()
}

/// The users distributed over shards. The tables live as long as the test.
fn dealt(
    data: &UserSamples,
    n_shards: usize,
    shard: &dyn Fn(u128) -> usize,
) -> Vec<Box<dyn UserBatches + 'static>> {
    let parts = data.deal(n_shards, shard).into_iter();
    let batches = parts.map(|part| {
        let part: &'static UserSamples = Box::leak(Box::new(part));
        Box::new(HeldBatches::new(part, 2).unwrap()) as Box<dyn UserBatches>
    });
    batches.collect()
}

#[test]
fn models_follow_from_releases_wherever_the_users_are() {
    for (params, resumes, shards) in [
        (everybody(), true, true),
        (following_a_quantile(), true, true),
        (every_round(), true, true),
        (fixed_size(), true, false),
        (when_asked(), false, true),
    ] {
        let plan = plan(params);
        let data: &'static UserSamples = Box::leak(Box::new(data()));
        let nobody: &'static UserSamples = Box::leak(Box::new(data.without_users()));
        let (rows, empty) = (HeldBatches::new(data, 2), HeldBatches::new(nobody, 2));
        let (rows, empty) = (rows.unwrap(), empty.unwrap());
        let model = squared(DIM);
        let trainer = params.check().unwrap().with(&model);
        let laws = TrainerCheck {
            trainer: &trainer,
            plan: &plan,
            data: &rows as &(dyn UserBatches + 'static),
            nobody: &empty,
            table: &|batches| batches.table(),
            deal: &|n, shard| dealt(data, n, shard),
            bits: &shared_bits,
        };
        laws.replay().unwrap();
        if resumes {
            laws.resume().unwrap();
        } else {
            let refused = laws.resume().unwrap_err();
            assert!(refused.what.contains("NotResumable"), "{refused}");
            assert!(refused.what.contains("after 1 of 5"), "{refused}"); // from an empty list it runs
        }
        if shards {
            laws.shards().unwrap();
            laws.workers().unwrap();
        } else {
            for refused in [laws.shards(), laws.workers()] {
                assert!(refused.unwrap_err().what.contains("Sampling"));
            }
        }
    }
}

/// A run in memory: the model and its list.
fn whole(params: PpSgdParams, data: &UserSamples) -> (Fitted<PpSgdModel>, Vec<ReleaseEntry>) {
    #[derive(Default)]
    struct Keep(Vec<ReleaseEntry>);
    impl Observer for Keep {
        fn listed(&mut self, entry: &ReleaseEntry) {
            self.0.push(entry.clone());
        }
    }
    let (plan, model, mut keep) = (plan(params), squared(DIM), Keep::default());
    let rows = HeldBatches::new(data, 2).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(SEED);
    let run = Run::new(&plan, paid(&plan), noise).unwrap();
    let run = run.listed_in(ReleaseList::hashes_only(RUN, &plan).unwrap());
    let run = run.observed_by(&mut keep);
    let fitted = params.check().unwrap().with(&model).run(&rows, run);
    (fitted.unwrap(), keep.0)
}

/// Ends a run after this many releases.
struct EndAfter(usize);

impl Observer for EndAfter {
    fn progress(&mut self, at: Progress) -> ControlFlow<()> {
        if at.done == self.0 {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

#[test]
fn a_run_that_was_killed_goes_on_with_everybodys_local_parameters_and_pays_nothing_twice() {
    let (data, model) = (data(), squared(DIM));
    let rows = HeldBatches::new(&data, 2).unwrap();
    for params in [everybody(), following_a_quantile()] {
        let (expected, plan) = (whole(params, &data).0, plan(params));
        let trainer = params.check().unwrap().with(&model);
        for made in 1..=ROUNDS {
            let folder = tempfile::tempdir().unwrap();
            let budget = Budget::new(plan.target(), plan.adjacency()).unwrap();
            let ledger = folder.path().join("ledger");
            let open = || Ledger::open_or_create(&ledger, "made", budget).unwrap();
            let train = |observer: &mut dyn Observer| {
                let noise = &mut NoiseSource::insecure_seeded(SEED);
                let ledgers = &mut [open()];
                let place = RunFolder::new(folder.path().join("run"));
                place.train(&trainer, &rows, &plan, ledgers, RUN, noise, observer)
            };
            let killed = train(&mut EndAfter(made));
            assert!(matches!(
                killed,
                Err(Error::Mechanism(KernelError::Cancelled))
            ));
            assert_eq!(open().n_releases(), made as u64);
            let resumed = train(&mut ()).unwrap();
            assert!(bits(&resumed.model, N) == bits(&expected.model, N));
            assert_eq!(open().n_releases(), ROUNDS as u64);
        }
    }
}

#[test]
fn a_run_whose_users_train_when_asked_is_not_resumed_and_costs_nothing_when_refused() {
    let (data, params, model) = (data(), when_asked(), squared(DIM));
    let rows = HeldBatches::new(&data, 2).unwrap();
    let (plan, entries) = (plan(params), whole(params, &data).1);
    let trainer = params.check().unwrap().with(&model);
    let budget = Budget::schedule(plan.target(), plan.adjacency()).unwrap();
    let mut ledger = OfThisRun(Ledger::in_memory("made", budget).unwrap());
    let noise = &mut NoiseSource::insecure_seeded(SEED);
    let list = ReleaseList::of_entries(RUN, &plan, entries[..2].to_vec()).unwrap();
    let run = Run::paying(&plan, &mut ledger, noise).unwrap();
    let Err(refused) = trainer.run(&rows, run.listed_in(list)) else {
        panic!("went on without the coins");
    };
    assert!(matches!(
        refused,
        Error::Mechanism(KernelError::NotResumable)
    ));
    assert!(refused.to_string().contains("who was asked is in no list"));
    assert_eq!(ledger.0.n_releases(), 0);
}

/// A ledger in place of the one that paid for the first releases.
struct OfThisRun(Ledger);

impl dp_mechanism::Payer for OfThisRun {
    fn pay(
        &mut self,
        plan: &Plan,
        releases: std::ops::Range<usize>,
        account: usize,
    ) -> dp_accounting::Result<Vec<dp_accounting::Spend>> {
        dp_mechanism::Payer::pay(&mut self.0, plan, releases, account)
    }

    fn has_paid(&self, _: &dp_mechanism::PaidLine) -> bool {
        true
    }
}

#[test]
fn local_parameters_are_the_same_over_shards_and_where_users_are() {
    let (data, model) = (data(), squared(DIM));
    for params in [everybody(), when_asked(), every_round()] {
        let (expected, plan) = (whole(params, &data).0.model, plan(params));
        let trainer = params.check().unwrap().with(&model);
        let rows = HeldBatches::new(&data, 2).unwrap();
        for n_shards in [2, 3, 8] {
            let backend = Sharded::new(n_shards).unwrap();
            let noise = &mut NoiseSource::insecure_seeded(SEED);
            let run = Run::new(&plan, paid(&plan), noise).unwrap();
            let found = trainer.run(&rows, run.summed_by(&backend)).unwrap();
            assert!(bits(&found.model, N) == bits(&expected, N));
        }
        // workers hold the parameters of their users, the coordinator holds none
        let parts = data.deal(3, Shard::dealer(RUN, 3));
        let nobody = data.without_users();
        let (pool, links) = worker_channels(3);
        let backend = Coordinator::new(pool);
        let own = thread::scope(|scope| {
            let workers = parts.iter().zip(links).enumerate();
            let workers: Vec<_> = workers
                .map(|(number, (part, mut link))| {
                    let (plan, params, model) = (&plan, params, &model);
                    scope.spawn(move || {
                        let rows = HeldBatches::new(part, 2).unwrap();
                        let shard = Shard::new(RUN, number, 3).unwrap();
                        let run = Run::worker(plan, shard, part.table(), &mut link).unwrap();
                        let trainer = params.check().unwrap().with(model);
                        trainer.run(&rows, run).unwrap().model.local.into_exposed()
                    })
                })
                .collect();
            let noise = &mut NoiseSource::insecure_seeded(SEED);
            let run = Run::new(&plan, paid(&plan), noise).unwrap();
            let run = run.listed_in(ReleaseList::hashes_only(RUN, &plan).unwrap());
            let empty = HeldBatches::new(&nobody, 2).unwrap();
            let made = trainer.run(&empty, run.summed_by(&backend)).unwrap();
            assert!(shared_bits(&made.model) == shared_bits(&expected));
            let local = made.model.local.expose();
            assert_eq!((local.n_users(), expected.local.expose().n_users()), (0, N));
            let own: Vec<_> = workers.into_iter().map(|w| w.join().unwrap()).collect();
            own
        });
        for (part, own) in parts.iter().zip(&own) {
            let table = part.table().expose();
            assert_eq!(own.n_users(), table.n_users());
            for user in 0..table.n_users() {
                let whole = usize::try_from(table.user_id(user)).unwrap();
                assert_eq!(own.last(user), expected.local.expose().last(whole));
            }
        }
    }
}

/// Sends earlier releases to a restarted worker, and requests nothing from it.
struct Told(std::vec::IntoIter<ReleaseEntry>);

impl CoordinatorLink for Told {
    fn exchange(&mut self, _: Option<ShardAnswer>) -> dp_mechanism::Result<ToWorker> {
        Ok(self.0.next().map_or(ToWorker::End, ToWorker::Released))
    }
}

#[test]
fn a_worker_that_was_started_again_makes_the_local_steps_of_its_users_or_is_refused() {
    let (data, model) = (data(), squared(DIM));
    let rows = HeldBatches::new(&data, 2).unwrap();
    for (params, follow) in [(everybody(), true), (when_asked(), false)] {
        let ((expected, entries), plan) = (whole(params, &data), plan(params));
        let mut link = Told(entries.into_iter());
        let shard = Shard::new(RUN, 0, 1).unwrap();
        let run = Run::worker(&plan, shard, data.table(), &mut link).unwrap();
        let again = params.check().unwrap().with(&model).run(&rows, run);
        if follow {
            assert!(bits(&again.unwrap().model, N) == bits(&expected.model, N));
        } else {
            assert!(matches!(
                again,
                Err(Error::Mechanism(KernelError::NotResumable))
            ));
        }
    }
}

#[test]
fn a_replay_has_the_certificate_of_the_run_and_local_parameters_where_they_follow() {
    let data = data();
    let (rows, model) = (HeldBatches::new(&data, 2).unwrap(), squared(DIM));
    for (params, follow) in [(everybody(), true), (when_asked(), false)] {
        let ((made, entries), plan) = (whole(params, &data), plan(params));
        let trainer = params.check().unwrap().with(&model);
        let replay = |entries: &[ReleaseEntry]| {
            let list = ReleaseList::of_entries(RUN, &plan, entries.to_vec()).unwrap();
            trainer.run(&rows, Run::replay(&plan, list).unwrap())
        };
        let again = replay(&entries).unwrap();
        assert_eq!(again.certificate.to_json(), made.certificate.to_json());
        assert_eq!(again.releases_hash, made.releases_hash);
        let n_users = again.model.local.expose().n_users();
        assert_eq!(n_users, if follow { N } else { 0 });
        assert!(bits(&again.model, n_users) == bits(&made.model, n_users));
        // the model of the available rounds
        let shorter = replay(&entries[..3]).unwrap();
        assert_eq!(shorter.model.shared.n_rounds(), 3);
        assert_eq!(shorter.certificate.releases.len(), 3);
        let none = replay(&[]);
        assert!(matches!(
            none,
            Err(Error::Mechanism(KernelError::EndOfList))
        ));
    }
}

#[test]
fn a_replay_stops_early_after_the_same_round() {
    let (data, model) = (data(), squared(DIM));
    let mut params = everybody();
    params.n_rounds = 40;
    let plan = plan(params);
    let trainer = || {
        let stopping = PublicEarlyStopping::new(2, |w: &[f64]| (w[0] - 0.4).powi(2));
        params
            .check()
            .unwrap()
            .with(&model)
            .stopping_early(stopping)
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list");
    let rows = HeldBatches::new(&data, 2).unwrap();
    let budget = Budget::new(plan.target(), plan.adjacency()).unwrap();
    let mut ledger = Ledger::in_memory("made", budget).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(SEED);
    let run = Run::paying(&plan, &mut ledger, noise).unwrap();
    let run = run.listed_in(ReleaseList::open(&path, RUN, &plan).unwrap());
    let made = trainer().run(&rows, run).unwrap();
    let n_rounds = made.model.shared.n_rounds();
    assert!(n_rounds < 40);
    assert_eq!(ledger.n_releases(), n_rounds as u64); // paid release by release
    assert_eq!(made.certificate.releases.len(), n_rounds);

    let list = ReleaseList::read(&path, RUN, &plan).unwrap();
    let nobody = data.without_users();
    let empty = HeldBatches::new(&nobody, 2).unwrap();
    let run = Run::replay(&plan, list).unwrap();
    let again = trainer().run(&empty, run).unwrap();
    assert!(shared_bits(&again.model) == shared_bits(&made.model));
    assert_eq!(again.model.shared.n_rounds(), n_rounds);
}

#[test]
fn minibatches_of_copied_rows_and_of_rows_of_other_tables_are_the_same() {
    let (one, other) = (data(), data());
    let batches = HeldBatches::new(&one, 2).unwrap();
    let fill = |user: UserRow<'_>, step| {
        let mut rows = dp_fedsgd::Minibatch::new(DIM);
        batches.fill(user, step, &mut rows);
        let rows = rows.rows().map(|(x, y)| (x.to_vec(), y));
        rows.collect::<Vec<_>>()
    };
    let shards = one.table().expose().shards(3);
    let copied: Vec<UserRow<'_>> = shards.iter().flat_map(|shard| shard.users()).collect();
    let built_again = other.table().expose();
    for (number, user) in one.table().expose().users().enumerate() {
        for step in 0..3 {
            let expected = fill(user, step);
            assert!(!expected.is_empty());
            assert_eq!(fill(copied[number], step), expected);
            assert_eq!(fill(built_again.user(number), step), expected);
        }
    }
}

#[test]
fn a_server_goes_on_from_its_list_and_clients_notice_nothing() {
    use dp_fedsgd::Client;
    let (data, model, params) = (data(), squared(DIM), when_asked());
    let rows = HeldBatches::new(&data, 2).unwrap();
    let (plan, fit) = (plan(params), params.check().unwrap());
    let (expected, entries) = whole(params, &data);
    let budget = Budget::schedule(plan.target(), plan.adjacency()).unwrap();
    let each = (0..N).map(|user| Client::new(&model, &rows, user, user, trusting()).unwrap());
    let mut clients: Vec<_> = each.collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list");
    let mut ledger = Ledger::in_memory("made", budget).unwrap();
    let reservation = ledger.hold(&plan).unwrap();
    let mut payer = Held(ledger, reservation);
    let mut run_id = None;
    // two rounds per server, each time a new one
    for _ in 0..3 {
        let noise = &mut NoiseSource::insecure_seeded(SEED);
        let run = Run::paying(&plan, &mut payer, noise).unwrap();
        let run = run.listed_in(ReleaseList::open(&path, RUN, &plan).unwrap());
        let mut server = Server::new(fit, DIM, run).unwrap();
        for _ in 0..2 {
            let Some(round) = server.open_round(N).unwrap() else {
                break;
            };
            let message = round.message();
            assert_eq!(run_id.get_or_insert(message.run.clone()), &message.run);
            let mut updates = Vec::new();
            for (number, client) in clients.iter_mut().enumerate() {
                let asked = round.asked().binary_search(&number).is_ok();
                updates.extend(client.receive(message, asked).unwrap().update());
            }
            round
                .close(updates, &mut |rejection| panic!("{rejection}"))
                .unwrap();
        }
    }
    let list = ReleaseList::read(&path, RUN, &plan).unwrap();
    let served = Server::new(fit, DIM, Run::replay(&plan, list).unwrap()).unwrap();
    let served = served.finish().unwrap();
    assert_eq!(served.n_releases, entries.len());
    assert_eq!(served.model.last(), expected.model.shared.last());
    for (user, client) in clients.iter().enumerate() {
        assert_eq!(client.local(), expected.model.local.expose().last(user));
    }
}

/// Pays from one reservation.
struct Held(Ledger, dp_accounting::Reservation);

impl dp_mechanism::Payer for Held {
    fn pay(
        &mut self,
        _: &Plan,
        releases: std::ops::Range<usize>,
        _: usize,
    ) -> dp_accounting::Result<Vec<dp_accounting::Spend>> {
        let Self(ledger, reservation) = self;
        releases.map(|at| ledger.take(reservation, at)).collect()
    }

    fn has_paid(&self, line: &dp_mechanism::PaidLine) -> bool {
        self.0.has_paid(line)
    }
}

#[test]
fn the_choice_among_runs_is_in_the_list_as_well() {
    let data = data();
    let selection = AlphaSelection::new(1.0, 4.0).unwrap();
    let plan = selection.plan(1e-6, ADD_REMOVE).unwrap();
    let loss = |user: UserRow<'_>, run: usize| {
        let first = user.features().first().copied().unwrap_or(0.0);
        (f64::from(first) - run as f64).powi(2)
    };
    let trainer = selection.among(4, loss);
    let nobody = data.without_users();
    let laws = TrainerCheck {
        trainer: &trainer,
        plan: &plan,
        data: data.table(),
        nobody: nobody.table(),
        table: &|table| table,
        deal: &|n, shard| {
            let parts = data.table().expose().deal(n, shard).into_iter();
            parts
                .map(|part| Box::new(dp_core::Private::new(part)))
                .collect()
        },
        bits: &|selected: &usize| vec![*selected as u64],
    };
    laws.all().unwrap();
}
