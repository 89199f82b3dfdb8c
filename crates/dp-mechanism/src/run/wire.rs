//! Messages between coordinator and workers as bytes: what an engine between machines has to
//! transport.
//!
//! ```text
//! message = kind (1 byte), length of the head (4 bytes, little-endian), head (JSON), body
//! ```
//!
//! | kind | from | head | body |
//! |---|---|---|---|
//! | 1 | coordinator | the request | the key of the sample, 32 bytes; empty if all users take part |
//! | 2 | coordinator | `null` | the release, as [`ReleaseEntry::to_bytes`] writes it |
//! | 3 | coordinator | `null` | empty: the worker is no longer needed |
//! | 4 | worker | the answer | the sum, 8 bytes for each coordinate, little-endian |

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use dp_core::Private;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{CoordinatorLink, FromWorker, ToWorker, WorkerPool};
use crate::sum_backend::{ShardAnswer, Share, SumRequest};
use crate::{Error, ReleaseEntry, Result, RoundKey};

const SUM: u8 = 1;
const RELEASED: u8 = 2;
const END: u8 = 3;
const ANSWER: u8 = 4;

/// The coordinator's end of links that transport bytes. An engine that implements it gets a
/// [`WorkerPool`].
///
/// # Privacy
/// Exact sums and keys of samples are sent over these links, so only the coordinator and the worker
/// may be able to read them.
pub trait BytePool: Sync {
    /// Number of shards, including that of a coordinator which [has
    /// one](super::Coordinator::with_first_shard).
    fn n_shards(&self) -> usize;

    /// Sends a message to the worker of one shard. Messages to one worker arrive in order.
    ///
    /// # Errors
    /// Any permanent failure of the link.
    fn post(&self, shard: usize, message: &[u8]) -> Result<()>;

    /// Waits for a message from any worker, and returns it with the number of its shard.
    ///
    /// # Errors
    /// If a worker is gone, or no more messages can be expected.
    fn fetch(&self) -> Result<(usize, Vec<u8>)>;
}

/// A worker's end of a link that transports bytes. An engine that implements it gets a
/// [`CoordinatorLink`].
pub trait ByteLink {
    /// Sends a message to the coordinator.
    ///
    /// # Errors
    /// Any failure of the link.
    fn post(&mut self, message: &[u8]) -> Result<()>;

    /// Waits for the next message from the coordinator.
    ///
    /// # Errors
    /// Any failure of the link.
    fn fetch(&mut self) -> Result<Vec<u8>>;
}

impl<P: BytePool + ?Sized> BytePool for &P {
    fn n_shards(&self) -> usize {
        (**self).n_shards()
    }

    fn post(&self, shard: usize, message: &[u8]) -> Result<()> {
        (**self).post(shard, message)
    }

    fn fetch(&self) -> Result<(usize, Vec<u8>)> {
        (**self).fetch()
    }
}

impl<L: ByteLink + ?Sized> ByteLink for &mut L {
    fn post(&mut self, message: &[u8]) -> Result<()> {
        (**self).post(message)
    }

    fn fetch(&mut self) -> Result<Vec<u8>> {
        (**self).fetch()
    }
}

impl<P: BytePool> WorkerPool for P {
    fn n_workers(&self) -> usize {
        self.n_shards()
    }

    fn send(&self, shard: usize, message: &ToWorker) -> Result<()> {
        self.post(shard, &message.to_bytes()?)
    }

    fn receive(&self) -> Result<FromWorker> {
        let (shard, message) = self.fetch()?;
        let answer = ShardAnswer::from_bytes(&message)?;
        if answer.shard != shard {
            return Err(Error::Answer {
                shard,
                what: "it names another shard",
            });
        }
        Ok(FromWorker::Answer(answer))
    }
}

