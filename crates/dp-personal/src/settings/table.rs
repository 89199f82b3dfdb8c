//! The only place where settings are described: name, flag and key, default, range and
//! documentation.
//!
//! [`settings!`] declares a struct of settings together with its rows of the table. A command line
//! or a file of settings is derived from the rows; library users fill in the struct.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use dp_data::TableSource;

/// The type of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// True or false; false by default.
    Switch,
    /// A number.
    Number,
    /// A whole number, 0 or above.
    Whole,
    /// Text.
    Text,
    /// A file or a folder.
    Path,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// A range of valid numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The lower end, and whether it is included.
    pub low: (f64, bool),
    /// The upper end, and whether it is included.
    pub high: (f64, bool),
}

impl Range {
    /// From `low` to `high`, both included.
    #[must_use]
    pub const fn of(low: f64, high: f64) -> Self {
        Self {
            low: (low, true),
            high: (high, true),
        }
    }

    /// Every number from `low` on.
    #[must_use]
    pub const fn from(low: f64) -> Self {
        Self {
            low: (low, true),
            high: (f64::INFINITY, false),
        }
    }

    /// Every number above `low`.
    #[must_use]
    pub const fn above(low: f64) -> Self {
        Self {
            low: (low, false),
            high: (f64::INFINITY, false),
        }
    }

    /// Between 0 and 1, both excluded.
    #[must_use]
    pub const fn open_unit() -> Self {
        Self {
            low: (0.0, false),
            high: (1.0, false),
        }
    }

    /// From 0, included, to 1, excluded.
    #[must_use]
    pub const fn below_one() -> Self {
        Self {
            low: (0.0, true),
            high: (1.0, false),
        }
    }

    /// From 0, excluded, to 1, included.
    #[must_use]
    pub const fn up_to_one() -> Self {
        Self {
            low: (0.0, false),
            high: (1.0, true),
        }
    }

    /// Whether the range contains a number.
    #[must_use]
    pub fn contains(self, x: f64) -> bool {
        let (low, high) = (self.low, self.high);
        (x > low.0 || low.1 && x >= low.0) && (x < high.0 || high.1 && x <= high.0)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.low {
            (low, true) => write!(out, "from {low}")?,
            (low, false) => write!(out, "above {low}")?,
        }
        match self.high {
            (high, _) if high.is_infinite() => Ok(()),
            (high, true) => write!(out, " to {high}"),
            (high, false) => write!(out, ", below {high}"),
        }
    }
}

/// Which property of a setting must be the same when an interrupted run is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shapes {
    /// Its value: the run or its certificate depends on it.
    ByValue,
    /// The contents of the public file that it names. The hash of the whole file is never
    /// published, because it depends on parts of the file that the run does not use.
    ByContents,
    /// Nothing: the setting determines where things are, how they are shown, or what pays.
    Nothing,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its name: the field of the struct, also used in errors of this crate.
    pub name: &'static str,
    /// Its flag without the dashes and its key in a file, if that is not the name with dashes for
    /// underscores.
    pub long: Option<&'static str>,
    /// A flag of one letter, used instead of the long one.
    pub short: Option<char>,
    /// Another name of the flag.
    pub alias: Option<&'static str>,
    /// Whether it is a positional argument.
    pub positional: bool,
    /// Its heading in a list of settings.
    pub heading: Option<&'static str>,
    /// The type of its value.
    pub kind: Kind,
    /// The placeholder for its value in a list of settings.
    pub value_name: Option<&'static str>,
    /// Whether it takes several values.
    pub is_list: bool,
    /// The separator of several values given at once; without it, they are given one by one.
    pub delimiter: Option<char>,
    /// Whether it may be left out although it has no default.
    pub optional: bool,
    /// The value if it is left out, as it would be typed.
    pub default: Option<&'static str>,
    /// The value that a run uses if it is left out, in words if a rule determines it. Set if
    /// leaving the setting out differs from giving that value, for example because other settings
    /// determine whether it may be given.
    pub usual: Option<&'static str>,
    /// The valid numbers, if they do not depend on anything else.
    pub range: Option<Range>,
    /// Other settings that must be given.
    pub requires: &'static [&'static str],
    /// Other settings that must not be given.
    pub conflicts: &'static [&'static str],
    /// Its group, if exactly one setting of the group must be given.
    pub one_of: Option<&'static str>,
    /// How the setting affects the run: by its value unless specified otherwise, so that none is
    /// forgotten.
    pub shapes: Shapes,
    /// Its documentation.
    pub doc: &'static str,
}

