//! Randomly damaged or edited text, mainly JSON.

use super::draw::Draw;

/// The texts that are inserted.
const SNIPPETS: [&str; 34] = [
    "2",
    "0.5",
    "1e-3",
    "40",
    "0",
    "-1",
    "-0.0",
    "1e999",
    "-1e-999",
    "1e308",
    "5e-324",
    "1.0000000000000002",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "NaN",
    "Infinity",
    "-Infinity",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "\"",
    "{",
    "}",
    "[[[[",
    "]",
    ",",
    ":",
    "\\",
    "\\u0000",
    "{\"mechanism\":",
    "é",
];

/// How many of [`SNIPPETS`] can replace a number.
const NUMBERS: usize = 18;

/// `bytes` with one to `most` edits: a byte is changed, removed or inserted, a range is removed or
/// repeated, or a snippet replaces a range or a number.
pub(crate) fn edited(draw: &mut Draw, bytes: &[u8], most: u64) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..draw.whole(1, most) {
        if out.is_empty() {
            out.push(b' ');
        }
        edit(draw, &mut out);
    }
    out
}

fn edit(draw: &mut Draw, out: &mut Vec<u8>) {
    let at = draw.below(out.len());
    let end = (at + draw.below(60)).min(out.len());
    match draw.whole(0, 7) {
        0 => out[at] = draw.bits().to_le_bytes()[0],
        1 => drop(out.remove(at)),
        2 => out.insert(at, draw.pick(b"0123456789eE.-+{}[]\",:\\nuNI ")),
        3 => drop(out.drain(at..end)),
        4 => {
            let copy = out[at..end].to_vec();
            let to = draw.below(out.len());
            drop(out.splice(to..to, copy));
        }
        5 => drop(out.splice(at..end, draw.pick(&SNIPPETS).bytes())),
        _ => replace_number(draw, out, at),
    }
}

/// Replaces the first number at or after `at` by a snippet.
fn replace_number(draw: &mut Draw, out: &mut Vec<u8>, at: usize) {
    let Some(start) = (at..out.len()).find(|&i| out[i].is_ascii_digit()) else {
        return;
    };
    let digits = out[start..]
        .iter()
        .take_while(|b| b.is_ascii_digit() || b".eE-+".contains(b));
    let end = start + digits.count();
    drop(out.splice(start..end, draw.pick(&SNIPPETS[..NUMBERS]).bytes()));
}
