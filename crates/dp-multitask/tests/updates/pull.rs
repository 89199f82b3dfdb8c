//! The pull of residual rounds toward zero.

use dp_data::RatingSplit;
use dp_mechanism::ReleasedGrams;
use dp_multitask::{
    FactorizationParams, ItemUpdate, Observed, ObservedSums, Observer, ResidualRounds, Round,
    ScoreModel,
};

use crate::support::{N_ITEMS, fit_seen, params, pooled, ratings};

/// Factors before and after the one residual round of a run, and the matrices of the round before.
struct ResidualRound {
    before: Vec<f64>,
    after: Vec<f64>,
    matrices: ReleasedGrams,
}

/// Factors after every round, and the last matrices.
#[derive(Default)]
struct Kept {
    rounds: Vec<Vec<f64>>,
    matrices: Option<ReleasedGrams>,
}

impl Observer for Kept {
    fn release(&mut self, seen: &Observed<'_>) {
        if let ObservedSums::Grams { released, .. } = seen.sums {
            self.matrices = Some(released.clone());
        }
    }

    fn round(&mut self, round: &Round<'_>) {
        self.rounds.push(round.parameters.to_vec());
    }
}

fn last_round(split: &RatingSplit, mut params: FactorizationParams, pull: f64) -> ResidualRound {
    params.item_update = ItemUpdate::Residual(ResidualRounds {
        n_statistics_rounds: params.n_rounds - 1,
        pull,
        ..ResidualRounds::new()
    });
    let mut kept = Kept::default();
    fit_seen(split, params, &mut kept);
    let [.., before, after] = &kept.rounds[..] else {
        panic!("two rounds at least");
    };
    ResidualRound {
        before: before.clone(),
        after: after.clone(),
        matrices: kept.matrices.unwrap(),
    }
}

/// What a pull takes from every item beside its factors before it, without bias coordinates. Nothing else differs.
fn pulled(
    split: &RatingSplit,
    params: &FactorizationParams,
) -> (Vec<[Vec<f64>; 2]>, ReleasedGrams) {
    let [without, with] = [0.0, 1.0].map(|pull| last_round(split, params.clone(), pull));
    assert_eq!(without.before, with.before);
    let ends = without.after.iter().zip(&with.after);
    let taken: Vec<f64> = ends.map(|(a, b)| a - b).collect();
    let slopes = |rows: &[f64], item: usize| rows[4 * item + 1..][..3].to_vec();
    let items = (0..N_ITEMS).map(|item| [slopes(&with.before, item), slopes(&taken, item)]);
    (items.collect(), with.matrices)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Without biases the last step of a run differs by `d = ridge (A + ridge I)^-1 x`: a piece of `x`, with `A d = ridge (x - d)`.
#[test]
fn a_pull_draws_every_item_toward_zero_by_its_ridge() {
    let mut plain = params(38.0, ItemUpdate::Ssp);
    plain.score_model = ScoreModel::Plain;
    let (items, matrices) = pulled(&ratings(), &plain);
    let mut systems = Vec::new();
    for (item, [x, d]) in items.iter().enumerate() {
        let along = dot(d, x);
        assert!(along > 0.0 && along < dot(x, x), "item {item}: {along}");
        let (mut matrix, mut rhs) = (vec![0.0; 9], vec![0.0; 3]);
        matrices.write_item(item, &mut matrix, &mut rhs);
        systems.push((matrix[0] + matrix[4] + matrix[8], matrix, x, d));
    }
    // where users outweigh noise the matrix is semidefinite as it is
    systems.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut ridges = systems.iter().take(20).flat_map(|(_, matrix, x, d)| {
        let rows = matrix.chunks_exact(3).zip(x.iter().zip(*d));
        rows.map(|(row, (x, own))| dot(row, d) / (x - own))
    });
    let first = ridges.next().unwrap();
    assert!(first > 0.0 && ridges.all(|ridge| (ridge / first - 1.0).abs() < 1e-6));
}

#[test]
fn a_pull_draws_items_with_one_matrix_toward_zero() {
    let (items, _) = pulled(&ratings(), &pooled(38.0, ItemUpdate::Ssp));
    let sum = |of: fn(&[Vec<f64>; 2]) -> f64| items.iter().map(of).sum::<f64>();
    let (along, size) = (sum(|[x, d]| dot(d, x)), sum(|[x, _]| dot(x, x)));
    assert!(along > 0.0 && along < size, "{along} of {size}");
}