impl Setting {
    /// A row for values of this type, with defaults for everything except name, heading and
    /// documentation.
    #[must_use]
    pub const fn of<T: Value>(
        name: &'static str,
        heading: Option<&'static str>,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            long: None,
            short: None,
            alias: None,
            positional: false,
            heading,
            kind: T::KIND,
            value_name: None,
            is_list: T::IS_LIST,
            delimiter: None,
            optional: T::OPTIONAL,
            default: None,
            usual: None,
            range: None,
            requires: &[],
            conflicts: &[],
            one_of: None,
            shapes: Shapes::ByValue,
            doc,
        }
    }

    /// Its key in a file of settings, which is its long flag without the dashes.
    #[must_use]
    pub fn key(&self) -> String {
        let long = self.long.map(str::to_owned);
        long.unwrap_or_else(|| self.name.replace('_', "-"))
    }

    /// Whether `name` is its name or its key.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.key() == name
    }

    /// Its form on a command line.
    #[must_use]
    pub fn flag(&self) -> String {
        match self.short {
            Some(letter) => format!("-{letter}"),
            None => format!("--{}", self.key()),
        }
    }

    /// Whether it is required.
    #[must_use]
    pub const fn is_required(&self) -> bool {
        !self.optional && self.default.is_none()
    }

    /// Its documentation and its default, on one line.
    #[must_use]
    pub fn help(&self) -> String {
        let doc = self.doc.trim();
        match self.usual {
            Some(usual) => format!("{doc} [default: {usual}]"),
            None => doc.to_owned(),
        }
    }
}

/// A source of values: a command line, a file, a map.
pub trait Source {
    /// The values given for a setting, or its default; `None` if there is neither. A switch that is
    /// on has one value.
    fn values(&self, setting: &Setting) -> Option<Vec<OsString>>;
}

/// A setting whose value is missing or cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}`: {reason}")]
pub struct Unread {
    /// The name of the setting.
    pub name: String,
    /// The problem.
    pub reason: String,
}

/// Settings as names and texts; settings that are not given have their defaults.
///
/// # Examples
/// ```
/// use dp_personal::settings::{Given, TrainSettings};
///
/// let given = Given::default()
///     .with("ratings", "ratings.csv")
///     .with("epsilon", "1")
///     .with("delta", "1e-5")
///     .with("items", "items.csv")
///     .with("ledger", "ratings.ledger");
/// let settings: TrainSettings = given.settings()?;
/// assert_eq!(settings.split.split_seed, 0);
/// assert!(given.with("epsilom", "1").settings::<TrainSettings>().is_err());
/// # Ok::<(), dp_personal::settings::Unread>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Given(Vec<(String, OsString)>);

