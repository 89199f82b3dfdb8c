use std::ops::ControlFlow;
use std::sync::Mutex;

use dp_accounting::{Budget, CertificateBuilder, Ledger, PlannedRelease, ReleaseRequest, Requests};
use dp_core::{Adjacency, ApproxDp, Relation, ReplaceFactor, UserRow};

use super::*;
use crate::test_support::{rebuilt, table};
use crate::{
    ExponentialMechanism, FactorBuffer, FactorContribution, FixedSizeSampling, GramGrids, GramSums,
    Grid, KroneckerContribution, KroneckerSum, OffDiagonalNoise, PoissonSampling, PrivateQuantile,
    RowsBuffer, ScoreChange, ShardAnswer, SparseBuffer, VectorContribution,
};

const N_ITEMS: usize = 5;

/// Makes every kind of release that a run supports, each depending on the one before.
pub(super) struct Everything {
    pub(super) sampled: bool,
}

struct Votes(f64);

impl VectorContribution for Votes {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        for (item, value) in user.iter() {
            out.push(item, f64::from(value) * self.0);
        }
    }
}

struct Factors(f64);

impl FactorContribution for Factors {
    type Scratch = ();

    fn scratch(&self) {}

    fn dim(&self) -> usize {
        2
    }

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut FactorBuffer) {
        out.factor
            .copy_from_slice(&[0.5, self.0 / (1.0 + user.len() as f64)]);
        out.weights.fill(0.3);
        for (label, &value) in out.labels.iter_mut().zip(user.values()) {
            *label = value.into();
        }
    }
}

struct Rows;

impl KroneckerContribution for Rows {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> (usize, usize) {
        (2, 1)
    }

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut RowsBuffer) {
        out.vector[0] = 0.9;
        out.push(&[user.len() as f32 / 9.0, 0.25], 0.9);
    }
}

fn quantile() -> PrivateQuantile {
    PrivateQuantile::new(0.5, (0.0, 9.0), 10, 0.5, Relation::AddRemove).unwrap()
}

fn mechanism() -> ExponentialMechanism {
    ExponentialMechanism::new(0.5, 1.0, ScoreChange::General, Relation::AddRemove).unwrap()
}

impl Trainer for Everything {
    type Data = Private<Interactions>;
    type Model = Vec<f64>;
    type Error = Error;

    fn width(&self, data: &Private<Interactions>) -> usize {
        data.expose().n_items()
    }

    fn requests(&self, width: usize, _: Adjacency) -> Result<Requests> {
        let sampled = self.sampled;
        let releases = move |z: f64| {
            let gaussian = |label: &str, replace_factor, n_draws| {
                let event = DpEvent::Gaussian {
                    noise_multiplier: z,
                    replace_factor,
                };
                PlannedRelease::new(label, event, n_draws)
            };
            let (two, psd) = (ReplaceFactor::Two, ReplaceFactor::SqrtTwo);
            let mut releases = vec![
                gaussian("votes", two, width as u64),
                gaussian("matrices", psd, GramSums::matrix_draws(width, 2)),
                gaussian("right-hand sides", two, GramSums::rhs_draws(width, 2)),
                gaussian("moments", two, KroneckerSum::draws(2)),
                gaussian("records", two, 1),
                gaussian("users", two, 1),
                PlannedRelease::new("median", quantile().event(), 0),
                PlannedRelease::new("best item", mechanism().event(), 0),
            ];
            if sampled {
                let event = DpEvent::sampled_gaussian(z, 0.5);
                releases.extend(
                    ["step 1", "step 2"]
                        .map(|label| PlannedRelease::new(label, event.clone(), width as u64)),
                );
            }
            releases
        };
        Ok(Requests::schedule(releases))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        certificate.released_output("numbers", "anyone")
    }

    fn train(&self, data: &Private<Interactions>, run: &mut Run<'_>) -> Result<Vec<f64>> {
        let n = self.width(data);
        let mut model = run.vector(data, (n, 3.0), &Votes(0.4))?.values();
        let scale = (model[0] / 100.0).clamp(0.1, 1.0);
        let grids = |a, b| GramGrids::new(a, 1.0, b, 2.0);
        let grams = run.grams(data, grids, &Factors(scale))?;
        let (mut matrix, mut rhs) = ([0.0; 4], [0.0; 2]);
        grams.write_item(1, &mut matrix, &mut rhs);
        model.extend(matrix.iter().chain(&rhs));
        let moments = run.kronecker(data, (OffDiagonalNoise::Isometric, 1.0), &Rows)?;
        model.extend(moments.values());
        let clip = 1.0 + rhs[0].abs();
        model.push(run.scalar(data, clip, |user| user.len() as f64)?.value());
        model.push(run.count(data)?.value());
        let median = run.quantile(data, &quantile(), |user| user.len() as f64)?;
        model.push(median.value());
        let best = run.select(data, n, mechanism(), &Votes(median.value() / 9.0))?;
        model.push(best.index() as f64);
        if self.sampled {
            let sampling = PoissonSampling::new(0.5)?;
            for _ in 0..2 {
                let step = Votes((model[0] / 100.0).clamp(0.1, 1.0));
                model = run
                    .sampled_vector(sampling, data, (n, 3.0), &step)?
                    .values();
                run.round(&Round {
                    round: 1,
                    parameters: &model,
                    shape: (n, 1),
                    local: None,
                });
            }
        }
        Ok(model)
    }
}

