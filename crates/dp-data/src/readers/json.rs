//! A streaming JSON reader: nothing is held in memory except the current token.

use std::io::{BufRead, Read};

use super::table::{Source, plain_or_gzip};
use crate::{Error, Expected, Result};

/// Maximum nesting depth of arrays and objects.
const MAX_DEPTH: usize = 32;

/// Reads tokens and tracks the position.
///
/// `NaN`, `Infinity` and `-Infinity` are accepted as numbers, because some writers produce them,
/// and `null` is read as `NaN`.
pub(super) struct JsonReader<'a> {
    source: Source<'a>,
    name: String,
    line: usize,
    column: usize,
    token: Vec<u8>,
}

impl<'a> JsonReader<'a> {
    pub(super) fn new(reader: impl Read + 'a, name: String) -> Result<Self> {
        Ok(Self {
            source: plain_or_gzip(reader, &name)?,
            name,
            line: 1,
            column: 1,
            token: Vec::new(),
        })
    }

    /// An error at the next byte.
    pub(super) fn malformed(&self, expected: Expected) -> Error {
        Error::Malformed {
            path: self.name.clone(),
            line: self.line,
            column: self.column,
            expected,
            name: None,
        }
    }

    /// The next byte, without consuming it.
    fn next(&mut self) -> Result<Option<u8>> {
        match self.source.bytes.fill_buf() {
            Ok(buffer) => Ok(buffer.first().copied()),
            Err(source) => Err(self.source.failure(&self.name, source)),
        }
    }

    fn step(&mut self, byte: u8) {
        self.source.bytes.consume(1);
        if byte == b'\n' {
            (self.line, self.column) = (self.line + 1, 1);
        } else {
            self.column += 1;
        }
    }

