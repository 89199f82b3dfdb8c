//! Detects the layout of a file and the roles of its columns.

use std::collections::HashMap;

use super::table::{Input, Separator, Table, parse_number};
use crate::{ColumnRole, Error, Expected, Result};

/// How lines of text are laid out. Parquet has no lines; it is recognised by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Layout {
    /// `user::item::rating` or `user::item::rating::timestamp`, no header (MovieLens
    /// `ratings.dat`).
    DoubleColon,
    /// The same with tabs, without header (MovieLens `u.data`).
    Tab,
    /// Commas, with a header; fields may be quoted.
    Csv,
    /// Semicolons, with a header; fields may be quoted, and numbers may have a decimal comma.
    Semicolons,
    /// Tabs, with a header; no quoting.
    Tsv,
}

impl Layout {
    const fn separator(self) -> Separator {
        match self {
            Self::DoubleColon => Separator::DoubleColon,
            Self::Tab | Self::Tsv => Separator::Tab,
            Self::Csv => Separator::Comma,
            Self::Semicolons => Separator::Semicolon,
        }
    }

    const fn has_header(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv | Self::Semicolons)
    }
}

/// Names of the columns in the header. A name given here must match exactly; for `None` the first
/// of these names that occurs in the header is used, ignoring case:
///
/// | column | names |
/// |---|---|
/// | user | `user`, `userId`, `user_id` |
/// | item | `item`, `itemId`, `item_id`, `movieId`, `movie_id` |
/// | rating | `rating` |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RatingsColumns {
    /// Column of user ids.
    pub user: Option<String>,
    /// Column of item ids.
    pub item: Option<String>,
    /// Column of values.
    pub rating: Option<String>,
}

impl RatingsColumns {
    const fn any_named(&self) -> bool {
        self.user.is_some() || self.item.is_some() || self.rating.is_some()
    }
}

/// How to read a file of ratings. By default the layout is detected. In a Parquet file columns are
/// found by their names, as with a header, whatever the layout.
///
/// Detection examines the first line that is not blank:
///
/// 1. three or four numbers between `::`: [`Layout::DoubleColon`];
/// 2. a tab: [`Layout::Tab`] if there are four numbers, otherwise [`Layout::Tsv`];
/// 3. commas or semicolons, whichever is more frequent: [`Layout::Csv`] or [`Layout::Semicolons`];
/// 4. anything else is an error.
///
/// So a file without a header is recognised only if it looks like one of MovieLens, with numbers as
/// ids and times at the end: in another one the first column might not be the user.
/// [`Ratings::user_column`](crate::Ratings::user_column) is then a number. Naming a column excludes
/// the layouts without header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RatingsFormat {
    layout: Option<Layout>,
    columns: RatingsColumns,
    #[cfg_attr(feature = "serde", serde(default))]
    names: Option<Vec<String>>,
    #[cfg_attr(feature = "serde", serde(default))]
    without_ratings: bool,
}

impl RatingsFormat {
    /// Reads the file in this layout, without detection.
    #[must_use]
    pub const fn with_layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// Uses these columns of the header.
    #[must_use]
    pub fn with_columns(mut self, columns: RatingsColumns) -> Self {
        self.columns = columns;
        self
    }

    /// Uses these names, in order, for the columns of a file without a header. The separator is the
    /// one that splits the first line into as many fields: `::`, tabs, semicolons or commas. The
    /// layout is ignored.
    #[must_use]
    pub fn with_names(mut self, names: Vec<String>) -> Self {
        self.names = Some(names);
        self
    }

    /// Reads pairs of user and item: no column of ratings is needed or read, and every record has
    /// the value 1.
    #[must_use]
    pub const fn without_ratings(mut self) -> Self {
        self.without_ratings = true;
        self
    }

