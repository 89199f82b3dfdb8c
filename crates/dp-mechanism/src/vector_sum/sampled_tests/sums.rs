//! Which users a sampled sum contains, which spends cover it, and which sums may be merged.

use super::*;

#[test]
fn a_sampled_sum_is_the_sum_of_exactly_the_sampled_users() {
    let data = table(3000, N_ITEMS, 6, 1);
    let rows = rows(&data);
    let n = data.n_users();
    let data = Private::new(data);
    for (seed, sampling) in (0..).zip([poisson(0.3), poisson(0.01), poisson(1.0), fixed(100, n)]) {
        // the first key of a source draws the sample, whichever call uses it
        let sample = sampling.sample(n, &mut seeded(seed)).unwrap();
        let drawn = sample.indices().to_vec();
        let noise = &mut seeded(seed);
        let sum =
            VectorSum::accumulate_sampled(sampling, &data, N_ITEMS, grid(), &Votes, noise).unwrap();
        let expected = sum_of(drawn.iter().map(|&user| &rows[user]));
        assert_eq!(sum.sums, expected);
        assert!(!drawn.is_empty() && expected.iter().any(|&s| s != 0));
        // the same through messages, in another order
        let messages = drawn.iter().rev().map(|&user| (user, &rows[user]));
        let spend = step(sampling.event(DpEvent::gaussian(2.0)), N_ITEMS as u64);
        let paid = sampling
            .pay_and_sample(n, spend, &mut seeded(seed))
            .unwrap();
        assert_eq!(
            (paid.indices(), paid.sampling()),
            (sample.indices(), sampling)
        );
        let sent = VectorSum::from_messages(paid, messages, N_ITEMS, grid()).unwrap();
        let sent = sent.sum;
        assert_eq!(sent.sums, expected);
        assert!(sent.sampling == Some(sampling) && sum.sampling == Some(sampling));
    }
}

#[test]
fn noise_of_a_sampled_release_has_the_scale_of_the_spend() {
    // white box over the released integers: level 1e-9, scale 1 percent too small is detected
    // except with probability 1e-6
    let n = DRAWS_FOR_ONE_PERCENT;
    let sampling = poisson(0.5);
    let mut builder = dp_core::InteractionsBuilder::new(n);
    for user in 0..40 {
        for item in 0..5 {
            builder.push(user, user * 1000 + item, 1.0).unwrap();
        }
    }
    let data = Private::new(builder.build().0);
    let noise = &mut NoiseSource::operating_system();
    let sum = VectorSum::accumulate_sampled(sampling, &data, n, grid(), &Votes, noise).unwrap();
    let exact = sum.sums.clone();
    assert!(exact.iter().any(|&s| s != 0));
    let spend = step(sampling.event(DpEvent::gaussian(2.0)), n as u64);
    let released = sum.release(spend, noise).unwrap();
    let score = variance_score(released.integers(), &exact, |_| grid().sigma() as f64);
    assert!(score.abs() < LEVEL_1E_9, "score {score}");
    assert!(!released.is_insecure());
}

/// The table with the records of `user` replaced by those of `other`, or removed.
fn exchanged(data: &Interactions, user: usize, other: Option<usize>) -> Private<Interactions> {
    let mut builder = dp_core::InteractionsBuilder::new(N_ITEMS);
    builder.ensure_users(data.n_users()); // keeps their number
    for at in 0..data.n_users() {
        let number = u32::try_from(at).unwrap();
        let from = if at == user { other } else { Some(at) };
        for (item, value) in from.iter().flat_map(|&u| data.user(u).iter()) {
            builder.push(number, item, value).unwrap();
        }
    }
    Private::new(builder.build().0)
}