    /// The next byte that is not white space, without consuming it.
    pub(super) fn peek(&mut self) -> Result<Option<u8>> {
        while let Some(byte) = self.next()? {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(Some(byte));
            }
            self.step(byte);
        }
        Ok(None)
    }

    /// Consumes this byte if it is the next one.
    pub(super) fn take(&mut self, byte: u8) -> Result<bool> {
        let there = self.peek()? == Some(byte);
        if there {
            self.step(byte);
        }
        Ok(there)
    }

    fn need(&mut self, byte: u8, what: &'static str) -> Result<()> {
        if self.take(byte)? {
            return Ok(());
        }
        Err(self.malformed(Expected::Json(what)))
    }

    /// Calls `each` at every value of an array; `each` has to read the value.
    pub(super) fn array(
        &mut self,
        what: &'static str,
        mut each: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.need(b'[', what)?;
        if self.take(b']')? {
            return Ok(());
        }
        loop {
            each(self)?;
            if !self.take(b',')? {
                return self.need(b']', "a comma or the end of an array");
            }
        }
    }

    /// Calls `each` with every key of an object; `each` has to read the value.
    pub(super) fn object(
        &mut self,
        what: &'static str,
        mut each: impl FnMut(&mut Self, &str) -> Result<()>,
    ) -> Result<()> {
        self.need(b'{', what)?;
        if self.take(b'}')? {
            return Ok(());
        }
        loop {
            let key = self.string("a name in quotes")?;
            self.need(b':', "a colon")?;
            each(self, &key)?;
            if !self.take(b',')? {
                return self.need(b'}', "a comma or the end of an object");
            }
        }
    }

    pub(super) fn string(&mut self, what: &'static str) -> Result<String> {
        self.need(b'"', what)?;
        self.token.clear();
        loop {
            let Some(byte) = self.next()? else {
                return Err(self.malformed(Expected::Json("the end of a text")));
            };
            if byte < b' ' {
                return Err(self.malformed(Expected::Json("no control character in a text")));
            }
            self.step(byte);
            match byte {
                b'"' => break,
                b'\\' => self.escape()?,
                other => self.token.push(other),
            }
        }
        let text = std::str::from_utf8(&self.token).map(ToOwned::to_owned);
        text.map_err(|_| self.malformed(Expected::Utf8))
    }

    /// Reads what follows a backslash.
    fn escape(&mut self) -> Result<()> {
        let bad = Expected::Json("a known escape");
        let Some(byte) = self.next()? else {
            return Err(self.malformed(bad));
        };
        let plain = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                self.step(byte);
                return self.code_point();
            }
            _ => return Err(self.malformed(bad)),
        };
        self.step(byte);
        self.token.push(plain);
        Ok(())
    }

    /// Four hexadecimal digits, or twice four for code points beyond the first 2^16.
    fn code_point(&mut self) -> Result<()> {
        let first = self.unit()?;
        let code = if (0xd800..0xdc00).contains(&first) {
            let low = if self.next()? == Some(b'\\') {
                self.step(b'\\');
                self.need_now(b'u')?;
                self.unit()?.wrapping_sub(0xdc00)
            } else {
                u32::MAX
            };
            if low >= 0x400 {
                return Err(self.malformed(Expected::Json("the second half of a character")));
            }
            0x10000 + ((first - 0xd800) << 10) + low
        } else {
            first
        };
        let Some(c) = char::from_u32(code) else {
            return Err(self.malformed(Expected::Json("a character")));
        };
        self.token
            .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn need_now(&mut self, byte: u8) -> Result<()> {
        if self.next()? != Some(byte) {
            return Err(self.malformed(Expected::Json("a known escape")));
        }
        self.step(byte);
        Ok(())
    }

    fn unit(&mut self) -> Result<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let byte = self.next()?;
            let digit = byte.and_then(|byte| char::from(byte).to_digit(16));
            let (Some(byte), Some(digit)) = (byte, digit) else {
                return Err(self.malformed(Expected::Json("four hexadecimal digits")));
            };
            self.step(byte);
            code = 16 * code + digit;
        }
        Ok(code)
    }

    /// A number; a value beyond `f32` becomes infinite.
    pub(super) fn number(&mut self, what: &'static str) -> Result<f32> {
        let word = self.word()?;
        let digits = word.strip_prefix('-').unwrap_or(&word);
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit());
        let value = match digits {
            "NaN" | "null" => Some(f32::NAN),
            "Infinity" if word.starts_with('-') => Some(f32::NEG_INFINITY),
            "Infinity" => Some(f32::INFINITY),
            _ if is_number => word.parse().ok(),
            _ => None,
        };
        value.ok_or_else(|| self.malformed(Expected::Json(what)))
    }

    /// A whole number that is at least 0.
    pub(super) fn count(&mut self, what: &'static str) -> Result<usize> {
        let count = self.word()?.parse().ok();
        count.ok_or_else(|| self.malformed(Expected::Json(what)))
    }

    /// Letters, digits and signs up to the next other character.
    fn word(&mut self) -> Result<String> {
        self.peek()?;
        let mut word = String::new();
        while let Some(byte) = self.next()? {
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
                || word.len() > 64
            {
                break;
            }
            word.push(char::from(byte));
            self.step(byte);
        }
        Ok(word)
    }

    /// Reads and discards any value.
    pub(super) fn skip(&mut self, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.malformed(Expected::Json("fewer arrays within one another")));
        }
        match self.peek()? {
            Some(b'{') => self.object("an object", |json, _| json.skip(depth + 1)),
            Some(b'[') => self.array("an array", |json| json.skip(depth + 1)),
            Some(b'"') => self.string("a text").map(|_| ()),
            _ => match self.word()?.as_str() {
                "true" | "false" | "null" => Ok(()),
                word if word.parse::<f64>().is_ok() => Ok(()),
                _ => Err(self.malformed(Expected::Json("a value"))),
            },
        }
    }

    /// Checks that nothing follows.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.peek()? {
            None => Ok(()),
            Some(_) => Err(self.malformed(Expected::Json("the end of the file"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(text: &str) -> JsonReader<'_> {
        JsonReader::new(text.as_bytes(), "t.json".to_owned()).unwrap()
    }

    #[test]
    fn texts_are_unescaped() {
        let text = r#" "a\"\\\/\n\u00e9\ud83d\ude00z" "#;
        let found = reader(text).string("a text").unwrap();
        assert_eq!(found, "a\"\\/\n\u{e9}\u{1f600}z");
        for bad in [
            r#""a"#,
            r#""\x""#,
            r#""\u12g4""#,
            r#""\ud83d""#,
            r#""\ud83dA""#,
            r#""\ude00""#,
            "\"a\nb\"",
            "a",
        ] {
            assert!(reader(bad).string("a text").is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_json_or_not_numbers() {
        for (text, value) in [
            ("0", 0.0),
            (" -1.5e2,", -150.0),
            ("1e99", f32::INFINITY),
            ("-Infinity", f32::NEG_INFINITY),
        ] {
            let found = reader(text).number("a number").unwrap();
            assert_eq!(found.to_bits(), f32::to_bits(value), "{text}");
        }
        for text in ["NaN", "null"] {
            assert!(reader(text).number("a number").unwrap().is_nan());
        }
        for bad in [
            "", "true", "\"1\"", "[1]", "1.2.3", "0x10", "--1", "inf", "infinity",
        ] {
            assert!(reader(bad).number("a number").is_err(), "{bad}");
        }
        assert!(reader("-1").count("a count").is_err() && reader("1.0").count("a count").is_err());
    }

    #[test]
    fn values_of_other_keys_are_skipped_to_a_depth() {
        let mut json = reader(r#"{"a": [1, {"b": null}, "x]"], "c": true} "#);
        assert!(json.skip(0).is_ok() && json.end().is_ok());
        let deep = "[".repeat(1000);
        assert!(reader(&deep).skip(0).is_err());
        let Err(Error::Malformed { line, column, .. }) = reader("[1,\n 2;").skip(0) else {
            panic!("a semicolon");
        };
        assert_eq!((line, column), (2, 3));
    }
}