fn target() -> ApproxDp {
    ApproxDp::target(3.0, 1e-5).unwrap()
}

pub(super) fn plan(trainer: &Everything) -> Plan {
    let (adjacency, n) = (Adjacency::AddRemoveUser, N_ITEMS);
    trainer.plan(n, target(), adjacency).unwrap()
}

pub(super) fn users() -> Private<Interactions> {
    let table = table(300, N_ITEMS, 4, 7);
    rebuilt(&table, 0..table.n_users())
}

#[allow(clippy::ptr_arg, reason = "as a check takes it")]
pub(super) fn bits(model: &Vec<f64>) -> Vec<u64> {
    model.iter().map(|x| x.to_bits()).collect()
}

/// A table without users, with the same public shape.
fn nobody(data: &Private<Interactions>) -> Private<Interactions> {
    Private::new(data.expose().without_users())
}

fn seeded() -> NoiseSource {
    NoiseSource::insecure_seeded(3)
}

fn paying<'a>(plan: &'a Plan, payer: &'a mut dyn Payer, noise: &'a mut NoiseSource) -> Run<'a> {
    Run::paying(plan, payer, noise).unwrap()
}

fn ledger(plan: &Plan) -> Ledger {
    let budget = Budget::schedule(plan.target(), plan.adjacency()).unwrap();
    Ledger::in_memory("made", budget).unwrap()
}

