use super::*;
use crate::test_support::{Lcg, rebuilt, table, without_user};

/// Extreme shares that depend only on the user's own records.
struct Hostile;

impl VectorContribution for Hostile {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        for (item, value) in user.iter() {
            let mut rng = Lcg(u64::from(value.to_bits()));
            for _ in 0..3 {
                out.push(item % 7, rng.hostile());
            }
        }
    }
}

fn mechanism(change: ScoreChange, relation: Relation) -> ExponentialMechanism {
    ExponentialMechanism::new(1.0, 0.7, change, relation).unwrap()
}

#[test]
fn one_hostile_user_moves_no_score_beyond_the_bound() {
    // 10 candidates of which 7 to 9 get nothing; 3000 users with up to 60 extreme shares
    let table = table(3000, 9, 9, 4);
    for (change, relation) in [
        (ScoreChange::General, Relation::AddRemove),
        (ScoreChange::Monotone, Relation::AddRemove),
        (ScoreChange::General, Relation::Replace),
    ] {
        let mechanism = mechanism(change, relation);
        let steps = |data: &Private<Interactions>| {
            ScoreSum::accumulate(data, 10, mechanism, &Hostile)
                .unwrap()
                .steps
        };
        let all = steps(&rebuilt(&table, 0..table.n_users()));
        let bound = mechanism.sensitivity.cast_signed();
        let mut reached = 0;
        for gone in (0..table.n_users()).step_by(30) {
            for (with, without) in all.iter().zip(steps(&without_user(&table, gone))) {
                let moved = with - without;
                assert!(moved.abs() <= bound);
                let one_sided = (change, relation) != (ScoreChange::General, Relation::AddRemove);
                assert!(!one_sided || moved >= 0);
                reached += u32::from(moved.abs() == bound);
            }
        }
        assert!(
            reached > 0,
            "the bound is never reached: the test is too tame"
        );
    }
}

#[test]
fn a_hundred_thousand_hostile_users_keep_their_shares_within_the_bound() {
    let table = table(100_000, 9, 4, 8);
    for (change, relation) in [
        (ScoreChange::General, Relation::AddRemove),
        (ScoreChange::Monotone, Relation::AddRemove),
        (ScoreChange::General, Relation::Replace),
    ] {
        let mechanism = mechanism(change, relation);
        let allowed = mechanism.allowed_shares().unwrap();
        let spread = allowed.end() - allowed.start();
        let bound = mechanism.sensitivity.cast_signed();
        assert!(spread == bound || (relation == Relation::AddRemove && spread == 2 * bound));
        let mut buffer = SparseBuffer::default();
        let mut at_an_end = 0;
        for user in table.users() {
            let mut before = None;
            for (candidate, share) in
                mechanism.shares(&allowed, &mut Hostile.contributor(), user, &mut buffer)
            {
                assert!(allowed.contains(&share), "{share}");
                assert!(before.is_none_or(|b| b < candidate), "{candidate} twice");
                before = Some(candidate);
                at_an_end += u32::from(share == bound);
            }
        }
        assert!(at_an_end > 1_000, "{at_an_end}");
    }
}

#[test]
fn repeats_add_up_before_the_bound_and_strangers_are_ignored() {
    struct Repeats;
    impl VectorContribution for Repeats {
        type Scratch = ();
        fn scratch(&self) {}
        fn contribute(&self, _: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
            for (candidate, value) in [(1, 0.25), (0, 0.5), (1, 0.25), (0, 0.5), (9, 1.0)] {
                out.push(candidate, value);
            }
        }
    }
    let table = table(1, 4, 2, 1);
    let data = rebuilt(&table, 0..table.n_users());
    let mechanism = mechanism(ScoreChange::Monotone, Relation::AddRemove);
    let sum = ScoreSum::accumulate(&data, 2, mechanism, &Repeats).unwrap();
    // step 2^-11: 0.5 is 1024 steps, 1.0 is clipped to ceil(0.7 2^11) = 1434
    assert_eq!(sum.steps, [1434, 1024]);
}

#[test]
fn monotone_replacement_and_bad_sizes_are_refused() {
    let table = table(3, 4, 2, 1);
    let data = rebuilt(&table, 0..table.n_users());
    let sum = |n, mechanism| ScoreSum::accumulate(&data, n, mechanism, &Hostile).is_ok();
    let good = mechanism(ScoreChange::Monotone, Relation::AddRemove);
    assert!(sum(1, good) && !sum(0, good) && !sum((1 << 24) + 1, good));
    assert!(!sum(1, mechanism(ScoreChange::Monotone, Relation::Replace)));
}

/// A user's values by candidate, in one of three forms; users with an odd first item use all of
/// them.
struct Forms(u8);

impl VectorContribution for Forms {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let mut values = [0.0; 7];
        for (item, value) in user.iter() {
            let mut rng = Lcg(u64::from(value.to_bits()));
            // dyadic: however it is divided, the parts add up to it exactly
            values[item as usize % 7] = (rng.next() % 64) as f64 / 32.0 - 1.0;
        }
        let odd = user.items().first().is_some_and(|item| item % 2 == 1);
        match self.0 {
            1 if !odd => out.dense(7).copy_from_slice(&values),
            2 if !odd => {
                out.dense(7)
                    .iter_mut()
                    .zip(values)
                    .for_each(|(to, v)| *to = v / 2.0);
                out.extend((0..).zip(values.map(|v| v / 2.0)));
            }
            3 if !odd => out.dense(12)[..7].copy_from_slice(&values),
            _ => out.extend((0..).zip(values)),
        }
    }
}

#[test]
fn shares_in_one_piece_count_as_those_that_are_pushed() {
    let table = table(2000, 9, 9, 4);
    let data = rebuilt(&table, 0..table.n_users());
    for change in [ScoreChange::General, ScoreChange::Monotone] {
        let steps = |form| {
            let mechanism = mechanism(change, Relation::AddRemove);
            let sum = ScoreSum::accumulate(&data, 10, mechanism, &Forms(form));
            sum.unwrap().steps
        };
        let pushed = steps(0);
        assert!(pushed[..7].iter().all(|&k| k != 0) && pushed[7..] == [0; 3]);
        for form in 1..=3 {
            assert_eq!(steps(form), pushed, "form {form}");
        }
    }
}

#[test]
fn every_user_finds_an_empty_buffer() {
    /// The first user fills the buffer; later users leave it unchanged.
    struct FirstFills;
    impl VectorContribution for FirstFills {
        type Scratch = ();
        fn scratch(&self) {}
        fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
            let fills = user.items().len() > 1;
            let found = out.dense(2);
            assert_eq!(found, [0.0; 2]);
            if fills {
                found.copy_from_slice(&[0.25, 0.5]);
                out.push(1, 0.125);
            }
        }
    }
    let mut builder = dp_core::InteractionsBuilder::new(3);
    for (user, item) in [(0, 0), (0, 1), (1, 0), (2, 2)] {
        builder.push(user, item, 1.0).unwrap();
    }
    let data = Private::new(builder.build().0);
    let mechanism = mechanism(ScoreChange::General, Relation::AddRemove);
    let sum = ScoreSum::accumulate(&data, 2, mechanism, &FirstFills).unwrap();
    // step 2^-11
    assert_eq!(sum.steps, [512, 1280]);
}