    /// Opens a table in this format and finds its columns. The user column may be missing only if
    /// `user_is_optional`.
    pub(super) fn open<'a>(
        &self,
        input: Input<'a>,
        name: String,
        user_is_optional: bool,
    ) -> Result<(Table<'a>, Columns)> {
        let (mut table, layout) = match &self.names {
            Some(names) => (Table::with_names(input, name, names)?, None),
            None => self.detected(input, name, user_is_optional)?,
        };
        let mut columns = if table.has_schema() || layout.is_some_and(Layout::has_header) {
            Columns::from_header(&table, self, user_is_optional)?
        } else {
            table.without_header();
            Columns::by_position(&table)?
        };
        if self.without_ratings {
            columns.unread_rating = columns.unread_rating.or(columns.rating.take());
        }
        let wanted = [Some(columns.item), columns.rating, columns.user];
        table.read_only(wanted.into_iter().flatten())?;
        Ok((table, columns))
    }

    /// A table in the given layout or in the one detected from the first line.
    fn detected<'a>(
        &self,
        input: Input<'a>,
        name: String,
        user_is_optional: bool,
    ) -> Result<(Table<'a>, Option<Layout>)> {
        let mut layout = self.layout;
        // a table of items alone needs no separator
        let may_be_one_column = user_is_optional && self.without_ratings;
        let table = Table::open(input, name, |line| {
            layout = layout
                .or_else(|| detect(line, self.columns.any_named()))
                .or(may_be_one_column.then_some(Layout::Csv));
            layout.map(Layout::separator)
        })?;
        Ok((table, layout))
    }
}

/// Positions of the columns within a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub(super) user: Option<usize>,
    pub(super) item: usize,
    /// Absent if records have no ratings.
    pub(super) rating: Option<usize>,
    /// Where they have none, a column that looks like ratings.
    pub(super) unread_rating: Option<usize>,
}

impl Columns {
    /// The value of the current record; NaN for a missing one of a table in memory, where libraries do not tell the two apart.
    pub(super) fn value(self, table: &Table<'_>) -> Result<f32> {
        let read = match table.is_in_memory() {
            true => Table::number_or_missing,
            false => Table::number,
        };
        let rating = self.rating;
        rating.map_or(Ok(1.0), |at| read(table, at, ColumnRole::Rating))
    }

    fn by_position(table: &Table<'_>) -> Result<Self> {
        let found = table.n_fields();
        if !matches!(found, 3 | 4) {
            return Err(table.malformed(found.min(4), Expected::ThreeOrFourFields { found }));
        }
        Ok(Self {
            user: Some(0),
            item: 1,
            rating: Some(2),
            unread_rating: None,
        })
    }

    fn from_header(
        table: &Table<'_>,
        format: &RatingsFormat,
        user_is_optional: bool,
    ) -> Result<Self> {
        let columns = &format.columns;
        let named = [&columns.user, &columns.item, &columns.rating];
        let header = Header::read(table)?.knowing(named.into_iter().flatten());
        let rating = || header.find(ColumnRole::Rating, columns.rating.as_deref());
        let user = header.find(ColumnRole::User, columns.user.as_deref());
        let found = Self {
            user: if user_is_optional {
                user.ok()
            } else {
                Some(user?)
            },
            item: header.find(ColumnRole::Item, columns.item.as_deref())?,
            rating: (!format.without_ratings).then(rating).transpose()?,
            unread_rating: match format.without_ratings {
                true => header.find_ratings(),
                false => None,
            },
        };
        found.refuse_shared(&header)?;
        Ok(found)
    }

    /// Rejects a column that would be used for two roles: with one user per item, the data would
    /// belong to nobody.
    fn refuse_shared(self, header: &Header<'_, '_>) -> Result<()> {
        let all = [
            (ColumnRole::User, self.user),
            (ColumnRole::Item, Some(self.item)),
            (ColumnRole::Rating, self.rating),
        ];
        for (n, &(role, at)) in all.iter().enumerate() {
            let earlier = all[..n]
                .iter()
                .find(|(_, other)| at.is_some() && *other == at);
            if let (Some(&(other, _)), Some(at)) = (earlier, at) {
                return Err(header.shared(at, [other, role]));
            }
        }
        Ok(())
    }
}

/// The first line of a table, interpreted as column names.
pub(super) struct Header<'t, 'a> {
    table: &'t Table<'a>,
    names: Vec<String>,
    /// The first position of each name, and how often it occurs.
    places: HashMap<String, (usize, usize)>,
    /// Whether the names may be shown, because the line is certainly a header and not a record.
    is_sure: bool,
    /// Whether the caller can say which columns to read.
    can_be_named: bool,
}

