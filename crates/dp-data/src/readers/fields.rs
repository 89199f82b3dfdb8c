//! Cutting one line into fields.

use std::ops::Range;

/// What stands between fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    /// `::`, fields taken literally.
    DoubleColon,
    /// A tab, fields taken literally.
    Tab,
    /// A comma; a field may be put in double quotes, a quote inside it written twice.
    Comma,
}

/// The field whose quotes do not close, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenQuote(pub(super) usize);

/// Cuts `line` into `fields`, taking quotes off in place.
pub(super) fn cut(
    line: &mut Vec<u8>,
    separator: Separator,
    fields: &mut Vec<Range<usize>>,
) -> Result<(), OpenQuote> {
    fields.clear();
    match separator {
        Separator::DoubleColon => cut_at_double_colons(line, fields),
        Separator::Tab => cut_at(line, b'\t', fields),
        Separator::Comma if line.contains(&b'"') => return cut_quoted(line, fields),
        Separator::Comma => cut_at(line, b',', fields),
    }
    Ok(())
}

fn cut_at(line: &[u8], separator: u8, fields: &mut Vec<Range<usize>>) {
    let mut start = 0;
    for (at, &byte) in line.iter().enumerate() {
        if byte == separator {
            fields.push(start..at);
            start = at + 1;
        }
    }
    fields.push(start..line.len());
}

fn cut_at_double_colons(line: &[u8], fields: &mut Vec<Range<usize>>) {
    let (mut start, mut at) = (0, 0);
    while at + 1 < line.len() {
        if line[at] == b':' && line[at + 1] == b':' {
            fields.push(start..at);
            at += 2;
            start = at;
        } else {
            at += 1;
        }
    }
    fields.push(start..line.len());
}

/// Moves the text of quoted fields left over their quotes: the write mark never passes the
/// read mark.
fn cut_quoted(line: &mut Vec<u8>, fields: &mut Vec<Range<usize>>) -> Result<(), OpenQuote> {
    let (mut read, mut write) = (0, 0);
    loop {
        let start = write;
        if line.get(read) == Some(&b'"') {
            read = unquote(line, read + 1, &mut write).ok_or(OpenQuote(fields.len() + 1))?;
        } else {
            while line.get(read).is_some_and(|&byte| byte != b',') {
                line[write] = line[read];
                (read, write) = (read + 1, write + 1);
            }
        }
        fields.push(start..write);
        match line.get(read) {
            None => break,
            Some(b',') => read += 1,
            Some(_) => return Err(OpenQuote(fields.len())),
        }
    }
    line.truncate(write);
    Ok(())
}

/// Copies a quoted field that begins at `read`; returns the place after its closing quote.
fn unquote(line: &mut [u8], mut read: usize, write: &mut usize) -> Option<usize> {
    loop {
        let mut byte = *line.get(read)?;
        read += 1;
        if byte == b'"' {
            if line.get(read) != Some(&b'"') {
                return Some(read);
            }
            byte = b'"';
            read += 1;
        }
        line[*write] = byte;
        *write += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_text(line: &str, separator: Separator) -> Result<Vec<String>, OpenQuote> {
        let mut buffer = line.as_bytes().to_vec();
        let mut fields = Vec::new();
        cut(&mut buffer, separator, &mut fields)?;
        Ok(fields
            .into_iter()
            .map(|f| String::from_utf8(buffer[f].to_vec()).unwrap())
            .collect())
    }

    #[test]
    fn fields_come_out_as_written() {
        use Separator::{Comma, DoubleColon, Tab};
        let table: [(&str, Separator, &[&str]); 11] = [
            ("1,2,3", Comma, &["1", "2", "3"]),
            (",,", Comma, &["", "", ""]),
            ("1::2::3", DoubleColon, &["1", "2", "3"]),
            ("a:b::c:", DoubleColon, &["a:b", "c:"]),
            ("::", DoubleColon, &["", ""]),
            ("1\t\"x\"\t", Tab, &["1", "\"x\"", ""]),
            (r#""a,b",c"#, Comma, &["a,b", "c"]),
            (r#"x,"say ""hi""",y"#, Comma, &["x", "say \"hi\"", "y"]),
            (r#"7" disc,z"#, Comma, &["7\" disc", "z"]),
            (r#""","""""#, Comma, &["", "\""]),
            (r#""a","b","#, Comma, &["a", "b", ""]),
        ];
        for (line, separator, fields) in table {
            assert_eq!(cut_text(line, separator).unwrap(), fields, "{line}");
        }
    }

    #[test]
    fn a_quote_must_close_right_before_the_separator() {
        for (line, field) in [("1,\"2", 2), ("\"1\"2,3", 1), ("1,2,\"", 3)] {
            assert_eq!(cut_text(line, Separator::Comma), Err(OpenQuote(field)));
        }
    }
}