impl<L: ByteLink> CoordinatorLink for L {
    fn exchange(&mut self, answer: Option<ShardAnswer>) -> Result<ToWorker> {
        if let Some(answer) = answer {
            self.post(&answer.to_bytes()?)?;
        }
        ToWorker::from_bytes(&self.fetch()?)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestHead {
    run: String,
    step: usize,
    list_head: String,
    n_coordinates: usize,
    nonce: u64,
    instructions: String,
    /// Whether the key of a sample follows.
    sampled: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerHead {
    shard: usize,
    n_shards: usize,
    run: String,
    step: usize,
    list_head: String,
    nonce: u64,
}

impl ToWorker {
    /// The message in the form sent over a link. It may contain the key of a sample and is
    /// overwritten when dropped.
    ///
    /// # Errors
    /// [`Error::List`] if a release cannot be written.
    pub fn to_bytes(&self) -> Result<Zeroizing<Vec<u8>>> {
        match self {
            Self::Sum(request) => {
                let head = RequestHead {
                    run: request.run.clone(),
                    step: request.step,
                    list_head: request.list_head.clone(),
                    n_coordinates: request.n_coordinates,
                    nonce: request.nonce,
                    instructions: request.instructions.to_owned(),
                    sampled: request.round_key.is_some(),
                };
                let key = request.round_key.as_ref().map(RoundKey::to_bytes);
                framed(SUM, &head, key.as_ref().map_or(&[], |key| key.as_slice()))
            }
            Self::Released(entry) => framed(RELEASED, &(), &entry.to_bytes()?),
            Self::End => framed(END, &(), &[]),
        }
    }

    /// Whether these are the bytes of a request for a sum. An answered request is not needed by a
    /// process that replays the other messages.
    #[must_use]
    pub fn is_request(message: &[u8]) -> bool {
        message.first() == Some(&SUM)
    }

    /// Reads the output of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// [`Error::Link`] for anything else.
    pub fn from_bytes(message: &[u8]) -> Result<Self> {
        match message.first() {
            Some(&SUM) => {
                let (head, body): (RequestHead, _) = parts(message)?;
                let key = || body.try_into().map_err(|_| UNREADABLE);
                let round_key = match head.sampled {
                    true => Some(RoundKey::from_bytes(key()?)),
                    false if body.is_empty() => None,
                    false => return Err(UNREADABLE),
                };
                // a worker compares it with its own, which is the only name that it knows
                let own = dp_linalg::vector_instructions();
                let instructions = if head.instructions == own {
                    own
                } else {
                    "others"
                };
                Ok(Self::Sum(SumRequest {
                    run: head.run,
                    step: head.step,
                    list_head: head.list_head,
                    n_coordinates: head.n_coordinates,
                    nonce: head.nonce,
                    instructions,
                    round_key,
                }))
            }
            Some(&RELEASED) => {
                let ((), body) = parts(message)?;
                Ok(Self::Released(ReleaseEntry::from_bytes(body)?))
            }
            Some(&END) => Ok(Self::End),
            _ => Err(UNREADABLE),
        }
    }
}

impl ShardAnswer {
    /// The answer in the form sent over a link; its length follows from public numbers.
    ///
    /// # Errors
    /// [`Error::List`] if the head cannot be written.
    pub fn to_bytes(&self) -> Result<Zeroizing<Vec<u8>>> {
        let head = AnswerHead {
            shard: self.shard,
            n_shards: self.n_shards,
            run: self.run.clone(),
            step: self.step,
            list_head: self.list_head.clone(),
            nonce: self.nonce,
        };
        framed(ANSWER, &head, &in_bytes(self.sum.expose()))
    }

    /// Reads the output of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// [`Error::Link`] for anything else.
    pub fn from_bytes(message: &[u8]) -> Result<Self> {
        if message.first() != Some(&ANSWER) {
            return Err(UNREADABLE);
        }
        let (head, body): (AnswerHead, _) = parts(message)?;
        Ok(Self {
            shard: head.shard,
            n_shards: head.n_shards,
            run: head.run,
            step: head.step,
            list_head: head.list_head,
            nonce: head.nonce,
            sum: Private::new(integers(body)?),
        })
    }
}

impl Share {
    /// The share in the form sent over a link: 8 bytes for each coordinate, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        in_bytes(self.coordinates())
    }

    /// Reads the output of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// [`Error::Link`] for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self::from_coordinates(integers(bytes)?))
    }
}

fn in_bytes(integers: &[i64]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(integers.iter().flat_map(|z| z.to_le_bytes()).collect())
}

fn integers(bytes: &[u8]) -> Result<Vec<i64>> {
    match bytes.as_chunks() {
        (words, []) => Ok(words.iter().map(|word| i64::from_le_bytes(*word)).collect()),
        _ => Err(UNREADABLE),
    }
}

const UNREADABLE: Error = Error::Link {
    what: "a message that cannot be read",
};

fn framed(kind: u8, head: &impl Serialize, body: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let head = super::list::json(head)?;
    let length = u32::try_from(head.len()).map_err(|_| UNREADABLE)?;
    // allocated only once, because growing would leave copies behind
    let room = head.len().saturating_add(body.len()).saturating_add(5);
    let mut message = Zeroizing::new(Vec::with_capacity(room));
    message.push(kind);
    message.extend(length.to_le_bytes());
    message.extend(head);
    message.extend(body);
    Ok(message)
}

/// Head and body of a message.
fn parts<H: DeserializeOwned>(message: &[u8]) -> Result<(H, &[u8])> {
    let read = || {
        let (length, rest) = message.get(1..)?.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (head, body) = rest.split_at_checked(length)?;
        Some((serde_json::from_slice(head).ok()?, body))
    };
    read().ok_or(UNREADABLE)
}

/// Links between a coordinator and workers in threads of one process, one link per shard: for
/// tests, and as a model for links between machines.
#[must_use]
pub fn worker_channels(n_shards: usize) -> (ChannelPool, Vec<ChannelLink>) {
    let (said, received) = channel();
    let (mut to_workers, mut links) = (Vec::new(), Vec::new());
    for shard in 0..n_shards {
        let (to_worker, from_coordinator) = channel();
        to_workers.push(to_worker);
        links.push(ChannelLink {
            shard,
            said: said.clone(),
            from_coordinator,
        });
    }
    let received = Mutex::new(received);
    let pool = ChannelPool {
        to_workers,
        received,
    };
    (pool, links)
}

/// What a worker sends over a channel, with its shard; `None` when it leaves.
type Said = (usize, Option<Vec<u8>>);

/// The coordinator's end of [`worker_channels`].
#[allow(
    missing_debug_implementations,
    reason = "private sums go through it; printing it is never wanted"
)]
pub struct ChannelPool {
    to_workers: Vec<Sender<Vec<u8>>>,
    received: Mutex<Receiver<Said>>,
}