fn checked<T>(trainer: &T, plan: &Plan, check: impl FnOnce(TrainerCheck<'_, T>))
where
    T: Trainer<Data = Private<Interactions>, Model = Vec<f64>>,
{
    let data = users();
    check(TrainerCheck {
        trainer,
        plan,
        data: &data,
        nobody: &nobody(&data),
        table: &|data| data,
        deal: &|k, part| {
            let parts = data.expose().deal(k, part).into_iter();
            parts.map(|table| Box::new(Private::new(table))).collect()
        },
        bits: &bits,
    });
}

#[test]
fn every_kind_of_release_is_a_function_of_the_list_wherever_the_users_are() {
    for sampled in [false, true] {
        let trainer = Everything { sampled };
        checked(&trainer, &plan(&trainer), |check| check.all().unwrap());
    }
}

/// The releases of another trainer, with a training function of its own.
struct Trained<F>(Everything, F);

impl<F> Trained<F>
where
    F: Fn(&Everything, &Private<Interactions>, &mut Run<'_>) -> Result<Vec<f64>>,
{
    fn by(train: F) -> Self {
        Self(Everything { sampled: false }, train)
    }
}

impl<F> Trainer for Trained<F>
where
    F: Fn(&Everything, &Private<Interactions>, &mut Run<'_>) -> Result<Vec<f64>>,
{
    type Data = Private<Interactions>;
    type Model = Vec<f64>;
    type Error = Error;

    fn width(&self, data: &Private<Interactions>) -> usize {
        self.0.width(data)
    }

    fn requests(&self, width: usize, adjacency: Adjacency) -> Result<Requests> {
        self.0.requests(width, adjacency)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        self.0.describe(certificate)
    }

    fn train(&self, data: &Private<Interactions>, run: &mut Run<'_>) -> Result<Vec<f64>> {
        (self.1)(&self.0, data, run)
    }
}

#[test]
fn a_trainer_that_looks_at_the_data_beside_its_releases_breaks_the_laws() {
    let peeking = Trained::by(|all, data, run| {
        let mut model = all.train(data, run)?;
        model[0] /= data.expose().n_users() as f64;
        Ok(model)
    });
    checked(&peeking, &plan(&peeking.0), |check| {
        assert!(check.replay().is_err() && check.workers().is_err());
    });
}

/// Counts what it observes and ends the run after some releases.
#[derive(Default)]
struct Seen {
    releases: Vec<String>,
    entries: Vec<ReleaseEntry>,
    rounds: usize,
    ends_after: usize,
}

impl Seen {
    /// An observer that does not end the run.
    fn all() -> Self {
        Self {
            ends_after: usize::MAX,
            ..Self::default()
        }
    }
}

impl Observer for Seen {
    fn release(&mut self, seen: &Observed<'_>) {
        self.releases.push(seen.labels[0].to_owned());
    }

    fn listed(&mut self, entry: &ReleaseEntry) {
        self.entries.push(entry.clone());
    }

    fn round(&mut self, _: &Round<'_>) {
        self.rounds += 1;
    }

    fn progress(&mut self, at: Progress) -> ControlFlow<()> {
        assert!(at.done <= at.total && at.total >= 8);
        if self.entries.len() == self.ends_after {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

#[test]
fn a_run_on_disk_goes_on_after_it_was_cut_off_at_any_byte_and_pays_for_what_is_missing() {
    let trainer = Everything { sampled: true };
    let (plan, data) = (plan(&trainer), users());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("releases.list");
    let fit = |payer: &mut dyn Payer| {
        let list = ReleaseList::open(&path, "a run", &plan).unwrap();
        trainer.run(&data, paying(&plan, payer, &mut seeded()).listed_in(list))
    };
    let whole = fit(&mut Paying::default()).unwrap();
    assert!(whole.certificate.verify().is_ok() && whole.n_releases == 9);
    let last = whole.certificate.releases.last().unwrap();
    assert_eq!(last.entry_hash.as_ref(), Some(&whole.releases_hash));
    let bytes = std::fs::read(&path).unwrap();
    let mut n_cut_off = 0;
    for end in (0..bytes.len()).step_by(97).chain([bytes.len()]) {
        std::fs::write(&path, &bytes[..end]).unwrap();
        let mut paying = Paying::default();
        let again = fit(&mut paying).unwrap();
        assert_eq!(bits(&again.model), bits(&whole.model), "cut off at {end}");
        assert!(again.certificate.verify().is_ok());
        n_cut_off += usize::from(paying.0 > 0);
        assert_eq!(paying.0 == 0, end == bytes.len());
    }
    assert!(n_cut_off > 10);
    // what was written the second time is the same list
    assert_eq!(std::fs::read(&path).unwrap().len(), bytes.len());
    let list = ReleaseList::read(&path, "a run", &plan).unwrap();
    let nobody = nobody(&data);
    let replayed = trainer.run(&nobody, Run::replay(&plan, list).unwrap());
    assert_eq!(bits(&replayed.unwrap().model), bits(&whole.model));
}

/// Pays from fresh ledgers and counts the payments.
#[derive(Default)]
struct Paying(usize);

impl Payer for Paying {
    fn pay(
        &mut self,
        plan: &Plan,
        releases: std::ops::Range<usize>,
        _: usize,
    ) -> dp_accounting::Result<Vec<Spend>> {
        self.0 += releases.len();
        let releases = plan.releases()[releases].to_vec();
        let part = Plan::with_noise_multipliers(1e-5, plan.adjacency(), releases)?;
        ledger(&part).reserve(&part)
    }

    fn has_paid(&self, _: &PaidLine) -> bool {
        true // from ledgers that no longer exist
    }
}

#[test]
fn integers_of_every_width_come_back_and_take_the_bytes_they_need() {
    let edges = (0..63).flat_map(|bits| [1_i64 << bits, -(1 << bits), (1 << bits) - 1]);
    for edge in edges.chain([i64::MIN, i64::MAX]) {
        let integers = vec![0, -1, edge, 1, !edge];
        let form = ReleaseForm {
            kind: ReleaseKind::Vector,
            labels: vec!["sum".to_owned()],
            grids: Vec::new(),
            n_integers: integers.len(),
            n_candidates: 0,
            night: None,
        };
        let entry = ReleaseEntry::new(form, Vec::new(), false, integers, (0, "")).unwrap();
        let bytes = entry.to_bytes().unwrap();
        assert_eq!(ReleaseEntry::from_bytes(&bytes).unwrap(), entry, "{edge}");
        let line = bytes.iter().position(|&byte| byte == b'\n').unwrap();
        let width = (1..=8).find(|w| edge == edge << (64 - 8 * w) >> (64 - 8 * w));
        assert_eq!(bytes.len() - line - 2, 5 * width.unwrap(), "{edge}");
    }
}

#[test]
fn what_is_appended_after_a_replay_is_not_replayed() {
    let trainer = Everything { sampled: false };
    let (plan_, folder) = (plan(&trainer), tempfile::tempdir().unwrap());
    let path = folder.path().join("releases.list");
    let open = || ReleaseList::open(&path, "a run", &plan_).unwrap();
    let entry = |step, previous: &str| {
        let form = ReleaseForm {
            kind: ReleaseKind::Vector,
            labels: vec!["sum".to_owned()],
            grids: Vec::new(),
            n_integers: 1,
            n_candidates: 0,
            night: None,
        };
        ReleaseEntry::new(form, Vec::new(), false, vec![1], (step, previous)).unwrap()
    };
    let mut list = open();
    let head = list.head().to_owned();
    list.append(&entry(0, &head)).unwrap();
    drop(list);
    let mut again = open();
    assert!(again.is_replaying().unwrap());
    let replayed = again.next_replayed().unwrap().unwrap();
    assert!(!again.is_replaying().unwrap());
    again.append(&entry(1, replayed.hash())).unwrap();
    assert!(!again.is_replaying().unwrap());
}

#[test]
fn lists_of_other_runs_plans_and_damaged_ones_are_refused_and_left_as_they_are() {
    let trainer = Everything { sampled: false };
    let plan_ = plan(&trainer);
    let data = users();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("releases.list");
    let open = |run: &str, plan: &Plan| ReleaseList::open(&path, run, plan);
    let list = open("a run", &plan_).unwrap();
    assert!(matches!(open("a run", &plan_), Err(Error::List { .. }))); // two writers
    let (mut payer, noise) = (Paying::default(), &mut seeded());
    let run = paying(&plan_, &mut payer, noise).listed_in(list);
    trainer.run(&data, run).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let other = plan(&Everything { sampled: true });
    for refused in [open("another run", &plan_), open("a run", &other)] {
        assert!(matches!(refused, Err(Error::ListOfAnotherRun { .. })));
    }
    // a changed byte in the middle is damage, not the end of the list
    let newline = bytes.iter().position(|&b| b == b'\n').unwrap();
    for at in [newline + 30, newline + 400] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        std::fs::write(&path, &changed).unwrap();
        assert!(
            matches!(open("a run", &plan_), Err(Error::List { .. })),
            "{at}"
        );
        assert!(std::fs::read(&path).unwrap() == changed);
    }
    // a length that was changed in the middle is not trusted, and does not swallow a later entry
    let text = br#""n_integers":"#;
    let at = bytes.windows(text.len()).position(|at| at == text).unwrap() + text.len();
    let mut changed = bytes.clone();
    changed[at] = b'9';
    std::fs::write(&path, &changed).unwrap();
    assert!(matches!(open("a run", &plan_), Err(Error::List { .. })));
    assert!(std::fs::read(&path).unwrap() == changed);
    // what a power failure leaves after the last entry is moved to a separate file
    let mut torn = bytes.clone();
    torn.extend([0; 5000]);
    torn.extend(b"\n more \n of an entry whose head was never written");
    std::fs::write(&path, &torn).unwrap();
    assert_eq!(open("a run", &plan_).unwrap().paid_before().len(), 8);
    assert!(std::fs::read(&path).unwrap() == bytes);
    assert_eq!(
        std::fs::read(path.with_extension("torn")).unwrap(),
        torn[bytes.len()..]
    );
    // in addition to what was moved before
    std::fs::write(&path, &torn[..=bytes.len()]).unwrap();
    assert_eq!(open("a run", &plan_).unwrap().paid_before().len(), 8);
    let numbers = [("torn", torn.len() - bytes.len()), ("torn-2", 1)];
    for (name, length) in numbers {
        let kept = std::fs::read(path.with_extension(name)).unwrap();
        assert_eq!(kept.len(), length, "{name}");
    }
    // a truncated first line is started again, and an unrelated file is left unchanged
    for (text, is_ours) in [(&bytes[..20], true), (b"my notes", false)] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(open("a run", &plan_).is_ok(), is_ours);
        assert_eq!(std::fs::read(&path).unwrap() == text, !is_ours);
    }
    // an entry of another list
    let foreign =
        ReleaseList::of_entries("a run", &plan_, entries_of(&Everything { sampled: true }));
    assert!(matches!(foreign, Err(Error::List { .. })));
}

fn entries_of(trainer: &Everything) -> Vec<ReleaseEntry> {
    let (plan, data) = (plan(trainer), users());
    let (mut seen, mut payer, noise) = (Seen::all(), Paying::default(), &mut seeded());
    let run = paying(&plan, &mut payer, noise).observed_by(&mut seen);
    trainer.run(&data, run).unwrap();
    seen.entries
}

#[test]
fn an_observer_sees_releases_once_and_can_end_a_run_which_keeps_what_was_made() {
    let trainer = Everything { sampled: true };
    let (plan, data) = (plan(&trainer), users());
    let fit = |before: Vec<ReleaseEntry>, seen: &mut Seen| {
        let list = ReleaseList::of_entries("r", &plan, before).unwrap();
        let (mut payer, noise) = (Paying::default(), &mut seeded());
        let run = paying(&plan, &mut payer, noise).listed_in(list);
        trainer.run(&data, run.observed_by(seen))
    };
    let mut first = Seen {
        ends_after: 4,
        ..Seen::default()
    };
    assert!(matches!(fit(Vec::new(), &mut first), Err(Error::Cancelled)));
    assert_eq!(
        first.releases,
        ["votes", "matrices", "moments", "records"][..first.releases.len()]
    );
    assert_eq!(first.entries.len(), 4);
    let mut second = Seen::all();
    fit(first.entries.clone(), &mut second).unwrap();
    assert_eq!(second.releases, ["users", "step 1", "step 2"]);
    assert_eq!((second.entries.len(), second.rounds), (9, 2));
    assert_eq!(second.entries[..4], first.entries[..]);
}

/// Records whether a charge was durable when a sum or the noise was requested.
#[test]
fn sums_over_everybody_are_paid_for_when_they_have_arrived_and_samples_before_their_coins() {
    struct Watching<'a> {
        paid: &'a Mutex<usize>,
        at_sum: Mutex<Vec<(usize, bool)>>,
    }
    impl SumBackend for Watching<'_> {
        fn sum(
            &self,
            request: &SumRequest,
            shard: &crate::ShardSum<'_>,
        ) -> Result<Private<Vec<i64>>> {
            let paid = *self.paid.lock().unwrap();
            let sampled = request.round_key.is_some();
            self.at_sum.lock().unwrap().push((paid, sampled));
            shard(0)
        }
    }
    struct Noting<'a>(&'a Mutex<usize>, Paying);
    impl Payer for Noting<'_> {
        fn pay(
            &mut self,
            plan: &Plan,
            releases: std::ops::Range<usize>,
            account: usize,
        ) -> dp_accounting::Result<Vec<Spend>> {
            *self.0.lock().unwrap() += releases.len();
            self.1.pay(plan, releases, account)
        }

        fn has_paid(&self, line: &PaidLine) -> bool {
            self.1.has_paid(line)
        }
    }
    let trainer = Everything { sampled: true };
    let (plan, data) = (plan(&trainer), users());
    let paid = Mutex::new(0);
    let backend = Watching {
        paid: &paid,
        at_sum: Mutex::default(),
    };
    let (mut payer, noise) = (Noting(&paid, Paying::default()), &mut seeded());
    let run = paying(&plan, &mut payer, noise).summed_by(&backend);
    trainer.run(&data, run).unwrap();
    let expected = [
        (0, false), // votes: nothing is charged while the sum is computed
        (1, false), // matrices and right-hand sides
        (3, false),
        (4, false),
        (5, false),
        (6, false),
        (7, false),
        (9, true), // a sample is charged before its coins are tossed
        (10, true),
    ];
    assert_eq!(*backend.at_sum.lock().unwrap(), expected);
}

#[test]
fn a_worker_that_dies_costs_nothing_and_the_next_run_goes_on() {
    struct Failing(Mutex<usize>);
    impl SumBackend for Failing {
        fn sum(&self, _: &SumRequest, shard: &crate::ShardSum<'_>) -> Result<Private<Vec<i64>>> {
            let mut left = self.0.lock().unwrap();
            if *left == 0 {
                return Err(Error::Link { what: "gone" });
            }
            *left -= 1;
            shard(0)
        }
    }
    let trainer = Everything { sampled: false };
    let (plan, data) = (plan(&trainer), users());
    for made in 0..6 {
        let (mut seen, mut payer, noise) = (Seen::all(), Paying::default(), &mut seeded());
        let backend = Failing(Mutex::new(made));
        let run = paying(&plan, &mut payer, noise).summed_by(&backend);
        let failed = trainer.run(&data, run.observed_by(&mut seen));
        assert!(matches!(failed, Err(Error::Link { .. })));
        let listed: usize = seen.entries.iter().map(|entry| entry.paid().len()).sum();
        assert_eq!((payer.0, seen.entries.len()), (listed, made));
    }
}

/// A pool whose workers answer twice, late, and for other runs and steps, and are restarted.
struct Unreliable<'a> {
    inner: ChannelPool,
    script: Mutex<Vec<FromWorker>>,
    n_sent: Mutex<usize>,
    make: &'a (dyn Fn(&ShardAnswer) -> Vec<FromWorker> + Sync),
}

