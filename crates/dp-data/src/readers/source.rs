//! Whether a file is text or Parquet, and the lines of a plain or gzip file.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::{Error, Result};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const PARQUET_MAGIC: &[u8] = b"PAR1";
const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";
const BUFFER: usize = 1 << 16;

/// Opens a file and gives it the name that errors will show.
pub(super) fn open(path: &Path) -> Result<(File, String)> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => Ok((file, name)),
        Err(source) => Err(Error::Open { path: name, source }),
    }
}

/// A table before it is read.
pub(super) enum Input<'a> {
    /// Text, plain or gzip.
    Text(Box<dyn Read + 'a>),
    #[cfg(feature = "parquet")]
    Parquet(File),
}

/// Opens a file that holds a table. Parquet is told by its first four bytes or by its name.
pub(super) fn open_table(path: &Path) -> Result<(Input<'static>, String)> {
    let (mut file, name) = open(path)?;
    let head = head_of(&mut file, &name)?;
    let is_named = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("parquet"));
    if !is_named && head != PARQUET_MAGIC {
        return Ok((Input::Text(Box::new(Cursor::new(head).chain(file))), name));
    }
    #[cfg(feature = "parquet")]
    return Ok((Input::Parquet(file), name));
    #[cfg(not(feature = "parquet"))]
    Err(Error::WithoutParquet { path: name })
}

/// A table from anything; Parquet, which is read from its end, has to be a file.
pub(super) fn table_from<'a>(mut reader: impl Read + 'a, name: &str) -> Result<Input<'a>> {
    let head = head_of(&mut reader, name)?;
    if head == PARQUET_MAGIC {
        let path = name.to_owned();
        let source = std::io::Error::other("Parquet is read from a file, not from a stream");
        return Err(Error::Parquet { path, source });
    }
    Ok(Input::Text(Box::new(Cursor::new(head).chain(reader))))
}

fn head_of(reader: &mut impl Read, name: &str) -> Result<Vec<u8>> {
    let mut head = Vec::with_capacity(PARQUET_MAGIC.len());
    let n = PARQUET_MAGIC.len() as u64;
    match reader.by_ref().take(n).read_to_end(&mut head) {
        Ok(_) => Ok(head),
        Err(source) => Err(Error::Read {
            path: name.to_owned(),
            source,
        }),
    }
}

/// Bytes of a file, unpacked.
pub(super) struct Source<'a> {
    pub(super) bytes: Box<dyn BufRead + 'a>,
    gzip: bool,
}

/// Gzip is told by its two magic bytes, whatever the file is called.
pub(super) fn plain_or_gzip<'a>(mut reader: impl Read + 'a, name: &str) -> Result<Source<'a>> {
    let mut head = Vec::with_capacity(2);
    if let Err(source) = reader.by_ref().take(2).read_to_end(&mut head) {
        let path = name.to_owned();
        return Err(Error::Read { path, source });
    }
    let gzip = head == GZIP_MAGIC;
    let whole = BufReader::with_capacity(BUFFER, Cursor::new(head).chain(reader));
    let bytes: Box<dyn BufRead + 'a> = if gzip {
        Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(whole)))
    } else {
        Box::new(whole)
    };
    Ok(Source { bytes, gzip })
}

impl Source<'_> {
    /// An error of the operating system has a code; the gzip decoder's own have none.
    pub(super) fn failure(&self, name: &str, source: std::io::Error) -> Error {
        let path = name.to_owned();
        if self.gzip && source.raw_os_error().is_none() {
            Error::Gzip { path, source }
        } else {
            Error::Read { path, source }
        }
    }
}

/// The lines that are not blank, one at a time in a buffer that is used again.
pub(super) struct Lines<'a> {
    source: Source<'a>,
    name: String,
    buffer: Vec<u8>,
    number: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(reader: impl Read + 'a, name: String) -> Result<Self> {
        Ok(Self {
            source: plain_or_gzip(reader, &name)?,
            name,
            buffer: Vec::new(),
            number: 0,
        })
    }

    /// Moves to the next line that holds more than spaces; false at the end. Line ends (`\n`
    /// or `\r\n`) and a leading byte-order mark are taken off.
    pub(super) fn advance(&mut self) -> Result<bool> {
        loop {
            self.buffer.clear();
            match self.source.bytes.read_until(b'\n', &mut self.buffer) {
                Ok(0) => return Ok(false),
                Ok(_) => self.number += 1,
                Err(source) => return Err(self.source.failure(&self.name, source)),
            }
            if self.buffer.last() == Some(&b'\n') {
                self.buffer.pop();
            }
            if self.buffer.last() == Some(&b'\r') {
                self.buffer.pop();
            }
            if self.number == 1 && self.buffer.starts_with(UTF8_BOM) {
                self.buffer.drain(..UTF8_BOM.len());
            }
            if self.buffer.iter().any(|&byte| byte != b' ') {
                return Ok(true);
            }
        }
    }

    /// The current line.
    pub(super) fn line(&self) -> &[u8] {
        &self.buffer
    }

    /// The current line, for unquoting in place.
    pub(super) const fn line_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// The current line's number, counted from 1.
    pub(super) const fn number(&self) -> usize {
        self.number
    }

    /// The name that errors show.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out one byte at a time, as a slow pipe may.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let n = out.len().min(1);
            self.0.read(&mut out[..n])
        }
    }

    fn lines(bytes: &[u8]) -> Vec<(usize, String)> {
        let mut lines = Lines::new(Trickle(bytes), "x".into()).unwrap();
        let mut all = Vec::new();
        while lines.advance().unwrap() {
            let text = String::from_utf8(lines.line().to_vec()).unwrap();
            all.push((lines.number(), text));
        }
        all
    }

    #[test]
    fn line_ends_marks_and_blank_lines_are_taken_off() {
        let expected = vec![(1, "a,b".to_owned()), (3, "c".to_owned())];
        assert_eq!(lines(b"a,b\n\nc\n"), expected);
        assert_eq!(lines(b"\xef\xbb\xbfa,b\r\n  \r\nc"), expected);
        assert_eq!(lines(b""), vec![]);
    }

    #[test]
    fn gzip_is_known_by_its_first_bytes_even_from_a_slow_pipe() {
        use std::io::Write;
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(b"one\ntwo\n").unwrap();
        let member = gz.finish().unwrap();
        let expected = vec![(1, "one".to_owned()), (2, "two".to_owned())];
        assert_eq!(lines(&member), expected);
        let twice = [member.as_slice(), member.as_slice()].concat();
        assert_eq!(lines(&twice).len(), 4, "later members count too");
    }

    #[test]
    fn one_byte_is_not_gzip() {
        assert_eq!(lines(b"a"), vec![(1, "a".to_owned())]);
    }
}
