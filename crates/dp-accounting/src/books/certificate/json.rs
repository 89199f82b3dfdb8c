use serde::Deserialize;

use super::{CERTIFICATE_SCHEMA, Certificate};
use crate::{Error, Result};

/// The one field that every version has.
#[derive(Deserialize)]
struct Versioned {
    schema_version: u32,
}

impl Certificate {
    /// Reads a certificate. Spaces and line breaks between members do not matter; everything
    /// else must be as [`to_json`](Self::to_json) writes it, down to the digits of each number,
    /// so that an edit too small to change any f64 is noticed as well. The contents are not
    /// verified yet: see [`verify`](Self::verify).
    ///
    /// # Errors
    /// [`Error::CertificateSyntax`] when the text is no certificate,
    /// [`Error::CertificateSchema`] for an unknown layout version, and
    /// [`Error::CertificateEdited`] for a text that this crate would have written otherwise
    /// (unknown or repeated members, another order, other digits).
    pub fn from_json(text: &str) -> Result<Self> {
        let version: Versioned = serde_json::from_str(text).map_err(Error::CertificateSyntax)?;
        if !(1..=CERTIFICATE_SCHEMA).contains(&version.schema_version) {
            return Err(Error::CertificateSchema {
                found: version.schema_version,
                supported: CERTIFICATE_SCHEMA,
            });
        }
        let certificate: Self = serde_json::from_str(text).map_err(Error::CertificateSyntax)?;
        if squeeze(text) == certificate.compact() {
            Ok(certificate)
        } else {
            Err(Error::CertificateEdited)
        }
    }

    /// The certificate as indented JSON, ending in a newline.
    #[must_use]
    #[allow(
        clippy::missing_panics_doc,
        reason = "strings, numbers and options always serialise"
    )]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("certificates are plain JSON");
        text.push('\n');
        text
    }

    /// The certificate as JSON without any space between members; this is what is hashed.
    pub(super) fn compact(&self) -> String {
        serde_json::to_string(self).expect("certificates are plain JSON")
    }
}

/// `text` without the white space outside strings.
fn squeeze(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    text.chars()
        .filter(|&c| {
            let keep = in_string || !c.is_ascii_whitespace();
            if c == '"' && !escaped {
                in_string = !in_string;
            }
            escaped = in_string && c == '\\' && !escaped;
            keep
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_space_outside_strings_is_dropped() {
        let text = "{ \"a b\\\" c\\\\\" :\t[1, \"\\\\\" ] }\n";
        assert_eq!(squeeze(text), "{\"a b\\\" c\\\\\":[1,\"\\\\\"]}");
    }
}