impl<'t, 'a> Header<'t, 'a> {
    pub(super) fn read(table: &'t Table<'a>) -> Result<Self> {
        let names = table.names()?;
        let mut places = HashMap::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            places.entry(name.clone()).or_insert((at, 0)).1 += 1;
        }
        let roles = [
            ColumnRole::User,
            ColumnRole::Item,
            ColumnRole::Rating,
            ColumnRole::Target,
        ];
        // a single letter may also be a value
        let usual = roles
            .into_iter()
            .flat_map(usual_names)
            .filter(|usual| usual.len() > 1);
        let is_usual = |name: &String| usual.clone().any(|usual| name.eq_ignore_ascii_case(usual));
        Ok(Self {
            table,
            is_sure: table.has_schema() || names.iter().any(is_usual),
            can_be_named: true,
            names,
            places,
        })
    }

    /// The same for a table whose columns have fixed names.
    pub(super) fn fixed(mut self) -> Self {
        self.can_be_named = false;
        self
    }

    /// The same if the operator gave these names: a line that contains one of them is a header.
    pub(super) fn knowing<'n>(mut self, named: impl IntoIterator<Item = &'n String>) -> Self {
        self.is_sure |= named.into_iter().any(|name| self.places.contains_key(name));
        self
    }

    /// The column called `name`, or otherwise the one with a usual name for this role.
    ///
    /// A first line that contains a number is a record rather than a header, and the error must not
    /// show it.
    pub(super) fn find(&self, role: ColumnRole, name: Option<&str>) -> Result<usize> {
        let found = match name {
            Some(name) => self.places.get(name).map(|&(at, _)| at),
            None => self.find_usual(role),
        };
        found.ok_or_else(|| {
            let is_number = |n: &String| parse_number(n.as_bytes()).is_some();
            let first_number = self.names.iter().position(is_number);
            if let Some(column) = first_number.filter(|_| !self.table.has_schema()) {
                return self.table.malformed(column, Expected::Header);
            }
            self.unknown(role, name)
        })
    }

    /// The same, for a column that must occur exactly once.
    pub(super) fn find_once(&self, role: ColumnRole, name: Option<&str>) -> Result<usize> {
        let at = self.find(role, name)?;
        match self.places.get(&self.names[at]) {
            Some((_, 1)) => Ok(at),
            _ => Err(self.unknown(role, name)),
        }
    }

    /// All columns except these; there must be at least one, and no two with the same name.
    pub(super) fn all_but(&self, others: [Option<usize>; 2]) -> Result<Vec<usize>> {
        let kept: Vec<usize> = (0..self.names.len())
            .filter(|&at| !others.contains(&Some(at)))
            .collect();
        for &at in &kept {
            self.find_once(ColumnRole::Feature, Some(&self.names[at]))?;
        }
        match kept.as_slice() {
            [] => Err(self.unknown(ColumnRole::Feature, None)),
            _ => Ok(kept),
        }
    }

    /// Whether there is a column called `name`, or with a usual name for this role.
    pub(super) fn has(&self, role: ColumnRole, name: Option<&str>) -> bool {
        self.names
            .iter()
            .any(|n| Some(n.as_str()) == name || is_usual_column(n, role))
    }

    /// The name of a column.
    pub(super) fn name(&self, at: usize) -> &str {
        &self.names[at]
    }

    /// The first usual name that occurs in the header; none if two columns could be meant, because
    /// a wrong user column would protect the wrong unit.
    fn find_usual(&self, role: ColumnRole) -> Option<usize> {
        if self
            .names
            .iter()
            .filter(|n| is_usual_column(n, role))
            .count()
            > 1
        {
            return None;
        }
        usual_names(role).iter().find_map(|usual| {
            self.names
                .iter()
                .position(|n| n.eq_ignore_ascii_case(usual))
        })
    }

    /// The first column whose name ends in a word for ratings, or its plural, as a word:
    /// `my_rating`, `movieRating` or `Stars`, but not `rating_time` or `operating`.
    fn find_ratings(&self) -> Option<usize> {
        let is_alike = |name: &String| {
            WORDS_FOR_RATINGS.iter().any(|usual| {
                let singular = name.trim_end_matches(['s', 'S']);
                let Some(at) = singular.len().checked_sub(usual.len()) else {
                    return false;
                };
                let (Some(before), Some(end)) = (singular.get(..at), singular.get(at..)) else {
                    return false;
                };
                let starts_word = before
                    .chars()
                    .next_back()
                    .is_none_or(|c| !c.is_alphanumeric())
                    || end.starts_with(char::is_uppercase);
                starts_word && end.eq_ignore_ascii_case(usual)
            })
        };
        self.names.iter().position(is_alike)
    }

    /// The error for a column that would be used for two roles.
    pub(super) fn shared(&self, at: usize, roles: [ColumnRole; 2]) -> Error {
        Error::SharedColumn {
            path: self.table.name().to_owned(),
            name: self.name(at).to_owned(),
            roles,
        }
    }

    fn unknown(&self, role: ColumnRole, name: Option<&str>) -> Error {
        let is_meant = |found: &&String| match name {
            Some(name) => *found == name,
            None => is_usual_column(found, role),
        };
        Error::UnknownColumn {
            is_ambiguous: self.names.iter().filter(is_meant).count() > 1,
            can_be_named: self.can_be_named,
            path: self.table.name().to_owned(),
            line: self.table.line_number(),
            role,
            looked_for: name.map_or_else(
                || usual_names(role).iter().map(ToString::to_string).collect(),
                |name| vec![name.to_owned()],
            ),
            n_columns: self.names.len(),
            header: self.is_sure.then(|| self.names.clone()),
        }
    }
}