#[test]
fn given_the_sample_a_user_moves_the_sum_by_a_bounded_vector_or_not_at_all() {
    let data = table(200, N_ITEMS, 9, 2);
    let n = data.n_users();
    let bound = u128::from(grid().l2_bound()).pow(2);
    let run = |data: &Private<Interactions>, sampling, seed| {
        let noise = &mut seeded(seed);
        VectorSum::accumulate_sampled(sampling, data, N_ITEMS, grid(), &Votes, noise)
            .unwrap()
            .sums
    };
    let moved = |a: &[i64], b: &[i64]| -> u128 {
        let differences = a.iter().zip(b).map(|(&a, &b)| square(a.wrapping_sub(b)));
        differences.sum()
    };
    let whole = Private::new(data.clone());
    for (sampling, factor_squared) in [(poisson(0.4), 1), (fixed(70, n), 4)] {
        let sample = sampling.sample(n, &mut seeded(9)).unwrap();
        let all = run(&whole, sampling, 9);
        let (mut n_moved, mut furthest) = (0, 0);
        for user in 0..n {
            // under one sample: the user's records removed, or replaced by those of another user
            let other = (factor_squared == 4).then_some((user + 1) % n);
            let neighbour = exchanged(&data, user, other);
            let distance = moved(&all, &run(&neighbour, sampling, 9));
            assert!(distance <= factor_squared * bound, "user {user}");
            assert!(
                distance == 0 || sample.indices().contains(&user),
                "user {user}"
            );
            n_moved += u32::from(distance > 0);
            furthest = furthest.max(distance);
        }
        assert!(n_moved > 30 && furthest > bound / 4, "{n_moved} moved");
    }
}

#[test]
fn every_user_is_in_the_sum_as_often_as_the_event_says() {
    // binomial counts of 20,000 rounds: seven standard errors, 30 users, both schemes
    const ROUNDS: u32 = 20_000;
    let mut builder = dp_core::InteractionsBuilder::new(30);
    for user in 0..30 {
        builder.push(user, user, 1.0).unwrap();
    }
    let data = Private::new(builder.build().0);
    for (sampling, q) in [(poisson(0.15), 0.15), (fixed(6, 30), 0.2)] {
        let noise = &mut seeded(4);
        let mut counts = [0.0; 30];
        for _ in 0..ROUNDS {
            let sum = VectorSum::accumulate_sampled(sampling, &data, 30, grid(), &Votes, noise);
            for (count, z) in counts.iter_mut().zip(sum.unwrap().sums) {
                *count += f64::from(u8::from(z != 0));
            }
        }
        let n = f64::from(ROUNDS);
        for count in counts {
            assert!(
                (count - n * q).abs() < 7.0 * (n * q * (1.0 - q)).sqrt(),
                "{count}"
            );
        }
    }
}

#[test]
fn a_scheme_other_than_the_accounted_one_cannot_be_released() {
    let n = 200;
    let data = Private::new(table(n, N_ITEMS, 6, 3));
    let n = n as usize;
    let gaussian = DpEvent::gaussian(2.0);
    let q = 0.25_f64;
    let schemes = [
        None,
        Some(poisson(q)),
        Some(poisson(q.next_down())),
        Some(poisson(q.next_up())),
        Some(poisson(1.0)),
        Some(fixed(50, n)),
        Some(fixed(49, n)),
        Some(fixed(n, n)),
    ];
    let mut events: Vec<(DpEvent, Option<ClientSampling>)> = schemes
        .iter()
        .map(|s| {
            (
                s.map_or(gaussian.clone(), |s| s.event(gaussian.clone())),
                *s,
            )
        })
        .collect();
    for wrong in [
        fixed(25, n / 2).event(gaussian.clone()),
        poisson(q).event(gaussian.clone().repeated(1)),
        poisson(q).event(DpEvent::laplace(2.0)),
        poisson(q).event(DpEvent::gaussian(2.0_f64.next_up())),
        poisson(q).event(DpEvent::gaussian_psd(2.0)),
        fixed(50, n).event(DpEvent::gaussian_psd(2.0)),
    ] {
        // covers none of the sums
        events.push((wrong, Some(fixed(1, 1))));
    }
    let noise = &mut seeded(5);
    for (event, pays_for) in events {
        for (scheme, spend) in schemes.iter().zip(steps(event.clone(), 12, schemes.len())) {
            let sum = match *scheme {
                None => VectorSum::accumulate(&data, N_ITEMS, grid(), &Votes),
                Some(s) => VectorSum::accumulate_sampled(s, &data, N_ITEMS, grid(), &Votes, noise),
            };
            let released = sum.unwrap().release(spend, noise);
            assert_eq!(
                released.is_ok(),
                *scheme == pays_for,
                "{scheme:?}, {event:?}"
            );
        }
    }
    let sum = VectorSum::accumulate_sampled(poisson(q), &data, N_ITEMS, grid(), &Votes, noise);
    let fewer = sum
        .unwrap()
        .release(step(poisson(q).event(gaussian), 11), noise);
    assert!(matches!(fewer, Err(Error::DrawCount { .. })));
}

