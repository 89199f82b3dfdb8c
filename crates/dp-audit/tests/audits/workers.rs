//! Users assigned to workers: each user counts once, however often answers arrive.

use dp_accounting::{Plan, ReleaseRequest};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, ReplaceFactor};
use dp_mechanism::{Error, Run, Shard, ShardAnswer, SumRequest, Tally, worker_channels};

use crate::support::table;

const RUN: &str = "r";
const N_SHARDS: usize = 2;

fn users() -> Interactions {
    let users: Vec<_> = (0..60).map(|_| vec![(0, 1.0)]).collect();
    table(2, &users)
}

/// A repeated answer, as from a message that was sent twice, is rejected and changes nothing.
#[test]
fn a_shard_counts_once() {
    let request = SumRequest {
        run: RUN.to_owned(),
        ..SumRequest::alone(2)
    };
    let answer = |shard, sum: [i64; 2]| ShardAnswer {
        shard,
        n_shards: N_SHARDS,
        run: RUN.to_owned(),
        step: 0,
        list_head: String::new(),
        nonce: request.nonce,
        sum: Private::new(sum.to_vec()),
    };
    let mut tally = Tally::new(&request, N_SHARDS).unwrap();
    tally.receive(answer(0, [3, -4])).unwrap();
    for again in [[3, -4], [5, 5]] {
        let refused = tally.receive(answer(0, again));
        assert!(matches!(refused, Err(Error::Answer { shard: 0, .. })));
    }
    tally.receive(answer(1, [1, 1])).unwrap();
    assert_eq!(tally.total().unwrap().expose(), &[4, -3]);
}

/// A user who is in two shards would be bounded twice: a worker only starts with the users of its
/// own shard.
#[test]
fn a_worker_refuses_users_of_another_shard() {
    let request = ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 2);
    let target = ApproxDp::target(1.0, 1e-5).unwrap();
    let plan = Plan::calibrate(target, Adjacency::AddRemoveUser, &[request]).unwrap();
    let parts = users().deal(N_SHARDS, Shard::dealer(RUN, N_SHARDS));
    assert!(parts.iter().all(|part| part.n_users() > 0));
    let starts = |number, users: Interactions| {
        let shard = Shard::new(RUN, number, N_SHARDS).unwrap();
        let (_pool, mut links) = worker_channels(N_SHARDS);
        let users = Private::new(users);
        let started = Run::worker(&plan, shard, &users, &mut links[number]);
        match started.map(drop) {
            Ok(()) => true,
            Err(Error::UsersOfAnotherShard { shard }) => {
                assert_eq!(shard, number);
                false
            }
            Err(error) => panic!("{error}"),
        }
    };
    for (number, part) in parts.into_iter().enumerate() {
        assert!(!starts(1 - number, part.clone()), "all of the other shard");
        assert!(starts(number, part));
        assert!(!starts(number, users()), "some of the other shard");
    }
}