impl Given {
    /// Adds a value of a setting, by its name or its key; a list may have several.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.0.push((name.to_owned(), value.into()));
        self
    }

    /// Whether a value of a setting is given.
    #[must_use]
    pub fn has(&self, setting: &Setting) -> bool {
        self.0.iter().any(|(name, _)| setting.is_called(name))
    }

    /// The settings with these values.
    ///
    /// # Errors
    /// When a name is unknown, a required setting is missing, a value cannot be parsed, or settings exclude each other.
    pub fn settings<S: Settings>(&self) -> Result<S, Unread> {
        let table = S::table();
        let known = |name: &str| table.iter().any(|setting| setting.is_called(name));
        match self.0.iter().find(|(name, _)| !known(name)) {
            Some((name, _)) => Err(Unread {
                name: name.clone(),
                reason: "there is no such setting".to_owned(),
            }),
            None => {
                self.check_together(&table)?;
                S::read(self)
            }
        }
    }

    /// Refuses several values of a setting that takes one, and settings that the table's rows do not admit together.
    fn check_together(&self, table: &[Setting]) -> Result<(), Unread> {
        let by_name = |name: &str| table.iter().find(|setting| setting.name == name);
        let is_given = |name: &&&str| by_name(name).is_some_and(|setting| self.is_on(setting));
        for setting in table.iter().filter(|setting| self.is_on(setting)) {
            let several = (!setting.is_list && self.values_of(setting).count() > 1)
                .then(|| "takes one value".to_owned());
            let missing = setting.requires.iter().find(|name| !is_given(name));
            let excluded = setting.conflicts.iter().find(is_given);
            let reason = several
                .or_else(|| missing.map(|name| format!("needs `{name}`")))
                .or_else(|| excluded.map(|name| format!("cannot be used with `{name}`")));
            if let Some(reason) = reason {
                let name = setting.name.to_owned();
                return Err(Unread { name, reason });
            }
        }
        Ok(())
    }

    fn values_of(&self, setting: &Setting) -> impl DoubleEndedIterator<Item = &OsString> {
        let given = (self.0.iter()).filter(|(name, _)| setting.is_called(name));
        given.map(|(_, value)| value)
    }

    /// Whether a setting is given, and not as a switch that is off.
    fn is_on(&self, setting: &Setting) -> bool {
        let is_off = |value: &OsString| setting.kind == Kind::Switch && value == "false";
        (self.values_of(setting).next_back()).is_some_and(|value| !is_off(value))
    }
}

impl Source for Given {
    fn values(&self, setting: &Setting) -> Option<Vec<OsString>> {
        let given: Vec<OsString> = self.values_of(setting).cloned().collect();
        if !given.is_empty() {
            return Some(given);
        }
        let default = setting.default?;
        Some(match setting.delimiter {
            Some(delimiter) => default.split(delimiter).map(OsString::from).collect(),
            None => vec![default.into()],
        })
    }
}

/// A type of setting values.
pub trait Value: Sized {
    /// The type of its values.
    const KIND: Kind;
    /// Whether it takes several values.
    const IS_LIST: bool = false;
    /// Whether the value may be missing.
    const OPTIONAL: bool = false;

    /// Parses one value; `None` if it is invalid.
    fn parsed(text: &OsStr) -> Option<Self>;

    /// Reads all values of a setting.
    ///
    /// # Errors
    /// When a required value is missing, or one cannot be parsed.
    fn read(setting: &Setting, source: &dyn Source) -> Result<Self, Unread> {
        let given = source.values(setting).unwrap_or_default();
        let last = given.last().ok_or_else(|| missing(setting))?;
        Self::parsed(last).ok_or_else(|| unreadable(setting, last))
    }

    /// The value as JSON; null if there is none.
    fn to_json(&self) -> serde_json::Value;

    /// The SHA-256 of the bytes, if the value names a file.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn contents(&self) -> crate::error::Result<serde_json::Value> {
        Ok(self.to_json())
    }
}

fn missing(setting: &Setting) -> Unread {
    Unread {
        name: setting.name.to_owned(),
        reason: "a value is needed".to_owned(),
    }
}

fn unreadable(setting: &Setting, text: &OsStr) -> Unread {
    let expected = match setting.kind {
        Kind::Switch => "true or false".to_owned(),
        Kind::Number => "a number".to_owned(),
        Kind::Whole => "a whole number".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Path => "the name of a file".to_owned(),
        Kind::Choice(words) => format!("one of {}", words.join(", ")),
    };
    Unread {
        name: setting.name.to_owned(),
        reason: format!("{} is not {expected}", text.display()),
    }
}

fn from_text<T: std::str::FromStr>(text: &OsStr) -> Option<T> {
    text.to_str()?.parse().ok()
}

macro_rules! plain_values {
    ($($of:ty: $kind:expr),*) => {$(
        impl Value for $of {
            const KIND: Kind = $kind;

            fn parsed(text: &OsStr) -> Option<Self> {
                from_text(text)
            }

            fn to_json(&self) -> serde_json::Value {
                self.clone().into()
            }
        }
    )*};
}

