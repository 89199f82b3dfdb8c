//! The words of a JSON text outside its strings.

use std::borrow::Cow;
use std::ops::Range;

/// A number, `null` or any other bare word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// Where it stands.
    pub(super) place: Range<usize>,
    /// The member it belongs to: where the last name before a colon stands, quotes not included.
    pub(super) key: Option<Range<usize>>,
}

/// All bare words of `text` in their order; of a text that is no JSON, something.
pub(super) fn words(text: &str) -> Vec<Word> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    let (mut string, mut key) = (None, None);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'"' => {
                at = end_of_string(bytes, at + 1);
                string = Some(start + 1..at);
            }
            b':' => key.clone_from(&string),
            byte if in_word(byte) => {
                while at + 1 < bytes.len() && in_word(bytes[at + 1]) {
                    at += 1;
                }
                let (place, key) = (start..at + 1, key.clone());
                found.push(Word { place, key });
            }
            _ => {}
        }
        at += 1;
    }
    found
}

const fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

/// The closing quote of a string whose first character is at `at`, or the end of the text.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// The same text with the words NaN, Infinity and -Infinity in quotes. Some programs write
/// them although JSON has none; in quotes they spoil one case instead of the file.
pub(super) fn quoted_non_numbers(text: &str) -> Cow<'_, str> {
    let is_none = |word: &Word| {
        matches!(
            &text[word.place.clone()],
            "NaN" | "-NaN" | "Infinity" | "-Infinity"
        )
    };
    let places: Vec<_> = words(text).into_iter().filter(is_none).collect();
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut done) = (String::with_capacity(text.len() + 2 * places.len()), 0);
    for Word { place, .. } in places {
        out.push_str(&text[done..place.start]);
        out.push('"');
        out.push_str(&text[place.clone()]);
        out.push('"');
        done = place.end;
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_the_member_they_belong_to() {
        let text = r#"{"a \" null": null, "b": [1e-5, {"c": -2}], "d": "null"}"#;
        let found: Vec<_> = words(text)
            .into_iter()
            .map(|w| (&text[w.place], &text[w.key.unwrap()]))
            .collect();
        let expected = [("null", r#"a \" null"#), ("1e-5", "b"), ("-2", "c")];
        assert_eq!(found, expected);
    }

    #[test]
    fn only_bare_non_numbers_are_quoted() {
        let text = r#"{"NaN": NaN, "x": [-Infinity, 1, "Infinity"]}"#;
        let quoted = r#"{"NaN": "NaN", "x": ["-Infinity", 1, "Infinity"]}"#;
        assert_eq!(quoted_non_numbers(text), quoted);
        assert!(matches!(quoted_non_numbers(quoted), Cow::Borrowed(_)));
    }

    #[test]
    fn cut_and_foreign_texts_do_not_panic() {
        let text = "{\"é\": \"\\\", NaN, ü: -Infinity\\";
        for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
            let _ = quoted_non_numbers(&text[..end]);
        }
    }
}
