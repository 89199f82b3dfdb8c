//! Records when each user was first seen: private, durable, and identified in the ledger by a MAC.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use chacha20::{R20, hchacha};
use dp_accounting::hex;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::client_policy::with_ending;
use crate::run::{io_error, sync_folder_of};
use crate::{Error, Result};

const SCHEMA: u32 = 1;
const NAME: &str = "dp-personal";
/// Bytes per entry: a user's tag and a night.
const ENTRY: usize = 20;
/// Used instead of a night for a user who was erased and never takes part again.
const ERASED: u32 = u32::MAX;

/// The night on which each user was first seen.
///
/// ```text
/// file = one line of JSON (schema, number of the save, users), then for each user, by increasing tag:
///        tag of the user (16 bytes)  first night (4 bytes, little-endian; all ones: erased)
/// tag  = first 128 bits of HChaCha20(K1, id of the user)        K1, K2 = HMAC-SHA256(key, "ids"), HMAC-SHA256(key, "file")
/// MAC  = HMAC-SHA256(K2, file)
/// ```
///
/// # Privacy
/// Private: it records who is there and since when. Ids appear only under the key. The MAC, which
/// the ledger's lines contain, reveals nothing without the key, not even whether two states are
/// equal, because every save has its own number.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "says who is there; printing it is never wanted"
)]
pub(crate) struct FirstSeen {
    key: StoreKey,
    saved: u64,
    /// In order of increasing tag.
    nights: Vec<(u128, u32)>,
}

/// The keys for tags and for the MAC.
#[derive(Clone)]
struct StoreKey {
    ids: Zeroizing<[u8; 32]>,
    file: Zeroizing<[u8; 32]>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    first_seen: String,
    schema_version: u32,
    saved: u64,
    users: usize,
}