plain_values!(usize: Kind::Whole, u64: Kind::Whole, String: Kind::Text);

impl Value for f64 {
    const KIND: Kind = Kind::Number;

    fn parsed(text: &OsStr) -> Option<Self> {
        from_text(text)
    }

    /// JSON has no infinity: numbers that are not finite become text.
    fn to_json(&self) -> serde_json::Value {
        let number = serde_json::Number::from_f64(*self).map(serde_json::Value::Number);
        number.unwrap_or_else(|| self.to_string().into())
    }
}

impl Value for PathBuf {
    const KIND: Kind = Kind::Path;

    fn parsed(text: &OsStr) -> Option<Self> {
        Some(text.into())
    }

    fn to_json(&self) -> serde_json::Value {
        self.to_string_lossy().into()
    }

    fn contents(&self) -> crate::error::Result<serde_json::Value> {
        // a model is represented by its factors and the ids of its items
        let files = match self.is_dir() {
            true => crate::output::MODEL_FILES
                .map(|name| self.join(name))
                .to_vec(),
            false => vec![self.clone()],
        };
        let read = |path: &Self| {
            let bytes = std::fs::read(path).map_err(|e| crate::error::Error::read(path, e))?;
            Ok(dp_accounting::sha256_hex(&bytes))
        };
        let hashes: Vec<String> = files
            .iter()
            .map(read)
            .collect::<crate::error::Result<_>>()?;
        Ok(hashes.join(" ").into())
    }
}

/// Parsed from text, a file; tables in memory are set in code.
impl Value for TableSource {
    const KIND: Kind = Kind::Path;

    fn parsed(text: &OsStr) -> Option<Self> {
        Some(text.into())
    }

    fn to_json(&self) -> serde_json::Value {
        self.to_string().into()
    }
}

impl Value for bool {
    const KIND: Kind = Kind::Switch;
    const OPTIONAL: Self = true;

    fn parsed(text: &OsStr) -> Option<Self> {
        from_text(text)
    }

    fn read(setting: &Setting, source: &dyn Source) -> Result<Self, Unread> {
        let given = source.values(setting).unwrap_or_default();
        let read = |text: &OsString| Self::parsed(text).ok_or_else(|| unreadable(setting, text));
        given.last().map_or(Ok(false), read)
    }

    fn to_json(&self) -> serde_json::Value {
        (*self).into()
    }
}

impl<T: Value> Value for Option<T> {
    const KIND: Kind = T::KIND;
    const IS_LIST: bool = T::IS_LIST;
    const OPTIONAL: bool = true;

    fn parsed(text: &OsStr) -> Option<Self> {
        T::parsed(text).map(Some)
    }

    fn read(setting: &Setting, source: &dyn Source) -> Result<Self, Unread> {
        match source.values(setting) {
            Some(given) if !given.is_empty() => T::read(setting, source).map(Some),
            _ => Ok(None),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.as_ref().map(T::to_json).unwrap_or_default()
    }

    fn contents(&self) -> crate::error::Result<serde_json::Value> {
        Ok(self
            .as_ref()
            .map(T::contents)
            .transpose()?
            .unwrap_or_default())
    }
}

impl<T: Value> Value for Vec<T> {
    const KIND: Kind = T::KIND;
    const IS_LIST: bool = true;

    fn parsed(text: &OsStr) -> Option<Self> {
        T::parsed(text).map(|one| vec![one])
    }

    fn read(setting: &Setting, source: &dyn Source) -> Result<Self, Unread> {
        let given = source.values(setting).unwrap_or_default();
        if given.is_empty() && setting.is_required() {
            return Err(missing(setting));
        }
        let read = |text: &OsString| T::parsed(text).ok_or_else(|| unreadable(setting, text));
        given.iter().map(read).collect()
    }

