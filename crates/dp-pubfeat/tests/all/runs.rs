//! Models are functions of releases: they can be resumed, replayed, and computed by shards and by
//! workers, and are bit for bit the same as in earlier versions.

use std::ops::ControlFlow;

use dp_accounting::{Budget, Ledger};
use dp_core::{Adjacency, Interactions, Private};
use dp_mechanism::TrainerCheck;
use dp_pubfeat::federated::{Aggregator, Client};
use dp_pubfeat::{
    AmImplicitSspParams, ConvexSspParams, Descent, EncoderDescent, Error, Fitted, ItemStatistics,
    KernelRidge, LinearEncoder, Logistic, NoiseSource, Observer, Optimiser, ProblemSetup, Progress,
    ProtectedUnit, PublicEncoder, ResidualSspParams, Result, Round, Run, RunFolder, SspParams,
    StatisticsLearner, Trainer,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

use crate::am_residual::{prior, rounds};
use crate::support::{
    ADD_REMOVE, DIM, N_ITEMS, am_ssp, features, pay, ridge, sampled, setup, sgd, table, target,
    trusting,
};

const ALL: [Adjacency; 3] = [
    Adjacency::AddRemoveUser,
    Adjacency::ReplaceUser,
    Adjacency::ReplaceRecord,
];

/// Users or records as units, depending on the adjacency.
fn setup_for(adjacency: Adjacency) -> ProblemSetup {
    match adjacency {
        Adjacency::ReplaceRecord => setup().example_level(),
        _ => setup(),
    }
}

/// Checks the properties of runs for a trainer, on a table with hostile and idle users.
fn check<T>(name: &str, trainer: &T, adjacency: Adjacency, values: fn(&T::Model) -> Vec<f64>)
where
    T: Trainer<Data = Private<Interactions>, Error = Error> + Sync,
{
    let data = table(40, None);
    let plan = trainer.plan(trainer.width(&data), target(), adjacency);
    let check = TrainerCheck {
        trainer,
        plan: &plan.unwrap(),
        data: &data,
        nobody: &Private::new(data.expose().without_users()),
        table: &|data| data,
        deal: &|n, part| {
            let parts = data.expose().deal(n, part).into_iter();
            parts.map(|part| Box::new(Private::new(part))).collect()
        },
        bits: &|model| values(model).iter().map(|v| v.to_bits()).collect(),
    };
    if let Err(law) = check.all() {
        panic!("{name}, {adjacency}: {law}");
    }
    for n_before in 1..=3 {
        resume_in_a_folder(&check, n_before);
    }
}

/// Ends a run after this many releases.
struct EndAfter(usize);

impl Observer for EndAfter {
    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        self.0 -= 1;
        match self.0 {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn reads_users(&self) -> bool {
        false
    }
}

/// A run that ends after `n_before` releases is resumed from its files with the same bits, and its
/// ledger pays for every release once.
fn resume_in_a_folder<T>(check: &TrainerCheck<'_, T>, n_before: usize)
where
    T: Trainer<Data = Private<Interactions>, Error = Error>,
{
    let place = tempfile::tempdir().unwrap();
    let (target, adjacency) = (check.plan.target(), check.plan.adjacency());
    // one of Gaussian releases pays for each as it comes, one with samples for all before
    let budget = match check.plan.mu_squared() {
        Ok(_) => Budget::new(target, adjacency),
        Err(_) => Budget::schedule(target, adjacency),
    };
    let budget = budget.unwrap();
    let open = || Ledger::open_or_create(place.path().join("ledger"), "made", budget).unwrap();
    let train = |observer: &mut dyn Observer| {
        let noise = &mut NoiseSource::insecure_seeded(12);
        let (folder, ledgers) = (RunFolder::new(place.path().join("run")), &mut [open()]);
        let (trainer, plan) = (check.trainer, check.plan);
        folder.train(trainer, check.data, plan, ledgers, "r", noise, observer)
    };
    let ended = train(&mut EndAfter(n_before));
    assert!(matches!(
        ended.map(drop),
        Err(Error::Mechanism(dp_mechanism::Error::Cancelled))
    ));
    let resumed = train(&mut ()).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(12);
    let fitted = check
        .trainer
        .fit(check.data, check.plan, pay(check.plan), noise)
        .unwrap();
    assert_eq!((check.bits)(&resumed.model), (check.bits)(&fitted.model));
    assert_eq!(open().n_releases(), check.plan.releases().len() as u64);
    assert_eq!(
        resumed.certificate.releases.len(),
        check.plan.releases().len()
    );
}

fn vectors<L: StatisticsLearner>(learner: &L) -> Vec<f64> {
    learner.item_vectors().unwrap()
}

fn parameters(encoder: &LinearEncoder) -> Vec<f64> {
    encoder.parameters().to_vec()
}

fn ssp(setup: ProblemSetup, n_resamples: usize) -> dp_pubfeat::Ssp {
    let params = SspParams {
        n_resamples,
        ..SspParams::new(setup)
    };
    params.check().unwrap()
}

fn residual(setup: ProblemSetup) -> dp_pubfeat::ResidualSsp {
    let params = ResidualSspParams::new(setup, 3, 0.6, 0.2);
    params.check().unwrap()
}

fn convex(setup: ProblemSetup) -> dp_pubfeat::ConvexSsp {
    ConvexSspParams::new(setup, 3).check().unwrap()
}

fn likes() -> dp_pubfeat::AmImplicitSsp {
    let mut params = AmImplicitSspParams::for_target(target());
    (params.dim, params.n_rounds) = (3, 3);
    params.check().unwrap()
}

/// A learner with item vectors other than 0.
fn away_from_zero() -> KernelRidge {
    let matrices = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0].repeat(N_ITEMS);
    let rhs = (0..N_ITEMS * DIM).map(|i| (i as f64).sin()).collect();
    let mut learner = ridge();
    let statistics = ItemStatistics::new(DIM, matrices, rhs, [0.1; 2]).unwrap();
    learner.learn(&statistics).unwrap();
    learner
}

fn encoder() -> LinearEncoder {
    LinearEncoder::random(features(), DIM, &mut ChaCha20Rng::seed_from_u64(5)).unwrap()
}

#[test]
fn statistics_and_what_learns_from_them_follow_from_the_releases() {
    for adjacency in ALL {
        let ssp = ssp(setup_for(adjacency), 3);
        check("statistics", &ssp, adjacency, |all| {
            let rhs =
                |one: &ItemStatistics| (0..N_ITEMS).flat_map(|j| one.rhs(j).to_vec()).collect();
            all.iter()
                .flat_map(|one| -> Vec<f64> { rhs(one) })
                .collect()
        });
        // a learner with a generator of its own, which a run must not wear out
        let mut descent = Descent::new(20, Optimiser::Adam { rate: 0.03 });
        descent.item_batch = Some(5);
        let rng = ChaCha20Rng::seed_from_u64(1);
        let learner = EncoderDescent::new(encoder(), descent, rng).unwrap();
        check("SSP", &ssp.with(learner), adjacency, vectors);
        let residual = residual(setup_for(adjacency)).with(ridge());
        check("residual", &residual, adjacency, vectors);
        let convex = convex(setup_for(adjacency)).with(Logistic, ridge());
        check("convex", &convex, adjacency, vectors);
    }
}

#[test]
fn what_samples_teach_follows_from_the_releases() {
    for adjacency in ALL {
        let mut params = sampled().params().clone();
        params.setup = setup_for(adjacency);
        let sampled = params.check().unwrap();
        check("sampled", &sampled.with(ridge()), adjacency, vectors);
        let mut params = sgd().params().clone();
        params.setup = setup_for(adjacency);
        let sgd = params.check().unwrap();
        check("gradients", &sgd.with(encoder()), adjacency, parameters);
    }
}

#[test]
fn alternating_rounds_follow_from_the_releases() {
    let step = am_ssp(setup(), 3).params().user_step;
    let gradients = sgd().alternating(encoder(), step, 2).unwrap();
    for adjacency in [ADD_REMOVE, Adjacency::ReplaceUser] {
        let am = am_ssp(setup(), 3).with(away_from_zero());
        check("AM-SSP", &am, adjacency, vectors);
        check("AM-DPSGD", &gradients, adjacency, parameters);
        let ratings = rounds(3, 3).with(prior());
        check("ratings", &ratings, adjacency, |model| {
            model.item_vectors().to_vec()
        });
        check("likes", &likes().with(prior()), adjacency, |model| {
            model.item_vectors().to_vec()
        });
    }
}

/// Item vectors after each round, from before the first.
fn rounds_shown<T>(trainer: &T) -> (Vec<Vec<f64>>, T::Model)
where
    T: Trainer<Data = Private<Interactions>, Error = Error>,
{
    struct Rounds(Vec<Vec<f64>>);
    impl Observer for Rounds {
        fn round(&mut self, round: &Round<'_>) {
            assert_eq!((round.round, round.shape), (self.0.len(), (N_ITEMS, DIM)));
            self.0.push(round.parameters.to_vec());
        }
    }
    let (data, mut seen) = (table(40, None), Rounds(Vec::new()));
    let plan = trainer.plan(trainer.width(&data), target(), ADD_REMOVE);
    let (plan, noise) = (plan.unwrap(), &mut NoiseSource::insecure_seeded(21));
    let run = Run::new(&plan, pay(&plan), noise).unwrap();
    let fitted = trainer.run(&data, run.observed_by(&mut seen)).unwrap();
    (seen.0, fitted.model)
}

#[test]
fn alternating_rounds_are_shown_with_the_vectors_that_they_begin_from_and_end_with() {
    let first = away_from_zero();
    let (shown, model) = rounds_shown(&am_ssp(setup(), 3).with(first.clone()));
    assert_eq!(shown.len(), 4);
    assert_eq!((&shown[0], &shown[3]), (&vectors(&first), &vectors(&model)));
    let step = am_ssp(setup(), 3).params().user_step;
    let (shown, model) = rounds_shown(&sgd().alternating(encoder(), step, 2).unwrap());
    assert_eq!(shown.len(), 3);
    let mut last = vec![0.0; N_ITEMS * DIM];
    let items: Vec<u32> = (0..N_ITEMS as u32).collect();
    model.forward(&items, &mut last).unwrap();
    assert_eq!(shown[2], last);
    let (shown, model) = rounds_shown(&rounds(3, 3).with(prior()));
    assert_eq!((shown.len(), &shown[3][..]), (4, model.item_vectors()));
    let (shown, model) = rounds_shown(&likes().with(prior()));
    assert_eq!((shown.len(), &shown[3][..]), (4, model.item_vectors()));
    assert_eq!(shown[0], likes().initial_vectors(N_ITEMS));
}

/// The first 64 bits of a hash over the bits of numbers.
fn hash(values: &[f64]) -> String {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let hash = Sha256::digest(bytes);
    hash.iter().take(8).map(|b| format!("{b:02x}")).collect()
}

fn made<T>(trainer: &T, adjacency: Adjacency, values: fn(&T::Model) -> Vec<f64>) -> String
where
    T: Trainer<Data = Private<Interactions>, Error = Error>,
{
    let data = table(40, None);
    let plan = trainer.plan(trainer.width(&data), target(), adjacency);
    let plan = plan.unwrap();
    let noise = &mut NoiseSource::insecure_seeded(21);
    let fitted = trainer.fit(&data, &plan, pay(&plan), noise).unwrap();
    hash(&values(&fitted.model))
}

fn made_by_messages(adjacency: Adjacency) -> Result<Fitted<Vec<f64>>> {
    let (data, ssp) = (table(40, None), ssp(setup_for(adjacency), 1));
    let plan = ssp.plan(N_ITEMS, target(), adjacency)?;
    let mut aggregator = Aggregator::new(&ssp, (N_ITEMS, 40), "run", &plan)?;
    for number in 0..40 {
        let client = Client::new(&data, number as usize, number)?;
        let message = client.answer(aggregator.invitation(), &mut trusting())?;
        aggregator.receive(&message).unwrap();
    }
    let noise = &mut NoiseSource::insecure_seeded(21);
    let fitted = aggregator.close(Run::new(&plan, pay(&plan), noise)?)?;
    let mut learner = ridge();
    learner.learn(&fitted.model.statistics)?;
    Ok(fitted.map(|_| vectors(&learner)))
}

/// The bits of version 0.1.0, before trainers used [`Run`]. Vector instructions round differently,
/// so the bits hold for one kind of machine.
#[test]
#[cfg(target_arch = "x86_64")]
fn models_under_seeded_noise_are_bit_for_bit_those_of_before() {
    if !is_x86_feature_detected!("avx512f") {
        return;
    }
    let expected = [
        "3ef6451fcd56f093 01281ca2d000fca1 830a43ac32c6a08b 22e78b272a6abbf8 \
         26300f10a50c73fa 461f5e5a0b9108e9 e2dc45523cf02638",
        "2fcfe7976bc77e9b 3b5d8b810c99d876 f3290fb2b79781d7 2eba97571132f489 \
         d18d9ff5c4f38af7 de0ee6091a5db32d 3eb3319fd2c86ddb",
        "926fbbad22893862 084ecca1f2f373e6 d01b02bb61fd6664",
    ];
    for (adjacency, expected) in ALL.into_iter().zip(expected) {
        let setup = setup_for(adjacency);
        let mut found = vec![
            made(&ssp(setup.clone(), 3).with(ridge()), adjacency, vectors),
            made(&residual(setup.clone()).with(ridge()), adjacency, vectors),
            made(
                &convex(setup.clone()).with(Logistic, ridge()),
                adjacency,
                vectors,
            ),
        ];
        if setup.unit == ProtectedUnit::User {
            found.push(hash(&made_by_messages(adjacency).unwrap().model));
            let am = am_ssp(setup, 3).with(away_from_zero());
            found.push(made(&am, adjacency, vectors));
            found.push(made(&rounds(3, 3).with(prior()), adjacency, |model| {
                model.item_vectors().to_vec()
            }));
            found.push(made(&likes().with(prior()), adjacency, |model| {
                model.item_vectors().to_vec()
            }));
        }
        assert_eq!(found.join(" "), expected, "{adjacency}");
    }
}
