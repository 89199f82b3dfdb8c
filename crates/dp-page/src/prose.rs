//! Sentences in which code stands between backticks.

use std::iter;

/// A piece of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Plain text.
    Words(&'a str),
    /// What stood between two backticks.
    Code(&'a str),
}

/// The pieces of a sentence, in order. A backtick without a second one is text.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let (mut rest, mut code) = (text, None);
    iter::from_fn(move || {
        if let Some(code) = code.take() {
            return Some(Piece::Code(code));
        }
        if rest.is_empty() {
            return None;
        }
        let span = rest.split_once('`').and_then(|(before, after)| {
            let (found, after) = after.split_once('`')?;
            Some((before, found, after)).filter(|_| !found.is_empty())
        });
        let Some((before, found, after)) = span else {
            return Some(Piece::Words(std::mem::take(&mut rest)));
        };
        rest = after;
        code = Some(found);
        Some(Piece::Words(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_stands_between_two_backticks() {
        let of = |text| -> Vec<_> {
            let all = pieces(text).filter(|piece| *piece != Piece::Words(""));
            all.collect()
        };
        use Piece::{Code, Words};
        assert_eq!(
            of("8 rounds, method `pooled`"),
            [Words("8 rounds, method "), Code("pooled")]
        );
        assert_eq!(
            of("`a` or `b`."),
            [Code("a"), Words(" or "), Code("b"), Words(".")]
        );
        for plain in ["", "none", "one ` alone", "``", "a `` b"] {
            let words = Some(Words(plain)).filter(|_| !plain.is_empty());
            assert_eq!(of(plain), Vec::from_iter(words));
        }
        assert_eq!(of("`a` and ` alone"), [Code("a"), Words(" and ` alone")]);
    }
}
