//! Which of a user's tasks are kept, by a rule that looks at this user alone.

use dp_core::UserRow;

/// The rule by which a user's tasks are kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Selection {
    /// All.
    All,
    /// This many, by a hash of the user's own records.
    Uniform { tasks_per_user: usize, seed: u64 },
    /// This many, those with the smallest counts.
    Tail {
        tasks_per_user: usize,
        counts: Vec<f64>,
    },
}

impl Selection {
    /// Sets the weights of tasks that are not kept to 0; tasks of weight 0 do not count as kept.
    pub(super) fn apply(&self, user: UserRow<'_>, weights: &mut [f64]) {
        match self {
            Self::All => {}
            Self::Uniform {
                tasks_per_user,
                seed,
            } => {
                let own = fingerprint(*seed, user);
                keep_smallest(user, *tasks_per_user, weights, |task| {
                    mix(own ^ mix(u64::from(task)))
                });
            }
            Self::Tail {
                tasks_per_user,
                counts,
            } => keep_smallest(user, *tasks_per_user, weights, |task| {
                ordered(counts.get(task as usize).copied().unwrap_or(f64::INFINITY))
            }),
        }
    }
}

/// Keeps the `n_kept` tasks with the smallest keys among those with weight, ties by task number.
fn keep_smallest(user: UserRow<'_>, n_kept: usize, weights: &mut [f64], key: impl Fn(u32) -> u64) {
    if user.len() <= n_kept {
        return;
    }
    let mut order: Vec<(u64, usize)> = (0..)
        .zip(user.items())
        .filter(|&(at, _)| weights.get(at).is_some_and(|&w| w > 0.0))
        .map(|(at, &t)| (key(t), at))
        .collect();
    if order.len() <= n_kept {
        return;
    }
    if n_kept > 0 {
        order.select_nth_unstable(n_kept - 1);
    }
    for &(_, at) in &order[n_kept..] {
        weights[at] = 0.0;
    }
}

/// A number that depends on all of a user's records and on nothing else but the public seed.
pub(crate) fn fingerprint(seed: u64, user: UserRow<'_>) -> u64 {
    let records = user
        .iter()
        .map(|(task, value)| (u64::from(task) << 32) | u64::from(value.to_bits()));
    let features = user.features().iter().map(|x| u64::from(x.to_bits()));
    records
        .chain(features)
        .fold(mix(seed), |state, word| mix(state ^ word))
}

/// The finaliser of `SplitMix64` (Steele, Lea and Flood 2014): a bijection that spreads its input.
pub(crate) const fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An integer in the order of the reals.
const fn ordered(x: f64) -> u64 {
    let bits = x.to_bits();
    if bits >> 63 == 0 {
        bits | (1 << 63)
    } else {
        !bits
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;

    use super::*;

    #[test]
    fn keys_order_as_the_reals_do() {
        let reals = [
            f64::NEG_INFINITY,
            -3.0,
            -1e-300,
            0.0,
            2.0,
            1e9,
            f64::INFINITY,
        ];
        assert!(reals.windows(2).all(|w| ordered(w[0]) < ordered(w[1])));
    }

    #[test]
    fn every_task_of_a_user_is_kept_equally_often() {
        let (n_users, n_tasks, k) = (20_000_u32, 10_u32, 3);
        let mut builder = InteractionsBuilder::new(n_tasks as usize);
        for user in 0..n_users {
            for task in 0..n_tasks {
                builder.push(user, task, user as f32).unwrap();
            }
        }
        let (table, _) = builder.build();
        let selection = Selection::Uniform {
            tasks_per_user: k,
            seed: 5,
        };
        let mut kept = vec![0.0; n_tasks as usize];
        for row in table.users() {
            let mut weights = vec![1.0; row.len()];
            selection.apply(row, &mut weights);
            assert!((weights.iter().sum::<f64>() - k as f64).abs() < 1e-12);
            kept.iter_mut().zip(&weights).for_each(|(n, w)| *n += w);
        }
        // binomial(20000, 0.3): standard deviation 65; 7 of them over 10 tasks: false alarm 3e-11
        for n in kept {
            assert!((n - 6_000.0).abs() < 7.0 * 65.0, "{n}");
        }
    }
}
