//! Choice among settings within the budget.

use dp_data::RatingSplit;
use dp_mechanism::{Error as RunError, NoiseSource, ObservedSums};
use dp_multitask::{
    Error, FactorizationParams, Fitted, MatrixFactorization, Observed, Run, Trainer, TunedModel,
    Tuning, TuningParams,
};

use crate::support::{self, ADJACENCY, See, Steps, pay, target};

const N_ITEMS: usize = 120;

fn ratings() -> RatingSplit {
    support::ratings(1500, N_ITEMS, 60_000)
}

/// Label bounds: much too small, the default, much too large.
fn candidates(epsilon: f64) -> Vec<MatrixFactorization> {
    [0.01, 1.0, 100.0]
        .map(|label_bound| FactorizationParams {
            dim: Some(3),
            n_rounds: 3,
            label_bound,
            ..FactorizationParams::adadpals_for_target(target(epsilon))
        })
        .map(|params| params.check().unwrap())
        .to_vec()
}

fn tune(tuning: &Tuning, split: &RatingSplit, epsilon: f64, seed: u64) -> Fitted<TunedModel> {
    let plan = tuning.plan(N_ITEMS, target(epsilon), ADJACENCY).unwrap();
    let spends = pay(&plan);
    let mut seen = Steps::default();
    let mut noise = NoiseSource::insecure_seeded(seed);
    let run = Run::new(&plan, spends, &mut noise).unwrap();
    let tuned = tuning
        .run(&split.train, run.observed_by(&mut seen))
        .unwrap();
    let done: Vec<usize> = seen.0.iter().map(|at| at.done).collect();
    assert_eq!(done.last(), Some(&plan.releases().len()));
    assert!(done.is_sorted());
    tuned
}

#[test]
fn the_candidate_that_predicts_best_is_chosen_and_everything_is_charged() {
    let split = ratings();
    let tuning = Tuning::new(candidates(5.0), TuningParams::default()).unwrap();
    let tuned = tune(&tuning, &split, 5.0, 1);
    let certificate = &tuned.certificate;
    let tuned = &tuned.model;
    assert_eq!(tuned.chosen, 1, "{:?}", tuned.scores);
    let others = [tuned.scores[0], tuned.scores[2]];
    assert!(
        others
            .iter()
            .all(|s| s - tuned.scores[1] > 3.0 * tuned.score_noise_stddev)
    );
    assert!(certificate.tuning_included);
    assert_eq!(certificate.releases.len(), 3 * (1 + 2 * 3) + 1);
    assert!(
        certificate.releases[7]
            .label
            .starts_with("candidate 2: item counts")
    );
    // the charge is the target, whatever the number of candidates
    let plan = tuning.plan(N_ITEMS, target(5.0), ADJACENCY).unwrap();
    assert!(plan.guarantee().epsilon <= 5.0 && plan.guarantee().epsilon > 4.999);
    assert!(support::error(&tuned.model, &split) < 1.05);
}

/// Compares label and noise multiplier of every observed release, as stated by the release itself.
#[test]
fn what_is_seen_is_what_the_certificate_lists() {
    let split = ratings();
    let tuning = Tuning::new(candidates(5.0), TuningParams::default()).unwrap();
    let plan = tuning.plan(N_ITEMS, target(5.0), ADJACENCY).unwrap();
    let mut seen = Vec::new();
    let mut noise = NoiseSource::insecure_seeded(7);
    let row = split.train.expose().user(3);
    let mut see = See(|one: &Observed<'_>| {
        let [label, second] = one.labels.map(str::to_owned);
        match one.sums {
            ObservedSums::Grams { released, .. } => {
                let number = label.as_bytes()["candidate ".len()];
                let bound = [0.01, 1.0, 100.0][usize::from(number - b'1')];
                seen.push((label, released.matrix_noise_stddev()));
                seen.push((second, released.rhs_noise_stddev() / bound));
            }
            ObservedSums::Vector {
                grid,
                released,
                one_user,
            } => {
                let one = one_user(row);
                let squares = one.iter().map(|&(_, z)| (z as f64).powi(2));
                assert!(!one.is_empty());
                assert!(squares.sum::<f64>().sqrt() <= grid.l2_bound() as f64);
                let votes = label.ends_with("item counts");
                assert!(votes || one.iter().all(|&(at, _)| at < 3));
                let clip_norm = if votes { 10.0 } else { 2.0 };
                seen.push((label, released.noise_stddev() / clip_norm));
            }
            ObservedSums::Triangle { .. } => panic!("{label}"),
        }
    });
    let run = Run::new(&plan, pay(&plan), &mut noise).unwrap();
    let tuned = tuning.run(&split.train, run.observed_by(&mut see)).unwrap();
    let releases = &tuned.certificate.releases;
    assert_eq!(seen.len(), releases.len());
    for ((seen, release), planned) in seen.iter().zip(releases).zip(plan.releases()) {
        let (label, multiplier) = seen;
        assert_eq!((label, planned.event()), (&release.label, &release.event));
        let paid = planned.noise_multiplier().unwrap();
        assert!(
            (multiplier / paid - 1.0).abs() < 0.01,
            "{label}: {multiplier} {paid}"
        );
    }
}