    fn to_json(&self) -> serde_json::Value {
        self.iter().map(T::to_json).collect()
    }
}

/// A struct of settings.
pub trait Settings: Sized {
    /// Its rows of the table, in the order of its fields; rows without their own heading get
    /// `heading`.
    fn rows(heading: Option<&'static str>) -> Vec<Setting>;

    /// The settings with these values.
    ///
    /// # Errors
    /// When one is missing or cannot be parsed.
    fn read(source: &dyn Source) -> Result<Self, Unread>;

    /// Name and value, or hash of the contents, of every setting that affects a run: public as a
    /// whole.
    ///
    /// # Errors
    /// When a public file cannot be read.
    fn shaping(&self) -> crate::error::Result<Vec<(&'static str, serde_json::Value)>>;

    /// Its part of the table.
    #[must_use]
    fn table() -> Vec<Setting> {
        Self::rows(None)
    }
}

/// Declares structs of settings together with their rows of the table: after each field follows the
/// content of its row other than name, type and documentation, or `flatten` if the field is itself
/// a struct of settings.
macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])*
        struct $name:ident $(under $heading:literal)? {
            $( $(#[doc = $text:literal])* $field:ident: $of:ty = $how:tt, )*
        }
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[doc = $text])* pub $field: $of, )*
        }

        impl $crate::settings::Settings for $name {
            fn rows(heading: Option<&'static str>) -> Vec<$crate::settings::Setting> {
                $( let heading = heading.and(None).or(Some($heading)); )?
                let mut rows = Vec::new();
                $( settings!(@row rows, heading, $field, $of, concat!($($text),*), $how); )*
                rows
            }

            fn read(source: &dyn $crate::settings::Source) -> Result<Self, $crate::settings::Unread> {
                Ok(Self { $( $field: settings!(@read source, $field, $of, $how), )* })
            }

            fn shaping(&self) -> $crate::error::Result<Vec<(&'static str, serde_json::Value)>> {
                let mut values = Vec::new();
                $( settings!(@shape values, self, $field, $of, $how); )*
                Ok(values)
            }
        }
    )*};
    (@row $rows:ident, $heading:ident, $field:ident, $of:ty, $doc:expr, flatten) => {
        $rows.extend(<$of as $crate::settings::Settings>::rows($heading));
    };
    (@row $rows:ident, $heading:ident, $field:ident, $of:ty, $doc:expr, $how:tt) => {
        $rows.push(settings!(@setting $heading, $field, $of, $doc, $how));
    };
    (@setting $heading:expr, $field:ident, $of:ty, $doc:expr, { $($key:ident: $value:expr),* $(,)? }) => {{
        #[allow(clippy::needless_update, reason = "a row may say everything")]
        $crate::settings::Setting {
            $($key: settings!(@value $key, $value),)*
            ..$crate::settings::Setting::of::<$of>(stringify!($field), $heading, $doc)
        }
    }};
    (@shape $values:ident, $settings:ident, $field:ident, $of:ty, flatten) => {
        $values.extend(<$of as $crate::settings::Settings>::shaping(&$settings.$field)?);
    };
    (@shape $values:ident, $settings:ident, $field:ident, $of:ty, $how:tt) => {
        let setting = settings!(@setting None, $field, $of, "", $how);
        match setting.shapes {
            $crate::settings::Shapes::ByValue => {
                $values.push((setting.name, <$of as $crate::settings::Value>::to_json(&$settings.$field)));
            }
            $crate::settings::Shapes::ByContents => {
                $values.push((setting.name, <$of as $crate::settings::Value>::contents(&$settings.$field)?));
            }
            $crate::settings::Shapes::Nothing => {}
        }
    };
    (@value positional, $value:expr) => { $value };
    (@value shapes, $value:expr) => { $value };
    (@value optional, $value:expr) => { $value };
    (@value requires, $value:expr) => { &$value };
    (@value conflicts, $value:expr) => { &$value };
    (@value $key:ident, $value:expr) => { Some($value) };
    (@read $source:ident, $field:ident, $of:ty, flatten) => {
        <$of as $crate::settings::Settings>::read($source)?
    };
    (@read $source:ident, $field:ident, $of:ty, $how:tt) => {
        <$of as $crate::settings::Value>::read(
            &settings!(@setting None, $field, $of, "", $how),
            $source,
        )?
    };
}

