//! Two-server sums: what one server sees.

use dp_audit::audit_uniform_words;
use dp_core::Private;
use dp_mechanism::Share;

use crate::support::LEVEL;

/// 32,768 words: each of 2,048 cells expects 128.
const N: usize = 1 << 15;

/// Two clients with the same vector, so that a reused mask shows in the difference.
#[test]
fn what_one_server_sees_is_uniform() {
    for value in [0, -1, i64::MAX] {
        let split = || Share::split(Private::new(vec![value; N])).unwrap();
        let (first, second) = (split(), split());
        for server in [0, 1] {
            let (a, b) = (first[server].coordinates(), second[server].coordinates());
            let difference: Vec<i64> = a.iter().zip(b).map(|(a, b)| a.wrapping_sub(*b)).collect();
            let steps: Vec<i64> = a.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
            for (what, words) in [
                ("share", a),
                ("difference of two clients", &difference),
                ("step between coordinates", &steps),
            ] {
                let check = audit_uniform_words(what, words, LEVEL).unwrap();
                assert!(check.passed(), "{value}, server {server}: {check:?}");
            }
        }
    }
}
