use std::collections::BTreeMap;

use dp_core::{Private, params};

use super::add_sums;
use crate::{Error, Result, RoundKey};

/// A coordinator's request to its workers: the sum over their users for the next release.
///
/// It names the run, the step and everything released so far, so that answers to other requests can
/// be recognised.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "may hold the key of a sample; printing it is never wanted"
)]
pub struct SumRequest {
    /// The run: the same text for coordinator and workers.
    pub run: String,
    /// Number of releases made before this one.
    pub step: usize,
    /// Hash of the list of releases so far.
    pub list_head: String,
    /// Length of the sum.
    pub n_coordinates: usize,
    /// A number that only this request has, so that a late answer to an abandoned request can be
    /// recognised. Public.
    pub nonce: u64,
    /// Name of the vector instructions used to compute contributions: with different ones the last
    /// digits may differ.
    pub instructions: &'static str,
    /// The secret key of the round's sample; `None` if all users take part.
    pub round_key: Option<RoundKey>,
}

impl SumRequest {
    /// A request for a sum that does not belong to a run.
    #[must_use]
    pub const fn alone(n_coordinates: usize) -> Self {
        Self {
            run: String::new(),
            step: 0,
            list_head: String::new(),
            n_coordinates,
            nonce: 0,
            instructions: "",
            round_key: None,
        }
    }
}

/// One worker's answer to a [`SumRequest`].
///
/// # Privacy
/// The sum is exact and as private as the worker's records: it is sent only to the coordinator,
/// over a link that nobody else can read.
#[allow(
    missing_debug_implementations,
    reason = "holds a private sum; printing it is never wanted"
)]
pub struct ShardAnswer {
    /// Number of the worker's shard, from 0.
    pub shard: usize,
    /// Number of shards that the users are assigned to.
    pub n_shards: usize,
    /// The request's run.
    pub run: String,
    /// The request's step.
    pub step: usize,
    /// The request's hash of the list so far.
    pub list_head: String,
    /// The request's nonce.
    pub nonce: u64,
    /// The sum over the users of the shard.
    pub sum: Private<Vec<i64>>,
}

/// Adds the answers of all shards to one request, each exactly once.
///
/// # Examples
/// ```
/// use dp_core::Private;
/// use dp_mechanism::{ShardAnswer, SumRequest, Tally};
/// let request = SumRequest { run: "nightly".to_owned(), ..SumRequest::alone(2) };
/// let answer = |shard, sum: [i64; 2]| ShardAnswer {
///     shard,
///     n_shards: 2,
///     run: "nightly".to_owned(),
///     step: 0,
///     list_head: String::new(),
///     nonce: 0,
///     sum: Private::new(sum.to_vec()),
/// };
/// let mut tally = Tally::new(&request, 2)?;
/// tally.receive(answer(1, [1, 2]))?;
/// assert!(tally.receive(answer(1, [1, 2])).is_err()); // a shard counts once
/// assert_eq!(tally.missing(), [0]);
/// tally.receive(answer(0, [3, 4]))?;
/// assert_eq!(tally.total()?.expose(), &[4, 6]);
/// # Ok::<(), dp_mechanism::Error>(())
/// ```
#[allow(
    missing_debug_implementations,
    reason = "holds private sums; printing them is never wanted"
)]
pub struct Tally<'r> {
    request: &'r SumRequest,
    n_shards: usize,
    /// Which shards have answered.
    seen: BTreeMap<usize, ()>,
    total: Vec<i64>,
}

impl<'r> Tally<'r> {
    /// Creates a collector without answers, for `n_shards`.
    ///
    /// # Errors
    /// [`Error::Param`] if there are no shards.
    pub fn new(request: &'r SumRequest, n_shards: usize) -> Result<Self> {
        params::at_least_one("n_shards", n_shards)?;
        Ok(Self {
            request,
            n_shards,
            seen: BTreeMap::new(),
            total: vec![0; request.n_coordinates],
        })
    }

    /// Adds one answer. A rejected answer changes nothing: the shard can be asked again.
    ///
    /// # Errors
    /// [`Error::Answer`] for an answer to another request, of a shard that does not exist or has
    /// already answered, or of another length.
    pub fn receive(&mut self, answer: ShardAnswer) -> Result<()> {
        let request = self.request;
        let wrong = [
            ("another run", answer.run != request.run),
            ("another step", answer.step != request.step),
            (
                "another list of releases",
                answer.list_head != request.list_head,
            ),
            ("an abandoned request", answer.nonce != request.nonce),
            (
                "users dealt to another number of shards",
                answer.n_shards != self.n_shards || answer.shard >= self.n_shards,
            ),
            ("a shard that has answered", self.has(answer.shard)),
            (
                "a sum of another length",
                answer.sum.expose().len() != request.n_coordinates,
            ),
        ];
        if let Some(&(what, _)) = wrong.iter().find(|(_, is_wrong)| *is_wrong) {
            return Err(Error::Answer {
                shard: answer.shard,
                what,
            });
        }
        add_sums(&mut self.total, answer.sum.expose())?;
        self.seen.insert(answer.shard, ());
        Ok(())
    }

    fn has(&self, shard: usize) -> bool {
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("shard-counted-twice") {
            return false;
        }
        self.seen.contains_key(&shard)
    }

    /// Shards that have not answered yet.
    #[must_use]
    pub fn missing(&self) -> Vec<usize> {
        let all = 0..self.n_shards;
        all.filter(|shard| !self.seen.contains_key(shard)).collect()
    }

    /// The sum over all shards.
    ///
    /// # Errors
    /// [`Error::Answer`] while a shard is missing.
    pub fn total(self) -> Result<Private<Vec<i64>>> {
        match self.missing().first() {
            Some(&shard) => Err(Error::Answer {
                shard,
                what: "no answer yet",
            }),
            None => Ok(Private::new(self.total)),
        }
    }
}