impl FirstSeen {
    /// Creates an empty store with a fresh key at `path`, or continues one that an interrupted
    /// [`create`](Self::create) left there.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let key_path = with_ending(path, ".key");
        if path.exists() || key_path.exists() {
            let key = StoreKey::read(path)?;
            let store = match fs::read(path) {
                Ok(bytes) => Self::parse(&bytes, &key),
                // the key is written first
                Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Self::empty(key)),
                Err(error) => return Err(io_error(path, error)),
            };
            let fresh = store.filter(|store| store.saved == 0 && store.nights.is_empty());
            let fresh = fresh.ok_or_else(|| begun(path))?;
            fresh.write(path)?;
            return Ok(fresh);
        }
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(key.as_mut_slice()).map_err(|_| Error::EntropyUnavailable)?;
        let text = Zeroizing::new(hex(key.as_slice()) + "\n");
        write_private(&key_path, text.as_bytes())?;
        let store = Self::empty(StoreKey::of(&key));
        store.write(path)?;
        Ok(store)
    }

    const fn empty(key: StoreKey) -> Self {
        Self {
            key,
            saved: 0,
            nights: Vec::new(),
        }
    }

    /// Opens the store at `path` whose MAC is `mac`: the file itself, or the pending one written
    /// before a crash, which then replaces it.
    pub(super) fn open(path: &Path, mac: &str) -> Result<Self> {
        let key = StoreKey::read(path)?;
        let next = with_ending(path, ".next");
        let mut found = false;
        for candidate in [path, &next] {
            let bytes = match fs::read(candidate) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(io_error(candidate, error)),
            };
            found = true;
            let is_bound = key.mac(&bytes) == mac;
            #[cfg(privacy_mutants)]
            let is_bound = dp_core::mutants::pick("paced-store-rolled-back", is_bound, true);
            if !is_bound {
                continue;
            }
            let store = Self::parse(&bytes, &key);
            let store = store.ok_or_else(|| unusable(candidate, "it is of another version"))?;
            if candidate == next {
                promote(path)?;
            }
            return Ok(store);
        }
        Err(unusable(
            path,
            if found {
                "it is not the one that the ledger's last line names, so one of the two was changed or is an older copy: put both back from the same night; \
                 without it the lifetime ends, since everybody would look new"
            } else {
                "it is missing: put it back; without it the lifetime ends, since everybody would look new"
            },
        ))
    }

    fn parse(bytes: &[u8], key: &StoreKey) -> Option<Self> {
        let end = bytes.iter().position(|&byte| byte == b'\n')?;
        let (line, rest) = bytes.split_at_checked(end)?;
        let header: Header = serde_json::from_slice(line).ok()?;
        let (entries, odd) = rest.get(1..)?.as_chunks::<ENTRY>();
        let is_whole = odd.is_empty() && entries.len() == header.users;
        if !is_whole || header.schema_version != SCHEMA || header.first_seen != NAME {
            return None;
        }
        let nights = entries.iter().map(|entry| {
            let (tag, night) = entry.split_first_chunk::<16>()?;
            let night = night.first_chunk::<4>()?;
            Some((u128::from_be_bytes(*tag), u32::from_le_bytes(*night)))
        });
        Some(Self {
            key: key.clone(),
            saved: header.saved,
            nights: nights.collect::<Option<_>>()?,
        })
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        let header = Header {
            first_seen: NAME.to_owned(),
            schema_version: SCHEMA,
            saved: self.saved,
            users: self.nights.len(),
        };
        let mut bytes = crate::run::json(&header)?;
        bytes.push(b'\n');
        for (tag, night) in &self.nights {
            bytes.extend(tag.to_be_bytes());
            bytes.extend(night.to_le_bytes());
        }
        Ok(bytes)
    }

    /// The MAC that identifies the whole store in the ledger.
    pub(super) fn mac(&self) -> Result<String> {
        Ok(self.key.mac(&self.bytes()?))
    }

    /// The next state, in which users of `ids` who are not known are first seen on `night`.
    pub(super) fn with_users(&self, ids: impl Iterator<Item = u128>, night: u32) -> Self {
        self.changed(ids, |known| known.unwrap_or(night))
    }

    /// The next state, in which `ids` are erased. Only their tags are kept.
    pub(super) fn without(&self, ids: impl Iterator<Item = u128>) -> Self {
        self.changed(ids, |_| ERASED)
    }

    fn changed(&self, ids: impl Iterator<Item = u128>, to: impl Fn(Option<u32>) -> u32) -> Self {
        let mut next = self.clone();
        next.saved = next.saved.saturating_add(1);
        let mut new = Vec::new();
        for tag in ids.map(|id| self.key.tag(id)) {
            match next.nights.binary_search_by_key(&tag, |&(tag, _)| tag) {
                Ok(at) => {
                    if let Some((_, night)) = next.nights.get_mut(at) {
                        *night = to(Some(*night));
                    }
                }
                Err(_) => new.push((tag, to(None))),
            }
        }
        next.nights.extend(new);
        next.nights.sort_unstable_by_key(|&(tag, _)| tag);
        next.nights.dedup_by_key(|&mut (tag, _)| tag);
        next
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.nights.is_empty()
    }

    /// Whether any of these users was there before.
    pub(super) fn knows(&self, mut ids: impl Iterator<Item = u128>) -> bool {
        ids.any(|id| self.at(id).is_ok())
    }

    fn at(&self, id: u128) -> std::result::Result<usize, usize> {
        let tag = self.key.tag(id);
        self.nights.binary_search_by_key(&tag, |&(tag, _)| tag)
    }

    fn first(&self, id: u128) -> Option<u32> {
        let (_, first) = self.nights.get(self.at(id).ok()?)?;
        Some(*first)
    }

    pub(super) fn is_erased(&self, id: u128) -> bool {
        self.first(id) == Some(ERASED)
    }

    /// Number of nights since the user was first seen; `None` for a user who was erased, is not
    /// known, or is known only from a later night.
    pub(super) fn age(&self, id: u128, night: u32) -> Option<u32> {
        let first = self.first(id).filter(|first| *first != ERASED)?;
        night.checked_sub(first)
    }

    /// Writes this state to a pending file next to the one at `path`, durably. It becomes valid
    /// when the ledger names it.
    pub(super) fn write_beside(&self, path: &Path) -> Result<()> {
        self.write(&with_ending(path, ".next"))
    }

    fn write(&self, at: &Path) -> Result<()> {
        write_private(at, &self.bytes()?)
    }
}

