//! Two processes that use the same file at the same time; sometimes one of them is killed.

use std::collections::HashSet;
use std::time::Duration;

use dp_accounting::{Error, Ledger};

use super::{budget, check_counted, patiently, writer};
use crate::shared::draw::Draw;
use crate::shared::memory_folder::memory_folder;

const TURNS: usize = 4;

fn pairs(n_pairs: usize, seed: u64) {
    let mut draw = Draw(seed);
    for pair in 0..n_pairs {
        let folder = memory_folder();
        let path = folder.path().join("ledger.jsonl");
        let kill = pair % 3 == 0;
        let mut children = [(); 2].map(|()| writer::start(&path, Some(TURNS), None));
        let pipes = [0, 1].map(|at: usize| children[at].stdout.take().unwrap());
        let readers = pipes.map(|pipe| std::thread::spawn(|| writer::ids(pipe, || ())));
        if kill {
            std::thread::sleep(Duration::from_micros(draw.below(8_000) as u64));
            children[0].kill().unwrap();
        }
        let handed_out = readers.map(|reader| reader.join().unwrap()).concat();
        let ended = children.map(|mut child| child.wait().unwrap().success());
        assert!(ended[1] && (kill || ended[0]));
        let whole: HashSet<&String> = handed_out.iter().filter(|id| id.len() == 64).collect();
        assert!(
            whole.len() + 1 >= handed_out.len(),
            "an id was handed out twice"
        );
        check_counted(&path, &handed_out);
        if !kill {
            assert_eq!(handed_out.len(), 2 * 3 * TURNS);
            assert_eq!(
                Ledger::audit(&path).unwrap().releases.len(),
                handed_out.len()
            );
        }
    }
}

#[test]
fn a_hundred_pairs_of_writers_take_turns() {
    pairs(100, 3);
}

#[test]
#[ignore = "long form: a minute"]
fn long_a_thousand_pairs_of_writers_take_turns() {
    pairs(1000, 4);
}

#[test]
fn a_second_writer_is_refused_while_the_first_lives() {
    let folder = memory_folder();
    let path = folder.path().join("ledger.jsonl");
    let first = patiently(&path).unwrap();
    for _ in 0..3 {
        let second = Ledger::open(&path, "ratings", budget().adjacency());
        assert!(matches!(second, Err(Error::LedgerLocked { .. })));
    }
    drop(first);
    assert!(patiently(&path).is_ok());
}