#[test]
fn shards_merge_under_one_poisson_scheme_only() {
    let build = || Private::new(table(100, N_ITEMS, 6, 3));
    let noise = &mut NoiseSource::operating_system();
    let mut sum = |scheme: Option<ClientSampling>| match scheme {
        None => VectorSum::accumulate(&build(), N_ITEMS, grid(), &Votes).unwrap(),
        Some(s) => {
            VectorSum::accumulate_sampled(s, &build(), N_ITEMS, grid(), &Votes, noise).unwrap()
        }
    };
    let schemes = [
        None,
        Some(poisson(0.5)),
        Some(poisson(0.25)),
        Some(fixed(10, 100)),
    ];
    for a in schemes {
        for b in schemes {
            let (mut left, right) = (sum(a), sum(b));
            let (before, added) = (left.sums.clone(), right.sums.clone());
            let joins = a == b && !matches!(a, Some(ClientSampling::FixedSize(_)));
            let merged = left.merge(right);
            assert_eq!(merged.is_ok(), joins, "{a:?}, {b:?}");
            assert_eq!(left.sampling, a);
            let total: Vec<i64> = before.iter().zip(&added).map(|(x, y)| x + y).collect();
            assert_eq!(left.sums, if joins { total } else { before });
        }
    }
    // the seeded shard marks the whole as insecure
    let mut whole = sum(Some(poisson(0.5)));
    let shard = &mut seeded(1);
    let seeded =
        VectorSum::accumulate_sampled(poisson(0.5), &build(), N_ITEMS, grid(), &Votes, shard);
    whole.merge(seeded.unwrap()).unwrap();
    let spend = step(poisson(0.5).event(DpEvent::gaussian(2.0)), 12);
    let released = whole.release(spend, &mut NoiseSource::operating_system());
    assert!(released.unwrap().is_insecure());
}

#[test]
fn a_repeatable_sample_or_noise_taints_the_release() {
    let data = Private::new(table(50, N_ITEMS, 6, 3));
    for (sample_seeded, noise_seeded) in [(false, false), (true, false), (false, true)] {
        let source = |is_seeded| {
            if is_seeded {
                seeded(1)
            } else {
                NoiseSource::operating_system()
            }
        };
        let drawn = &mut source(sample_seeded);
        let sum =
            VectorSum::accumulate_sampled(poisson(0.5), &data, N_ITEMS, grid(), &Votes, drawn);
        let spend = step(poisson(0.5).event(DpEvent::gaussian(2.0)), 12);
        let released = sum.unwrap().release(spend, &mut source(noise_seeded));
        assert_eq!(
            released.unwrap().is_insecure(),
            sample_seeded || noise_seeded
        );
    }
}