impl WorkerPool for Unreliable<'_> {
    fn n_workers(&self) -> usize {
        self.inner.n_workers()
    }

    fn send(&self, shard: usize, message: &ToWorker) -> Result<()> {
        *self.n_sent.lock().unwrap() += 1;
        self.inner.send(shard, message)
    }

    fn receive(&self) -> Result<FromWorker> {
        if let Some(said) = self.script.lock().unwrap().pop() {
            return Ok(said);
        }
        let received = self.inner.receive()?;
        let quiet = *self.n_sent.lock().unwrap() > 60; // each rejected answer is requested again
        if let (FromWorker::Answer(answer), false) = (&received, quiet) {
            let mut script = self.script.lock().unwrap();
            script.extend((self.make)(answer));
            if let Some(first) = script.pop() {
                script.insert(0, received);
                return Ok(first);
            }
        }
        Ok(received)
    }
}

fn answer_like(answer: &ShardAnswer) -> ShardAnswer {
    ShardAnswer {
        shard: answer.shard,
        n_shards: answer.n_shards,
        run: answer.run.clone(),
        step: answer.step,
        list_head: answer.list_head.clone(),
        nonce: answer.nonce,
        sum: Private::new(answer.sum.expose().clone()),
    }
}

#[test]
fn answers_that_come_twice_or_belong_elsewhere_never_enter_a_sum() {
    let trainer = Everything { sampled: true };
    let (plan, data) = (plan(&trainer), users());
    let nobody = nobody(&data);
    let (mut payer, noise) = (Paying::default(), &mut seeded());
    let alone = trainer.run(&data, paying(&plan, &mut payer, noise));
    let expected = bits(&alone.unwrap().model);
    let bad = |answer: &ShardAnswer| {
        let mut of_another_run = answer_like(answer);
        of_another_run.run = "another".to_owned();
        let mut late = answer_like(answer);
        late.step = late.step.wrapping_sub(1);
        let mut of_another_list = answer_like(answer);
        of_another_list.list_head = String::new();
        let mut dealt_otherwise = answer_like(answer);
        dealt_otherwise.n_shards += 1;
        let mut short = answer_like(answer);
        short.sum = Private::new(vec![1]);
        let length = answer.sum.expose().len();
        let mut abandoned = answer_like(answer);
        abandoned.nonce ^= 1;
        let mut bad = vec![
            of_another_run,
            late,
            of_another_list,
            dealt_otherwise,
            abandoned,
        ];
        bad.extend((length > 1).then_some(short));
        let mut said: Vec<FromWorker> = bad.into_iter().map(FromWorker::Answer).collect();
        said.push(FromWorker::Answer(answer_like(answer))); // once more, before the real one
        said
    };
    let (inner, links) = worker_channels(2);
    let pool = Unreliable {
        inner,
        script: Mutex::default(),
        n_sent: Mutex::default(),
        make: &bad,
    };
    let shards = data.expose().deal(2, Shard::dealer("r", 2));
    let backend = Coordinator::new(pool);
    std::thread::scope(|scope| {
        for ((number, table), mut link) in shards.into_iter().enumerate().zip(links) {
            let (plan, trainer) = (&plan, &trainer);
            scope.spawn(move || {
                let shard = Shard::new("r", number, 2).unwrap();
                let data = Private::new(table);
                let run = Run::worker(plan, shard, &data, &mut link).unwrap();
                let _ = trainer.run(&data, run);
            });
        }
        let list = ReleaseList::hashes_only("r", &plan).unwrap();
        let (mut payer, noise) = (Paying::default(), &mut seeded());
        let run = paying(&plan, &mut payer, noise).listed_in(list);
        let fitted = trainer.run(&nobody, run.summed_by(&backend));
        assert_eq!(bits(&fitted.unwrap().model), expected);
        assert_eq!(payer.0, 10);
        drop(backend);
    });
}