/// Whether a column of this name is read without being named.
#[must_use]
pub fn is_usual_column(name: &str, role: ColumnRole) -> bool {
    let mut usual = usual_names(role).iter();
    usual.any(|usual| name.eq_ignore_ascii_case(usual))
}

/// Names of columns that look like ratings.
const WORDS_FOR_RATINGS: [&str; 8] = [
    "rating",
    "score",
    "star",
    "grade",
    "mark",
    "bewertung",
    "bewertungen",
    "sterne",
];

const fn usual_names(role: ColumnRole) -> &'static [&'static str] {
    match role {
        ColumnRole::User => &["user", "userId", "user_id"],
        ColumnRole::Item => &["item", "itemId", "item_id", "movieId", "movie_id"],
        ColumnRole::Rating => &["rating"],
        ColumnRole::Title => &["title"],
        ColumnRole::Target => &["target", "label", "y"],
        ColumnRole::Feature => &["any other column"],
        ColumnRole::Genres => &["genres", "genre"],
        ColumnRole::Year => &["year"],
    }
}

fn detect(line: &[u8], needs_header: bool) -> Option<Layout> {
    let text = String::from_utf8_lossy(line);
    let is_record = |separator, n_fields: &[usize]| {
        let mut fields = text.trim_end_matches('\r').split(separator);
        !needs_header
            && n_fields.contains(&fields.clone().count())
            && fields.all(|field| parse_number(field.as_bytes()).is_some())
    };
    if is_record("::", &[3, 4]) {
        Some(Layout::DoubleColon)
    } else if line.contains(&b'\t') {
        Some(if is_record("\t", &[4]) {
            Layout::Tab
        } else {
            Layout::Tsv
        })
    } else {
        Some(match Separator::of_header(line)? {
            Separator::Semicolon => Layout::Semicolons,
            _ => Layout::Csv,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_decides_the_layout() {
        let table = [
            ("1::1193::5::978300760", Some(Layout::DoubleColon)),
            ("u::i::0.5", None),
            ("1::1193::4.5", Some(Layout::DoubleColon)),
            ("196\t242\t3\t881250949", Some(Layout::Tab)),
            ("196\t242\t3\t881250949\r", Some(Layout::Tab)),
            ("it242\tus196\t3\t881250949", Some(Layout::Tsv)),
            ("196\t242\t3", Some(Layout::Tsv)),
            ("user\titem\trating", Some(Layout::Tsv)),
            ("1\t2", Some(Layout::Tsv)),
            ("userId,movieId,rating,timestamp", Some(Layout::Csv)),
            ("a::b,user,x::y", Some(Layout::Csv)),
            ("user::item::rating", None),
            ("user;item;rating", Some(Layout::Semicolons)),
            ("user item rating", None),
        ];
        for (line, layout) in table {
            assert_eq!(detect(line.as_bytes(), false), layout, "{line}");
        }
    }

    #[test]
    fn named_columns_ask_for_a_header() {
        assert_eq!(detect(b"a\tb\t3", true), Some(Layout::Tsv));
        assert_eq!(detect(b"a::b::3", true), None);
    }
}
