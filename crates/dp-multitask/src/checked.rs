//! Common parts of all validated settings.

use dp_accounting::CertificateBuilder;

/// The assumptions and the exclusions that every certificate of this crate lists, and the caller's
/// own `assumptions`.
pub(crate) fn taken_on_trust(
    certificate: CertificateBuilder,
    assumptions: &[String],
) -> CertificateBuilder {
    let certificate = certificate
        .assumption("one person has one user id")
        .not_covered("internal report: accuracy and data-handling counts");
    assumptions
        .iter()
        .fold(certificate, |certificate, assumption| {
            certificate.assumption(assumption.as_str())
        })
}

/// `params` and `assuming` for a type with the fields `params` and `assumptions`.
macro_rules! settings_and_assumptions {
    ($fit:ty, $params:ty) => {
        impl $fit {
            /// The settings.
            #[must_use]
            pub const fn params(&self) -> &$params {
                &self.params
            }

            /// Adds an assumption of the run, to be listed in its certificate.
            #[must_use]
            pub fn assuming(mut self, assumption: impl Into<String>) -> Self {
                self.assumptions.push(assumption.into());
                self
            }
        }
    };
}