#[test]
fn models_do_not_see_what_they_are_compared_on() {
    // with nearly everything held out nothing can be learned, whatever the noise
    let split = ratings();
    let error = |held_out_fraction| {
        let params = TuningParams {
            held_out_fraction,
            ..TuningParams::default()
        };
        let tuning = Tuning::new(candidates(35.0)[1..2].to_vec(), params).unwrap();
        let tuned = tune(&tuning, &split, 35.0, 2);
        support::error(&tuned.model.model, &split)
    };
    let (most, least) = (error(0.01), error(0.99));
    assert!(most < least - 0.05, "{most} {least}");
}

#[test]
fn candidates_have_the_length_that_their_own_part_of_the_budget_carries() {
    let split = ratings();
    let params = FactorizationParams::adadpals_for_target(target(5.0));
    let fits = vec![params.clone().check().unwrap(); 4];
    let tuning = Tuning::new(fits, TuningParams::default()).unwrap();
    let plan = tuning.plan(N_ITEMS, target(5.0), ADJACENCY).unwrap();
    let model = tune(&tuning, &split, 5.0, 5).model.model;
    let count = model.counts().unwrap().mean_in_use();
    let whole = plan.gdp().unwrap().mu;
    let own = whole * ((1.0 - tuning.params().score_share) / 4.0).sqrt();
    let dim = |mu| params.rule_dim(mu, Some(count), N_ITEMS);
    assert_eq!(model.dim(), dim(own));
    assert_ne!(dim(own), dim(whole));
}

#[test]
fn lists_are_compared_by_what_they_contain() {
    let split = ratings();
    let mut good = FactorizationParams::implicit_for_target(target(10.0));
    (good.dim, good.n_rounds) = (Some(3), 2);
    // nearly everything spent on counts: the other releases are noise
    let mut bad = good.clone();
    bad.count_share = 0.9999;
    let fits = [bad, good].map(|params| params.check().unwrap()).to_vec();
    let tuning = Tuning::new(fits, TuningParams::default()).unwrap();
    let tuned = tune(&tuning, &split, 10.0, 3).model;
    assert_eq!(tuned.chosen, 1, "{:?}", tuned.scores);
}

#[test]
fn spends_of_another_plan_and_odd_settings_are_refused() {
    let split = ratings();
    let tuning = Tuning::new(candidates(5.0), TuningParams::default()).unwrap();
    let plan = tuning.plan(N_ITEMS, target(5.0), ADJACENCY).unwrap();
    let mut spends = pay(&plan);
    spends.pop();
    let mut noise = NoiseSource::insecure_seeded(0);
    let outcome = tuning.fit(&split.train, &plan, spends, &mut noise);
    assert!(matches!(
        outcome,
        Err(Error::Mechanism(RunError::Spends { .. }))
    ));
    let own = candidates(5.0)[0]
        .plan(N_ITEMS, target(5.0), ADJACENCY)
        .unwrap();
    let outcome = tuning.fit(&split.train, &own, pay(&own), &mut noise);
    assert!(matches!(
        outcome,
        Err(Error::Mechanism(RunError::Plan { .. }))
    ));

    assert!(Tuning::new(Vec::new(), TuningParams::default()).is_err());
    for (score_share, held_out_fraction) in [(0.0, 0.1), (1.0, 0.1), (0.1, 0.0), (0.1, f64::NAN)] {
        let params = TuningParams {
            score_share,
            held_out_fraction,
            ..TuningParams::default()
        };
        assert!(matches!(
            Tuning::new(candidates(5.0), params),
            Err(Error::Param(_))
        ));
    }
    let implicit = FactorizationParams::implicit_for_target(target(5.0))
        .check()
        .unwrap();
    let mixed = vec![implicit, candidates(5.0).remove(0)];
    let outcome = Tuning::new(mixed, TuningParams::default());
    assert!(matches!(outcome, Err(Error::Unsupported { .. })));
}