#[test]
fn a_worker_with_a_user_of_another_shard_is_refused_before_it_sums_anything() {
    let (plan, data) = (plan(&Everything { sampled: false }), users());
    let (_, mut links) = worker_channels(1);
    let all = Run::worker(&plan, Shard::new("r", 0, 2).unwrap(), &data, &mut links[0]);
    assert!(matches!(all, Err(Error::UsersOfAnotherShard { shard: 0 })));
    let parts = data.expose().deal(2, Shard::dealer("r", 2));
    assert!(parts.iter().all(|part| part.n_users() > 100));
    for (number, part) in parts.into_iter().enumerate() {
        let (own, other) = (Shard::new("r", number, 2), Shard::new("r", 1 - number, 2));
        assert!(own.unwrap().check(&part).is_ok());
        assert!(other.unwrap().check(&part).is_err());
    }
    assert!(Shard::new("r", 2, 2).is_err());
}

#[test]
fn plans_and_spends_that_do_not_belong_to_the_trainer_are_refused_before_any_release() {
    let trainer = Everything { sampled: false };
    let (own, other) = (plan(&trainer), plan(&Everything { sampled: true }));
    let data = users();
    let fit = |plan: &Plan, spends| trainer.fit(&data, plan, spends, &mut seeded()).map(|_| ());
    assert!(matches!(fit(&other, Vec::new()), Err(Error::Plan { .. })));
    assert!(matches!(fit(&own, Vec::new()), Err(Error::Spends { .. })));
    let mut swapped = ledger(&own).reserve(&own).unwrap();
    swapped.swap(0, 2);
    assert!(matches!(fit(&own, swapped), Err(Error::Spends { .. })));
    let spends = ledger(&own).reserve(&own).unwrap();
    assert!(fit(&own, spends).is_ok());
}