/// A worker's end of [`worker_channels`].
#[allow(
    missing_debug_implementations,
    reason = "private sums go through it; printing it is never wanted"
)]
pub struct ChannelLink {
    shard: usize,
    said: Sender<Said>,
    from_coordinator: Receiver<Vec<u8>>,
}

const BROKEN: Error = Error::Link {
    what: "the other end of the channel is gone",
};

impl BytePool for ChannelPool {
    fn n_shards(&self) -> usize {
        self.to_workers.len()
    }

    fn post(&self, shard: usize, message: &[u8]) -> Result<()> {
        let to = self.to_workers.get(shard).ok_or(BROKEN)?;
        // a worker that has finished or died needs no message; `fetch` reports when one is gone
        let _ = to.send(message.to_vec());
        Ok(())
    }

    fn fetch(&self) -> Result<(usize, Vec<u8>)> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        match received.recv().map_err(|_| BROKEN)? {
            (shard, Some(message)) => Ok((shard, message)),
            (shard, None) => Err(Error::Answer {
                shard,
                what: "its worker has left",
            }),
        }
    }
}

impl ByteLink for ChannelLink {
    fn post(&mut self, message: &[u8]) -> Result<()> {
        let said = (self.shard, Some(message.to_vec()));
        self.said.send(said).map_err(|_| BROKEN)
    }

    fn fetch(&mut self) -> Result<Vec<u8>> {
        self.from_coordinator.recv().map_err(|_| BROKEN)
    }
}