#[test]
fn a_schedule_of_sampled_steps_is_planned_paid_and_released() {
    let target = ApproxDp::target(1.0, 1e-6).unwrap();
    let data = table(400, N_ITEMS, 6, 3);
    let n = data.n_users();
    let data = Private::new(data);
    for (sampling, adjacency) in [
        (poisson(0.02), Adjacency::AddRemoveUser),
        (fixed(8, n), Adjacency::ReplaceUser),
    ] {
        let (plan, z) = Plan::calibrate_noise(target, adjacency, |z| {
            let event = sampling.event(DpEvent::gaussian(z));
            vec![PlannedRelease::new("step", event, N_ITEMS as u64); 20]
        })
        .unwrap();
        assert_eq!(plan.target(), target);
        let epsilon = plan.guarantee().epsilon;
        assert!(epsilon <= 1.0 && epsilon > 1.0 - 1e-5, "{epsilon}"); // the upper end of its bracket
        let budget = Budget::schedule(target, adjacency).unwrap();
        let mut ledger = Ledger::in_memory("test", budget).unwrap();
        let noise = &mut seeded(6);
        for spend in ledger.reserve(&plan).unwrap() {
            assert!(
                sampling
                    .noise_multiplier(&spend)
                    .is_ok_and(|found| found.to_bits() == z.to_bits())
            );
            let grid = Grid::new(z, 2.0).unwrap();
            let sum = VectorSum::accumulate_sampled(sampling, &data, N_ITEMS, grid, &Votes, noise);
            assert!(sum.unwrap().release(spend, noise).is_ok());
        }
        assert!(ledger.reserve(&plan).is_err());
    }
    // an unsampled sum does not accept a spend for a sampled one, and vice versa
    let plain = spends(&[(2.0, ReplaceFactor::Two, 12)]).remove(0);
    assert!(poisson(0.02).noise_multiplier(&plain).is_err());
}

#[test]
fn sums_over_the_same_users_do_not_merge() {
    let data = table(100, N_ITEMS, 6, 3);
    let noise = &mut seeded(3);
    let mut sum = |data: &Interactions, sampled: bool| {
        let data = Private::new(data.clone());
        let sum = if sampled {
            VectorSum::accumulate_sampled(poisson(0.5), &data, N_ITEMS, grid(), &Votes, noise)
        } else {
            VectorSum::accumulate(&data, N_ITEMS, grid(), &Votes)
        };
        sum.unwrap()
    };
    let (halves, thirds) = (data.shards(2), data.shards(3));
    for sampled in [false, true] {
        let mut refused = |a: &Interactions, b: &Interactions| {
            let (mut left, right) = (sum(a, sampled), sum(b, sampled));
            let before = left.sums.clone();
            match left.merge(right) {
                Err(e) => matches!(e, Error::SameUsers) && left.sums == before,
                Ok(()) => false,
            }
        };
        assert!(refused(&data, &data));
        assert!(refused(&data, &halves[1]) && refused(&halves[0], &data));
        assert!(refused(&halves[0], &halves[0]) && refused(&halves[0], &thirds[2]));
        assert!(!refused(&halves[0], &halves[1]) && !refused(&thirds[2], &thirds[0]));
        let built_apart = table(100, N_ITEMS, 6, 3);
        assert!(!refused(&data, &built_apart));
    }
    // previously merged users count as well; into an empty sum everything can be merged once
    let mut all = VectorSum::empty(N_ITEMS, grid()).unwrap();
    all.merge(sum(&halves[0], false)).unwrap();
    all.merge(sum(&halves[1], false)).unwrap();
    all.merge(VectorSum::empty(N_ITEMS, grid()).unwrap())
        .unwrap();
    assert!(matches!(
        all.merge(sum(&halves[1], false)),
        Err(Error::SameUsers)
    ));
    // the users of a sum of shares are not known
    let shares = || {
        let halves = Share::split(Private::new(vec![0; N_ITEMS])).unwrap();
        VectorSum::from_shares(grid(), halves).unwrap()
    };
    assert!(matches!(all.merge(shares()), Err(Error::SameUsers)));
    assert!(matches!(shares().merge(shares()), Err(Error::SameUsers)));
    let mut empty = VectorSum::empty(N_ITEMS, grid()).unwrap();
    empty.merge(shares()).unwrap();
    assert!(matches!(empty.merge(shares()), Err(Error::SameUsers)));
}