/// Makes the words for an enum's variants values of settings.
macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal,)* }) => {
        impl $crate::settings::Value for $name {
            const KIND: $crate::settings::Kind = $crate::settings::Kind::Choice(&[$($word),*]);

            fn parsed(text: &std::ffi::OsStr) -> Option<Self> {
                match text.to_str()? {
                    $( $word => Some(Self::$variant), )*
                    _ => None,
                }
            }

            fn to_json(&self) -> serde_json::Value {
                match self { $( Self::$variant => $word.into(), )* }
            }
        }
    };
}

/// Declares an enum of words that are values of a setting.
macro_rules! choices {
    ($(
        $(#[doc = $doc:literal])*
        enum $name:ident { $( $(#[doc = $text:literal])* $variant:ident = $word:literal, )* }
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $( $(#[doc = $text])* $variant, )* }

        impl $name {
            /// The word for this variant.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }
        }

        $crate::settings::words!($name { $($variant = $word,)* });
    )*};
}

pub(crate) use choices;
pub(crate) use settings;
pub(crate) use words;

#[cfg(test)]
mod tests {
    use super::Given;
    use crate::settings::{FederateSettings, PersonalizeSettings, TrainSettings};

    /// The error of a run with these settings, empty if there is none.
    fn refused<S: super::Settings>(more: &[(&str, &str)]) -> String {
        let all = [("epsilon", "1"), ("delta", "1e-5"), ("out", "model")];
        let all = all.iter().chain(more);
        let given = all.fold(Given::default(), |given, (name, value)| {
            given.with(name, *value)
        });
        (given.settings::<S>().err()).map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn settings_are_admitted_together_by_their_rows_alone() {
        let train = |more: &[(&str, &str)]| {
            refused::<TrainSettings>(&[&[("ratings", "r.csv")], more].concat())
        };
        let alone = ("no_ledger", "true");
        let counted = ("ledger", "l");
        for (more, text) in [
            (&[alone, ("insecure_seed", "1")][..], ""),
            (
                &[counted, ("insecure_seed", "1")],
                "`insecure_seed`: cannot be used with `ledger`",
            ),
            (
                &[alone, ("no_split", "false"), ("release_metrics", "0.1")],
                "",
            ),
            (
                &[alone, ("no_split", "true"), ("release_metrics", "0.1")],
                "`release_metrics`: cannot be used with `no_split`",
            ),
            (
                &[alone, ("prior", "p"), ("opt_in", "o")],
                "`opt_in`: cannot be used with `prior`",
            ),
            (
                &[alone, ("prior_is_public", "true")],
                "`prior_is_public`: needs `prior`",
            ),
            (
                &[alone, ("metric_bound", "1")],
                "`metric_bound`: needs `release_metrics`",
            ),
            (&[alone, ("scratch", "d")], "`scratch`: needs `memory`"),
            (
                &[alone, ("same_data_set", "true")],
                "`same_data_set`: needs `ledger`",
            ),
            (&[alone, ("rating-range", "1"), ("rating-range", "5")], ""),
            (
                &[alone, ("rating_range", "1"), ("label_bound", "5")],
                "`rating_range`: cannot be used with `label_bound`",
            ),
            (
                &[alone, ("dim", "2"), ("dim", "3")],
                "`dim`: takes one value",
            ),
        ] {
            assert_eq!(train(more), text, "{more:?}");
        }
        let rows = [
            ("data", "r.csv"),
            ("rank", "1"),
            alone,
            ("no_split", "true"),
        ];
        assert_eq!(refused::<PersonalizeSettings>(&rows), "");
        let seeded = [&rows[..], &[("split_seed", "1")]].concat();
        assert_eq!(
            refused::<PersonalizeSettings>(&seeded),
            "`no_split`: cannot be used with `split_seed`"
        );
        // which also chooses the rows that alphas are compared on
        let rounds = [
            ("data", "r.csv"),
            alone,
            ("no_split", "true"),
            ("split_seed", "1"),
        ];
        assert_eq!(refused::<FederateSettings>(&rounds), "");
        let tested = [&rounds[..], &[("test_share", "0.1")]].concat();
        assert_eq!(
            refused::<FederateSettings>(&tested),
            "`no_split`: cannot be used with `test_share`"
        );
    }
}