/// Without this signal, the coordinator would wait forever for a worker that leaves before the end
/// of the run.
impl Drop for ChannelLink {
    fn drop(&mut self) {
        let _ = self.said.send((self.shard, None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(round_key: Option<RoundKey>) -> SumRequest {
        SumRequest {
            run: "nightly \"run\"".to_owned(),
            step: 3,
            list_head: "ab".to_owned(),
            nonce: u64::MAX,
            instructions: dp_linalg::vector_instructions(),
            round_key,
            ..SumRequest::alone(7)
        }
    }

    #[test]
    fn messages_are_read_as_they_were_sent() {
        for key in [None, Some(RoundKey::from_bytes([9; 32]))] {
            let sent = request(key);
            let bytes = ToWorker::Sum(sent.clone()).to_bytes().unwrap();
            let Ok(ToWorker::Sum(read)) = ToWorker::from_bytes(&bytes) else {
                panic!("a request");
            };
            assert_eq!(
                (&read.run, read.step, &read.list_head, read.n_coordinates),
                (&sent.run, sent.step, &sent.list_head, sent.n_coordinates)
            );
            assert_eq!(
                (read.nonce, read.instructions),
                (sent.nonce, sent.instructions)
            );
            let key = |of: &SumRequest| of.round_key.as_ref().map(|key| *key.to_bytes());
            assert_eq!(key(&read), key(&sent));
        }
        let end = ToWorker::End.to_bytes().unwrap();
        assert!(matches!(ToWorker::from_bytes(&end), Ok(ToWorker::End)));
        let sum = vec![i64::MIN, -1, 0, 5, i64::MAX];
        let answer = ShardAnswer {
            shard: 2,
            n_shards: 4,
            run: "r".to_owned(),
            step: 1,
            list_head: "h".to_owned(),
            nonce: 8,
            sum: Private::new(sum.clone()),
        };
        let bytes = answer.to_bytes().unwrap();
        let read = ShardAnswer::from_bytes(&bytes).unwrap();
        assert_eq!(read.sum.expose(), &sum);
        assert_eq!(
            (read.shard, read.n_shards, read.step, read.nonce),
            (2, 4, 1, 8)
        );
        assert_eq!((&*read.run, &*read.list_head), ("r", "h"));
    }

    /// The link only tells a worker that the vector instructions are not its own.
    #[test]
    fn other_vector_instructions_stay_others() {
        let sent = SumRequest {
            instructions: "of another machine",
            ..request(None)
        };
        let bytes = ToWorker::Sum(sent).to_bytes().unwrap();
        let Ok(ToWorker::Sum(read)) = ToWorker::from_bytes(&bytes) else {
            panic!("a request");
        };
        assert_ne!(read.instructions, dp_linalg::vector_instructions());
    }

    #[test]
    fn a_share_is_read_as_it_was_sent() {
        let share = Share::from_coordinates(vec![i64::MIN, -1, 0, i64::MAX]);
        let bytes = share.to_bytes();
        let read = Share::from_bytes(&bytes).unwrap();
        assert_eq!(read.coordinates(), share.coordinates());
        assert!(Share::from_bytes(&bytes[1..]).is_err());
    }

    #[test]
    fn what_was_cut_off_is_refused() {
        let key = Some(RoundKey::from_bytes([9; 32]));
        let asked = ToWorker::Sum(request(key)).to_bytes().unwrap();
        for length in 0..asked.len() {
            assert!(ToWorker::from_bytes(&asked[..length]).is_err(), "{length}");
        }
        assert!(ShardAnswer::from_bytes(&asked).is_err());
        let answer = ShardAnswer {
            shard: 0,
            n_shards: 1,
            run: String::new(),
            step: 0,
            list_head: String::new(),
            nonce: 0,
            sum: Private::new(vec![1]),
        };
        let answer = answer.to_bytes().unwrap();
        for length in (0..answer.len()).filter(|&length| length != answer.len() - 8) {
            assert!(ShardAnswer::from_bytes(&answer[..length]).is_err());
        }
    }
}
