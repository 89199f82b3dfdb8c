//! Loops distributed over the threads of rayon.
//!
//! What rayon does is compiled here, once; a crate that calls these functions compiles only its own
//! loop (`docs/decisions/0077-build-time.md`). An item is processed exactly once, by the same
//! operations on any number of threads.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

/// Number of parts for each thread, so that threads with faster parts take more of them.
const PARTS_PER_THREAD: usize = 8;

/// Calls `work` with each task.
pub fn for_each<T: Send>(tasks: impl IntoIterator<Item = T>, work: impl Fn(T) + Sync) {
    for_each_with(tasks, || (), |(), task| work(task));
}

/// Calls `work` with each task and working memory, which is passed from one task to the next.
pub fn for_each_with<T: Send, S>(
    tasks: impl IntoIterator<Item = T>,
    scratch: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) + Sync,
) {
    let done: Result<(), Infallible> = try_for_each(
        tasks,
        || Ok(scratch()),
        |scratch, task| {
            work(scratch, task);
            Ok(())
        },
    );
    let Ok(()) = done;
}

/// As [`for_each_with`], if working memory or work may fail.
///
/// # Errors
/// The first error in the order of the tasks. Other tasks may or may not have been processed.
pub fn try_for_each<T: Send, S, E: Send>(
    tasks: impl IntoIterator<Item = T>,
    scratch: impl Fn() -> Result<S, E> + Sync,
    work: impl Fn(&mut S, T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let mut dealt = Vec::new();
    for task in tasks {
        dealt.push(Mutex::new(Some(task)));
    }
    let done = each_part(Parts::new(dealt.len(), 1), &|range| {
        let mut scratch = scratch()?;
        for task in &dealt[range] {
            let task = lock(task).take();
            task.map_or(Ok(()), |task| work(&mut scratch, task))?;
        }
        Ok(())
    });
    done.into_iter().collect()
}

/// The values of `of` for the numbers below `n`, in order.
pub fn map<R: Send>(n: usize, of: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let values: Result<_, Infallible> = try_map(n, || Ok(()), |(), at| Ok(of(at)));
    let Ok(values) = values;
    values
}

/// The values of `of` for the numbers below `n`, in order. Working memory is passed from one number
/// to the next.
///
/// # Errors
/// The error for the smallest number.
pub fn try_map<R: Send, S, E: Send>(
    n: usize,
    scratch: impl Fn() -> Result<S, E> + Sync,
    of: impl Fn(&mut S, usize) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let parts = each_part(Parts::new(n, 1), &|range| {
        let mut scratch = scratch()?;
        let mut own = Vec::with_capacity(range.len());
        for at in range {
            own.push(of(&mut scratch, at)?);
        }
        Ok(own)
    });
    let mut all = Vec::with_capacity(n);
    for own in parts {
        all.append(&mut own?);
    }
    Ok(all)
}

/// Calls `work` with ranges that together are the numbers below `n`, each of them with at least
/// `at_least` numbers if there are as many, and with a state. Returns the states, about one for
/// each thread. Which range meets which state depends on the threads, so what the caller computes
/// from all states must not.
///
/// # Errors
/// The error for the first range. Other ranges may or may not have been processed.
pub fn try_fold<S: Send, E: Send>(
    n: usize,
    at_least: usize,
    state: impl Fn() -> Result<S, E> + Sync,
    work: impl Fn(&mut S, Range<usize>) -> Result<(), E> + Sync,
) -> Result<Vec<S>, E> {
    let idle = Mutex::new(Vec::new());
    let done = each_part(Parts::new(n, at_least), &|range| {
        let own = lock(&idle).pop();
        let mut own = own.map_or_else(&state, Ok)?;
        work(&mut own, range)?;
        lock(&idle).push(own);
        Ok(())
    });
    done.into_iter().collect::<Result<(), E>>()?;
    Ok(std::mem::take(&mut *lock(&idle)))
}

/// What `work` returns for the range of each part, in order.
fn each_part<R: Send>(parts: Parts, work: &(dyn Fn(Range<usize>) -> R + Sync)) -> Vec<R> {
    let mut done = Vec::with_capacity(parts.n_parts);
    done.resize_with(parts.n_parts, || Mutex::new(None));
    parts.run(&|number| {
        let result = work(parts.range(number));
        *lock(&done[number]) = Some(result);
    });
    let done = done.into_iter();
    done.filter_map(|result| lock(&result).take()).collect()
}

/// The numbers below `n` in parts of nearly equal length.
#[derive(Clone, Copy)]
struct Parts {
    n: usize,
    n_parts: usize,
}

impl Parts {
    fn new(n: usize, at_least: usize) -> Self {
        let most = match n_threads() {
            1 => 1,
            n_threads => n_threads * PARTS_PER_THREAD,
        };
        let n_parts = (n / at_least.max(1)).clamp(1, most).min(n);
        Self { n, n_parts }
    }

    fn range(self, number: usize) -> Range<usize> {
        let (len, n_longer) = (self.n / self.n_parts, self.n % self.n_parts);
        let start = |number: usize| number * len + number.min(n_longer);
        start(number)..start(number + 1)
    }

    /// Calls `work` with the number of each part.
    fn run(self, work: &(dyn Fn(usize) + Sync)) {
        if self.n_parts == 1 {
            work(0);
        } else {
            let numbers = (0..self.n_parts).into_par_iter();
            numbers.with_max_len(1).for_each(work);
        }
    }
}

/// Number of threads on which the work is done.
#[must_use]
pub fn n_threads() -> usize {
    rayon::current_num_threads()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // what a panic left behind is not used: it is passed on to the caller
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the same on pools of several sizes.
    fn on_threads(test: impl Fn() + Sync) {
        for n_threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads);
            pool.build().unwrap().install(&test);
        }
    }

    #[test]
    fn every_number_is_in_one_part_and_parts_are_long_enough() {
        on_threads(|| {
            for n in [0, 1, 2, 5, 99, 1000] {
                for at_least in [0, 1, 7, 2000] {
                    let parts = Parts::new(n, at_least);
                    let ranges: Vec<_> = (0..parts.n_parts).map(|at| parts.range(at)).collect();
                    let numbers: Vec<usize> = ranges.iter().cloned().flatten().collect();
                    assert_eq!(numbers, (0..n).collect::<Vec<_>>());
                    let enough = at_least.max(1).min(n);
                    assert!(ranges.iter().all(|range| range.len() >= enough));
                }
            }
        });
    }

    #[test]
    fn results_are_in_order_and_tasks_done_once() {
        on_threads(|| {
            assert_eq!(
                map(1000, |at| 3 * at),
                (0..1000).map(|at| 3 * at).collect::<Vec<_>>()
            );
            assert!(map(0, |at| at).is_empty());
            let mut rows = vec![1_usize; 1000];
            for_each(rows.chunks_mut(3).enumerate(), |(at, row)| {
                row.iter_mut().for_each(|cell| *cell += at);
            });
            let expected = (0..1000).map(|cell| 1 + cell / 3);
            assert_eq!(rows, expected.collect::<Vec<_>>());
        });
    }

    #[test]
    fn states_together_saw_every_number_once() {
        on_threads(|| {
            let states: Result<Vec<u64>, Infallible> = try_fold(
                1000,
                10,
                || Ok(0),
                |sum, range| {
                    *sum += range.map(|at| at as u64).sum::<u64>();
                    Ok(())
                },
            );
            let states = states.unwrap();
            assert!(states.len() <= rayon::current_num_threads());
            assert_eq!(states.iter().sum::<u64>(), 999 * 1000 / 2);
        });
    }

    #[test]
    fn the_first_error_is_returned() {
        on_threads(|| {
            let fails = |at: usize| if at % 100 == 77 { Err(at) } else { Ok(at) };
            assert_eq!(try_map(1000, || Ok(()), |(), at| fails(at)), Err(77));
            let found = try_for_each(0..1000, || Ok(()), |(), at| fails(at).map(|_| ()));
            assert_eq!(found, Err(77));
            let no_memory = try_for_each(0..10, || Err::<(), _>(1), |(), _| Ok(()));
            assert_eq!(no_memory, Err(1));
        });
    }
}