/// Replaces the state at `path` by the pending one.
pub(super) fn promote(path: &Path) -> Result<()> {
    let renamed = fs::rename(with_ending(path, ".next"), path);
    let done = renamed.and_then(|()| sync_folder_of(path));
    done.map_err(|source| io_error(path, source))
}

impl StoreKey {
    fn read(path: &Path) -> Result<Self> {
        let at = with_ending(path, ".key");
        let text = match fs::read_to_string(&at) {
            Ok(text) => Zeroizing::new(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(unusable(
                    path,
                    "its key, the file of this name with the ending .key, is missing: put it back; without it nobody can be told \
                     from a newcomer and the lifetime ends",
                ));
            }
            Err(error) => return Err(io_error(&at, error)),
        };
        let mut key = Zeroizing::new([0; 32]);
        let digits = text.trim_end().as_bytes();
        let (pairs, odd) = digits.as_chunks::<2>();
        let digit = |d: u8| {
            char::from(d)
                .to_digit(16)
                .and_then(|d| u8::try_from(d).ok())
        };
        let mut whole = odd.is_empty() && pairs.len() == key.len();
        for (byte, &[high, low]) in key.iter_mut().zip(pairs) {
            match digit(high).zip(digit(low)) {
                Some((high, low)) => *byte = (high << 4) | low,
                None => whole = false,
            }
        }
        if whole {
            Ok(Self::of(&key))
        } else {
            Err(unusable(path, "its key is damaged: put the key back"))
        }
    }

    fn of(key: &[u8; 32]) -> Self {
        let derived = |purpose| Zeroizing::new(hmac_sha256(key, purpose));
        Self {
            ids: derived(b"ids"),
            file: derived(b"file"),
        }
    }

    fn mac(&self, bytes: &[u8]) -> String {
        hex(&hmac_sha256(&self.file, bytes))
    }

    fn tag(&self, id: u128) -> u128 {
        let word = hchacha::<R20>(&(*self.ids).into(), &id.to_le_bytes().into());
        let mut first = [0; 16];
        for (byte, &from) in first.iter_mut().zip(&word) {
            *byte = from;
        }
        u128::from_le_bytes(first)
    }
}

fn hmac_sha256(key: &[u8; 32], bytes: &[u8]) -> [u8; 32] {
    let mut block = Zeroizing::new([0; 64]); // HMAC pads keys with zeros
    block.iter_mut().zip(key).for_each(|(to, &from)| *to = from);
    let mut keyed = <Hmac<Sha256> as KeyInit>::new(&(*block).into());
    keyed.update(bytes);
    keyed.finalize().into_bytes().into()
}

/// Writes a file that only its owner may read, durably, replacing what was there.
fn write_private(at: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> io::Result<()> {
        let partial = with_ending(at, ".partial");
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&partial)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, at)?;
        sync_folder_of(at)
    };
    write().map_err(|source| io_error(at, source))
}

fn unusable(path: &Path, what: &'static str) -> Error {
    Error::FirstSeen {
        path: path.to_owned(),
        what,
    }
}

/// The store already belongs to a lifetime.
pub(super) fn begun(path: &Path) -> Error {
    unusable(
        path,
        "a lifetime was begun with it: resume that one, or choose another path",
    )
}

/// It is unknown whether the ledger names the newest state of the store.
pub(super) fn poisoned(path: &Path) -> Error {
    unusable(
        path,
        "an earlier change of it failed half-way: open ledger and lifetime again",
    )
}
