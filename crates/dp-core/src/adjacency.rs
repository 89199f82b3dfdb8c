use std::fmt;

use crate::Relation;

/// Which pairs of data sets count as neighbours, and therefore what a guarantee protects.
///
/// A guarantee has no meaning without this relation: replacing a user can change a sum twice as
/// much as adding or removing one. The default everywhere is [`Adjacency::AddRemoveUser`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Adjacency {
    /// One user's whole data is added or removed. The number of users is private.
    #[default]
    AddRemoveUser,
    /// One user's whole data is exchanged for any other. The number of users is public.
    ReplaceUser,
    /// One record is added or removed.
    AddRemoveRecord,
    /// One record is exchanged for any other.
    ReplaceRecord,
}

impl Adjacency {
    /// Whether neighbours differ by a replacement, which makes the number of units public.
    #[must_use]
    pub const fn is_replace(self) -> bool {
        matches!(self, Self::ReplaceUser | Self::ReplaceRecord)
    }

    /// How neighbours differ, whatever the protected unit is.
    #[must_use]
    pub const fn relation(self) -> Relation {
        if self.is_replace() {
            Relation::Replace
        } else {
            Relation::AddRemove
        }
    }

    /// The protected unit as one word: `user` or `record`.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::AddRemoveUser | Self::ReplaceUser => "user",
            Self::AddRemoveRecord | Self::ReplaceRecord => "record",
        }
    }

    /// The stable name used in files: `add-remove-user`, `replace-user` and so on.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AddRemoveUser => "add-remove-user",
            Self::ReplaceUser => "replace-user",
            Self::AddRemoveRecord => "add-remove-record",
            Self::ReplaceRecord => "replace-record",
        }
    }
}

impl fmt::Display for Adjacency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacement_is_told_from_addition() {
        assert!(!Adjacency::AddRemoveUser.is_replace());
        assert!(Adjacency::ReplaceUser.is_replace());
        assert_eq!(Adjacency::ReplaceRecord.unit(), "record");
    }

    #[cfg(feature = "serde")]
    #[test]
    fn file_names_agree_with_serde() {
        for a in [
            Adjacency::AddRemoveUser,
            Adjacency::ReplaceUser,
            Adjacency::AddRemoveRecord,
            Adjacency::ReplaceRecord,
        ] {
            assert_eq!(
                serde_json::to_string(&a).unwrap(),
                format!("\"{}\"", a.name())
            );
        }
    }
}