#[test]
fn a_replay_that_inherits_seeded_noise_says_so() {
    let trainer = Everything { sampled: false };
    let (plan, data) = (plan(&trainer), users());
    let entries = entries_of(&trainer);
    let list = ReleaseList::of_entries("", &plan, entries[..3].to_vec()).unwrap();
    let mut payer = Paying::default();
    let noise = &mut NoiseSource::operating_system();
    let run = paying(&plan, &mut payer, noise);
    let fitted = trainer.run(&data, run.listed_in(list)).unwrap();
    assert_eq!(fitted.provenance, Provenance::SeededNoise);
    assert!(!fitted.certificate.verify().unwrap().is_private());
}

#[test]
fn a_share_of_the_budget_is_planned_as_it_is_asked_for() {
    let request = ReleaseRequest::new("votes", 1.0, ReplaceFactor::Two, 5);
    let requests = Requests::Shares(vec![request]);
    let adjacency = Adjacency::AddRemoveUser;
    let plan = requests.calibrate(target(), adjacency).unwrap();
    assert!(Grid::new(plan.releases()[0].noise_multiplier().unwrap(), 1.0).is_ok());
    assert!(requests.first_difference(&plan).is_none());
}

type Meddle = fn(&mut SumRequest);

/// A link that changes a coordinator's requests, and may send a second one.
struct Meddling {
    inner: ChannelLink,
    meddle: Meddle,
    asks_twice: bool,
    last: Option<SumRequest>,
}

