//! The one place where settings are described: name, flag and key, default, range and documentation.
//!
//! [`settings!`] declares a struct of settings and its rows of the table at once. A command line or a file of settings
//! is derived from the rows; whoever calls the library fills in the struct.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use dp_data::TableSource;

/// What values a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// True or false, off unless it is given.
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

/// The numbers that make sense.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The lower end, and whether it is one of them.
    pub low: (f64, bool),
    /// The upper end, and whether it is one of them.
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

    /// Between 0 and 1, neither included.
    #[must_use]
    pub const fn open_unit() -> Self {
        Self {
            low: (0.0, false),
            high: (1.0, false),
        }
    }

    /// From 0, included, to below 1.
    #[must_use]
    pub const fn below_one() -> Self {
        Self {
            low: (0.0, true),
            high: (1.0, false),
        }
    }

    /// Above 0, up to 1, included.
    #[must_use]
    pub const fn up_to_one() -> Self {
        Self {
            low: (0.0, false),
            high: (1.0, true),
        }
    }

    /// Whether a number is one of them.
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

/// What of a setting has to be the same where an interrupted run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shapes {
    /// Its value: the run depends on it, or what its certificate says does.
    ByValue,
    /// What stands in the public file that it names. The hash of the whole file is never published, since it depends on parts of the
    /// file that the run does not use.
    ByContents,
    /// Nothing: it says where things are, how they are shown, or what pays.
    Nothing,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its name: the field of the struct, and how errors of this crate call it.
    pub name: &'static str,
    /// Its flag without the dashes and its key in a file, where that is not the name with dashes for underscores.
    pub long: Option<&'static str>,
    /// A flag of one letter, which stands instead of the long one.
    pub short: Option<char>,
    /// Another name of the flag.
    pub alias: Option<&'static str>,
    /// Whether a command line has it without a flag.
    pub positional: bool,
    /// Under which heading a list of settings has it.
    pub heading: Option<&'static str>,
    /// What values it takes.
    pub kind: Kind,
    /// What a list of settings writes for its value.
    pub value_name: Option<&'static str>,
    /// Whether it takes several values.
    pub is_list: bool,
    /// What stands between several values given at once; without it, they are given one by one.
    pub delimiter: Option<char>,
    /// Whether it may be left out though it has no default.
    pub optional: bool,
    /// The value when it is left out, as it would be typed.
    pub default: Option<&'static str>,
    /// The value that a run takes when it is left out, in words where a rule decides it. Set where leaving it out is
    /// something else than giving that value, for example because other settings decide whether it may be given.
    pub usual: Option<&'static str>,
    /// The numbers that make sense, where they do not depend on anything else.
    pub range: Option<Range>,
    /// Settings that must be given too.
    pub requires: &'static [&'static str],
    /// Settings that must not be given too.
    pub conflicts: &'static [&'static str],
    /// The group that it is in, where one setting of several must be given.
    pub one_of: Option<&'static str>,
    /// How it takes part in the run. By its value unless a row says otherwise, so that none is forgotten.
    pub shapes: Shapes,
    /// What it does.
    pub doc: &'static str,
}

impl Setting {
    /// A row for values of this type, with nothing said but the name.
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

    /// Its key in a file of settings, and its long flag without the dashes.
    #[must_use]
    pub fn key(&self) -> String {
        let long = self.long.map(str::to_owned);
        long.unwrap_or_else(|| self.name.replace('_', "-"))
    }

    /// Whether this is its name or its key.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.key() == name
    }

    /// How it is written on a command line.
    #[must_use]
    pub fn flag(&self) -> String {
        match self.short {
            Some(letter) => format!("-{letter}"),
            None => format!("--{}", self.key()),
        }
    }

    /// Whether it must be given.
    #[must_use]
    pub const fn is_required(&self) -> bool {
        !self.optional && self.default.is_none()
    }

    /// What it does and what happens without it, on one line.
    #[must_use]
    pub fn help(&self) -> String {
        let doc = self.doc.trim();
        match self.usual {
            Some(usual) => format!("{doc} [default: {usual}]"),
            None => doc.to_owned(),
        }
    }
}

/// Where values are read from: a command line, a file, a map.
pub trait Source {
    /// The values given for a setting, or its default; `None` where there is neither. A switch that is on has one.
    fn values(&self, setting: &Setting) -> Option<Vec<OsString>>;
}

/// A setting whose value is missing or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}`: {reason}")]
pub struct Unread {
    /// The name of the setting.
    pub name: String,
    /// What is wrong.
    pub reason: String,
}

/// Settings as names and texts; what is not given has its default.
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
    /// The same with a value of a setting, by its name or its key; of a list, one more.
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
    /// When a name is that of no setting, one that is needed is missing, or a value cannot be read.
    pub fn settings<S: Settings>(&self) -> Result<S, Unread> {
        let table = S::table();
        let known = |name: &str| table.iter().any(|setting| setting.is_called(name));
        match self.0.iter().find(|(name, _)| !known(name)) {
            Some((name, _)) => Err(Unread {
                name: name.clone(),
                reason: "there is no such setting".to_owned(),
            }),
            None => S::read(self),
        }
    }
}

impl Source for Given {
    fn values(&self, setting: &Setting) -> Option<Vec<OsString>> {
        let given = self.0.iter().filter(|(name, _)| setting.is_called(name));
        let given: Vec<OsString> = given.map(|(_, value)| value.clone()).collect();
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

/// A type of settings' values.
pub trait Value: Sized {
    /// What values it takes.
    const KIND: Kind;
    /// Whether it takes several.
    const IS_LIST: bool = false;
    /// Whether there may be none.
    const OPTIONAL: bool = false;

    /// One value as it is typed; `None` where it is no such value.
    fn parsed(text: &OsStr) -> Option<Self>;

    /// All values of a setting.
    ///
    /// # Errors
    /// When there is none where one is needed, or one cannot be read.
    fn read(setting: &Setting, source: &dyn Source) -> Result<Self, Unread> {
        let given = source.values(setting).unwrap_or_default();
        let last = given.last().ok_or_else(|| missing(setting))?;
        Self::parsed(last).ok_or_else(|| unreadable(setting, last))
    }

    /// The value as JSON; null where there is none.
    fn to_json(&self) -> serde_json::Value;

    /// The same, where it names a file: the SHA-256 of its bytes.
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

    /// JSON has no infinity: what is not finite is a text.
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
        let bytes = std::fs::read(self).map_err(|e| crate::error::Error::read(self, e))?;
        Ok(dp_accounting::sha256_hex(&bytes).into())
    }
}

/// As text, a file; tables in memory are put in where settings are made in code.
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
    /// Its rows of the table, in the order of its fields; those without a heading of their own stand under `heading`.
    fn rows(heading: Option<&'static str>) -> Vec<Setting>;

    /// The settings with these values.
    ///
    /// # Errors
    /// When one is missing or cannot be read.
    fn read(source: &dyn Source) -> Result<Self, Unread>;

    /// Name and value, or hash of the contents, of every setting that shapes a run: public as a whole.
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

/// Declares structs of settings, and with them their rows of the table: after each field stands what its row says
/// besides the name, the type and the documentation, or `flatten` where the field is a struct of settings itself.
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

/// Declares an enum of words that a setting can be.
macro_rules! choices {
    ($(
        $(#[doc = $doc:literal])*
        enum $name:ident { $( $(#[doc = $text:literal])* $variant:ident = $word:literal, )* }
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $( $(#[doc = $text])* $variant, )* }

        impl $name {
            /// The word for it.
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
