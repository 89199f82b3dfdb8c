//! What the remains of an interrupted write still say.
//!
//! A line is written before its spend exists, so remains mean that nothing was handed out, unless
//! the file lost bytes that were durable. The two cannot be told apart, so a release whose event and
//! draws can still be read is counted, and a held release whose id can still be read is taken.

use dp_core::DpEvent;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::lines::before_seal;

/// The members of a record that its cost needs. The rest of the line may be missing.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Remains {
    pub(super) seq: u64,
    pub(super) data_set: String,
    pub(super) event: DpEvent,
    pub(super) n_draws: u64,
    #[serde(default)]
    pub(super) mu_squared: Option<f64>,
    #[serde(default)]
    pub(super) rdp: Option<f64>,
}

/// The member of a [`super::lines::Taken`] line that says what it hands out.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct TakenRemains {
    pub(super) taken: String,
}

/// Reads the whole members of a line that breaks off; `None` when they do not make a `T`.
///
/// The member that breaks off is left out: a number cut short would read as another number.
pub(super) fn remains<T: DeserializeOwned>(torn: &[u8]) -> Option<T> {
    let line = before_seal(torn);
    member_ends(line).into_iter().rev().find_map(|end| {
        let mut closed = line.get(..end)?.to_vec();
        closed.push(b'}');
        serde_json::from_slice(&closed).ok()
    })
}

/// Where the commas between the members of the outermost object stand.
fn member_ends(line: &[u8]) -> Vec<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut ends = Vec::new();
    for (at, &byte) in line.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            b',' if !in_string && depth == 1 => ends.push(at),
            _ => {}
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = concat!(
        r#"{"seq":4,"data_set":"a,}\"b","label":"x","event":{"mechanism":"gaussian","#,
        r#""noise_multiplier":100.0,"replace_factor":"two"},"n_draws":3456,"mu_squared":0.25,"#,
        r#""previous_hash":"00ff","hash":"ab"#
    );

    #[test]
    fn a_cost_is_read_as_soon_as_its_members_are_whole() {
        let enough = LINE.find(r#","mu_squared"#).unwrap() + 1;
        for cut in 0..LINE.len() {
            let found: Option<Remains> = remains(&LINE.as_bytes()[..cut]);
            assert_eq!(found.is_some(), cut >= enough, "{cut}");
            let Some(found) = found else { continue };
            assert_eq!((found.seq, found.n_draws), (4, 3456), "{cut}");
            assert_eq!(found.data_set, "a,}\"b");
            assert_eq!(found.event, DpEvent::gaussian(100.0));
            let with_cost = cut > LINE.find(r#","previous"#).unwrap();
            assert_eq!(found.mu_squared, with_cost.then_some(0.25), "{cut}");
        }
    }

    #[test]
    fn a_taken_release_is_read_once_its_id_is_whole() {
        let line = r#"{"taken":"00ff","previous_hash":"ab"#;
        for cut in 0..line.len() {
            let found: Option<TakenRemains> = remains(&line.as_bytes()[..cut]);
            assert_eq!(found.is_some(), cut > line.find(',').unwrap(), "{cut}");
        }
        assert!(remains::<TakenRemains>(LINE.as_bytes()).is_none());
    }

    #[test]
    fn a_seal_begun_after_the_remains_is_not_part_of_them() {
        let sealed = [LINE.as_bytes(), b"\x1e{\"sealed_bytes\":7,\"sealed"].concat();
        let whole: Option<Remains> = remains(LINE.as_bytes());
        assert!(whole.is_some() && remains(&sealed) == whole);
    }
}