impl CoordinatorLink for Meddling {
    fn exchange(&mut self, answer: Option<ShardAnswer>) -> Result<ToWorker> {
        if let (true, Some(mut request)) = (answer.is_some(), self.last.take()) {
            (self.meddle)(&mut request);
            return Ok(ToWorker::Sum(request));
        }
        match self.inner.exchange(answer)? {
            ToWorker::Sum(mut request) => {
                match self.asks_twice && request.round_key.is_some() {
                    true => self.last = Some(request.clone()),
                    false if self.asks_twice => {}
                    false => (self.meddle)(&mut request),
                }
                Ok(ToWorker::Sum(request))
            }
            message => Ok(message),
        }
    }
}

#[test]
fn a_worker_sums_only_what_its_step_asks_for_by_its_own_instructions_and_one_sample() {
    let trainer = Everything { sampled: true };
    let (plan, data) = (plan(&trainer), users());
    let nobody = nobody(&data);
    let another_key = |request: &mut SumRequest| {
        request.round_key = Some(RoundKey::from_bytes([7; 32]));
    };
    let cases: [(Meddle, bool, &str); 5] = [
        (|request| request.round_key = None, false, "key of a sample"),
        (another_key, true, "for other users"),
        (
            |request| request.instructions = "none",
            false,
            "instructions",
        ),
        (|request| request.list_head.clear(), false, "another step"),
        (|request| request.n_coordinates += 1, false, "another step"),
    ];
    for (meddle, asks_twice, said) in cases {
        let (pool, mut links) = worker_channels(1);
        let backend = Coordinator::new(pool);
        let inner = links.remove(0);
        let refused = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut link = Meddling {
                    inner,
                    meddle,
                    asks_twice,
                    last: None,
                };
                let shard = Shard::new("r", 0, 1).unwrap();
                let run = Run::worker(&plan, shard, &data, &mut link).unwrap();
                trainer.run(&data, run)
            });
            let list = ReleaseList::hashes_only("r", &plan).unwrap();
            let (mut payer, noise) = (Paying::default(), &mut seeded());
            let run = paying(&plan, &mut payer, noise).listed_in(list);
            assert!(trainer.run(&nobody, run.summed_by(&backend)).is_err());
            drop(backend);
            worker.join().unwrap()
        });
        assert!(
            matches!(refused, Err(Error::Link { what }) if what.contains(said)),
            "{said}: {refused:?}"
        );
    }
}

