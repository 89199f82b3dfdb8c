//! Items drawn without replacement in proportion to their weights.

use rand::Rng;
use rand_distr::weighted::WeightedAliasIndex;
use rand_distr::{Distribution, Exp1};

/// Draws lists of different items.
///
/// The law is that of drawing one item after another, each time in proportion to the weights of
/// the items left. Most lists are short against the catalogue, so it first draws with
/// replacement and passes over items it has; a list still incomplete after a bounded number of
/// draws is completed by the smallest of exponential keys `E_i / w_i` over the items left,
/// which has the same law (Efraimidis and Spirakis 2006).
pub(super) struct ItemSampler {
    weights: Vec<f64>,
    alias: WeightedAliasIndex<f64>,
    taken_by: Vec<u32>,
    turn: u32,
}

impl ItemSampler {
    const DRAWS_PER_ITEM: usize = 4;

    /// # Panics
    /// When there is no weight or one is not positive and finite.
    pub(super) fn new(weights: Vec<f64>) -> Self {
        let alias = WeightedAliasIndex::new(weights.clone())
            .expect("weights are positive and their sum is finite");
        Self {
            taken_by: vec![0; weights.len()],
            weights,
            alias,
            turn: 0,
        }
    }

    /// `count` different items, in no particular order; all of them when there are fewer.
    pub(super) fn draw<R: Rng + ?Sized>(&mut self, count: usize, rng: &mut R) -> Vec<u32> {
        self.next_turn();
        let count = count.min(self.weights.len());
        let mut list = Vec::with_capacity(count);
        for _ in 0..Self::DRAWS_PER_ITEM * count {
            if list.len() == count {
                return list;
            }
            let item = self.alias.sample(rng);
            if self.taken_by[item] != self.turn {
                self.taken_by[item] = self.turn;
                list.push(to_u32(item));
            }
        }
        self.complete(&mut list, count, rng);
        list
    }

    fn next_turn(&mut self) {
        if self.turn == u32::MAX {
            self.taken_by.fill(0);
            self.turn = 0;
        }
        self.turn += 1;
    }

    fn complete<R: Rng + ?Sized>(&self, list: &mut Vec<u32>, count: usize, rng: &mut R) {
        let missing = count - list.len();
        if missing == 0 {
            return;
        }
        let left = (0..self.weights.len()).filter(|&item| self.taken_by[item] != self.turn);
        let mut keys: Vec<(f64, u32)> = left
            .map(|item| {
                let exponential: f64 = Exp1.sample(rng);
                (exponential / self.weights[item], to_u32(item))
            })
            .collect();
        keys.select_nth_unstable_by(missing - 1, |a, b| a.0.total_cmp(&b.0));
        list.extend(keys[..missing].iter().map(|&(_, item)| item));
    }
}

fn to_u32(item: usize) -> u32 {
    u32::try_from(item).expect("fewer than 2^32 items")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    #[test]
    fn lists_hold_different_items_and_the_number_asked_for() {
        let weights: Vec<f64> = (0..40).map(|i| f64::from(i).exp2()).collect();
        let mut sampler = ItemSampler::new(weights);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for count in [0, 1, 5, 39, 40, 41] {
            let mut list = sampler.draw(count, &mut rng);
            list.sort_unstable();
            list.dedup();
            assert_eq!(list.len(), count.min(40));
        }
    }

    /// Probability that successive sampling of two items takes `item`.
    fn inclusion_of_two(weights: &[f64], item: usize) -> f64 {
        let sum: f64 = weights.iter().sum();
        let second: f64 = (0..weights.len())
            .filter(|&first| first != item)
            .map(|first| weights[first] / sum * weights[item] / (sum - weights[first]))
            .sum();
        weights[item] / sum + second
    }

    #[test]
    fn both_ways_of_drawing_follow_successive_sampling() {
        // one heavy item: after the bounded draws many lists still need completing
        let weights = [60.0, 1.0, 2.0, 0.5];
        let mut sampler = ItemSampler::new(weights.to_vec());
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let n = 100_000;
        let mut seen = [0.0; 4];
        for _ in 0..n {
            for item in sampler.draw(2, &mut rng) {
                seen[item as usize] += 1.0;
            }
        }
        for (item, times) in seen.into_iter().enumerate() {
            let p = inclusion_of_two(&weights, item);
            // six standard deviations: false-alarm rate 1e-8 over the four items
            let tolerance = 6.0 * (p * (1.0 - p) / f64::from(n)).sqrt();
            assert!((times / f64::from(n) - p).abs() < tolerance, "{item}");
        }
    }
}