#[test]
fn a_run_that_ends_early_is_certified_at_the_guarantee_of_its_whole_plan() {
    let trainer = Trained::by(|all, data, run| {
        let votes = run.vector(data, (all.width(data), 3.0), &Votes(0.4))?;
        Ok(votes.values())
    });
    let (plan, data) = (plan(&trainer.0), users());
    let mut payer = Paying::default();
    let noise = &mut NoiseSource::operating_system();
    let run = paying(&plan, &mut payer, noise);
    let fitted = trainer.run(&data, run).unwrap();
    let certified = fitted.certificate.verify().unwrap().guarantee.unwrap();
    assert!((certified.epsilon - plan.guarantee().epsilon).abs() < 1e-9);
    let certificate = &fitted.certificate;
    assert_eq!(
        (certificate.releases.len(), certificate.not_made.len()),
        (1, 7)
    );
    assert_eq!(payer.0, 1);
}

/// The contents of the file are unknown after a failed write.
#[test]
#[cfg(target_os = "linux")]
fn a_list_whose_write_failed_takes_no_release_until_it_is_opened_again() {
    let trainer = Everything { sampled: false };
    let (plan, entries) = (plan(&trainer), entries_of(&trainer));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("releases.list");
    let mut list = ReleaseList::open(&path, "", &plan).unwrap();
    list.append(&entries[0]).unwrap();
    list.write_to("/dev/full").unwrap();
    assert!(matches!(list.append(&entries[1]), Err(Error::Io { .. })));
    list.write_to(path.to_str().unwrap()).unwrap();
    let refused = list.append(&entries[1]);
    assert!(matches!(refused, Err(Error::List { .. })), "{refused:?}");
    assert_eq!((list.len(), list.head()), (1, entries[0].hash()));
    drop(list);
    let mut list = ReleaseList::open(&path, "", &plan).unwrap();
    assert_eq!(list.next_replayed().unwrap().as_ref(), Some(&entries[0]));
    list.append(&entries[1]).unwrap();
}

#[test]
fn a_round_that_the_list_has_is_not_opened_and_paid_for_once_more() {
    let trainer = Everything { sampled: false };
    let plan = plan(&trainer);
    let list = ReleaseList::of_entries("", &plan, entries_of(&trainer)).unwrap();
    let (mut payer, noise) = (Paying::default(), &mut seeded());
    let mut run = Run::paying(&plan, &mut payer, noise)
        .unwrap()
        .listed_in(list);
    let requests = trainer.requests(N_ITEMS, plan.adjacency()).unwrap();
    run.begin(&requests, 1).unwrap();
    let all = PoissonSampling::new(1.0).unwrap();
    let refused = run.open(all, 300, (N_ITEMS, 3.0), &[]).err();
    assert!(
        matches!(&refused, Some(Error::List { what }) if what.contains("reopened")),
        "{refused:?}"
    );
    drop(run);
    assert_eq!(payer.0, 0);
}

/// Samples of fixed size assume a public number of users: for another number, nothing is charged.
#[test]
fn a_sample_from_another_number_of_users_is_refused_before_it_is_paid_for() {
    let data = users();
    let n_users = data.expose().n_users();
    for (n, fits) in [(n_users, true), (n_users - 1, false), (n_users + 1, false)] {
        let sampling = ClientSampling::from(FixedSizeSampling::new(9, n).unwrap());
        let event = sampling.event(DpEvent::gaussian(2.0));
        let step = PlannedRelease::new("step", event, N_ITEMS as u64);
        let plan = Plan::with_noise_multipliers(1e-5, Adjacency::ReplaceUser, vec![step.clone()]);
        let plan = plan.unwrap();
        for by_messages in [false, true] {
            let (mut payer, noise) = (Paying::default(), &mut seeded());
            let mut run = paying(&plan, &mut payer, noise);
            let step = step.clone();
            let requests = Requests::schedule(move |_| vec![step.clone()]);
            run.begin(&requests, 1).unwrap();
            let shape = (N_ITEMS, 3.0);
            let made = if by_messages {
                run.open(sampling, n_users, shape, &[]).map(|_| ())
            } else {
                run.sampled_vector(sampling, &data, shape, &Votes(1.0))
                    .map(|_| ())
            };
            assert_eq!(made.is_ok(), fits, "{made:?}");
            if let Err(error) = made {
                assert!(matches!(error, Error::Population { expected } if expected == n));
            }
            drop(run);
            assert_eq!(payer.0, usize::from(fits));
        }
    }
}

#[test]
fn a_ledger_for_one_schedule_pays_for_no_part_of_it() {
    let trainer = Everything { sampled: false };
    let (plan, data) = (plan(&trainer), users());
    let (mut ledger, noise) = (ledger(&plan), &mut seeded());
    let run = paying(&plan, &mut ledger, noise);
    let refused = trainer.run(&data, run);
    let in_parts = dp_accounting::Error::ScheduleInParts;
    assert!(
        matches!(&refused, Err(Error::Accounting(error)) if *error.to_string() == *in_parts.to_string()),
        "{refused:?}"
    );
    assert_eq!(ledger.n_releases(), 0);
}
