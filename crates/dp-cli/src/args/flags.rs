//! Command-line flags of the workflows, derived from the tables of their settings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches, value_parser};
use dp_personal::settings::{Kind, Setting, Settings, Source};

/// The settings of a workflow, and how its result is printed.
pub(crate) struct Flags<S> {
    pub(crate) settings: S,
    /// Whether one JSON object is printed instead of text.
    pub(crate) json: bool,
    /// Whether only the plan of the run is printed.
    pub(crate) plan: bool,
}

/// Whether these are settings of a run that spends budget, and therefore has a plan.
fn has_plan(table: &[Setting]) -> bool {
    table.iter().any(|setting| setting.name == "resume")
}

/// Whether these are settings of candidates, which train without features of items and without a prior.
fn has_candidates(table: &[Setting]) -> bool {
    table.iter().any(|setting| setting.name == "candidates")
}

/// Whether a setting is rejected in combination with candidates, which train without item features.
fn is_refused(setting: &Setting, table: &[Setting]) -> bool {
    let of_one_run = [
        "feature_cols",
        "min_items",
        "prior",
        "prior_is_public",
        "opt_in",
    ];
    of_one_run.contains(&setting.name) && has_candidates(table)
}

/// The help of a setting, without the method that is refused beside candidates.
fn help(setting: &Setting, table: &[Setting]) -> String {
    let text = super::with_flags(&setting.help(), |name| {
        let row = table.iter().find(|row| row.name == name);
        row.map(Setting::flag)
    });
    match setting.name == "method" && has_candidates(table) {
        true => text.replace(" am-ssp (features),", ""),
        false => text,
    }
}

impl<S: Settings> Args for Flags<S> {
    fn augment_args(mut command: Command) -> Command {
        let table = S::table();
        for setting in &table {
            command = command.arg(arg(setting, &table).hide(is_refused(setting, &table)));
        }
        for (group, members) in groups(&table) {
            command = command.group(
                ArgGroup::new(group)
                    .args(members)
                    .required(true)
                    .multiple(true), // flags that exclude each other declare this themselves
            );
        }
        let mut headings = table.iter().filter_map(|setting| setting.heading);
        let heading = headings.find(|heading| *heading == "Output");
        if has_plan(&table) {
            command = command.arg(
                Arg::new("plan")
                    .long("plan")
                    .action(ArgAction::SetTrue)
                    .help_heading(heading)
                    .help("Only print what the run will release and cost; reads and pays nothing"),
            );
        }
        command.arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help_heading(heading)
                .help("Print one JSON object instead of text"),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Settings> FromArgMatches for Flags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let unread = |error| clap::Error::raw(ErrorKind::ValueValidation, error);
        Ok(Self {
            settings: S::read(&Matches(matches)).map_err(unread)?,
            json: matches.get_flag("json"),
            plan: has_plan(&S::table()) && matches.get_flag("plan"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The settings given on the command line.
struct Matches<'a>(&'a ArgMatches);

impl Source for Matches<'_> {
    fn values(&self, setting: &Setting) -> Option<Vec<OsString>> {
        if setting.kind == Kind::Switch {
            return Some(vec![self.0.get_flag(setting.name).to_string().into()]);
        }
        let values = self.0.get_raw(setting.name)?;
        Some(values.map(OsString::from).collect())
    }
}

/// The groups of which one setting must be given, with the settings of each.
fn groups(table: &[Setting]) -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for setting in table {
        if let Some(group) = setting.one_of {
            groups.entry(group).or_default().push(setting.name);
        }
    }
    groups
}

/// Converts a setting to an argument.
fn arg(setting: &Setting, table: &[Setting]) -> Arg {
    let action = match (setting.kind, setting.is_list) {
        (Kind::Switch, _) => ArgAction::SetTrue,
        (_, true) => ArgAction::Append,
        (_, false) => ArgAction::Set,
    };
    let mut arg = Arg::new(setting.name)
        .help(help(setting, table))
        .help_heading(setting.heading)
        .action(action)
        .required(setting.is_required())
        .requires_all(setting.requires.iter().copied())
        .conflicts_with_all(setting.conflicts.iter().copied());
    if !setting.positional {
        arg = match setting.short {
            Some(letter) => arg.short(letter),
            None => arg.long(setting.key()),
        };
    }
    if let Some(alias) = setting.alias {
        arg = arg.alias(alias);
    }
    if let Some(default) = setting.default {
        arg = arg.default_value(default);
    }
    if let Some(delimiter) = setting.delimiter {
        arg = arg.value_delimiter(delimiter);
    }
    if setting.kind == Kind::Switch {
        return arg;
    }
    let name = setting.value_name.map(str::to_owned);
    arg = arg.value_name(name.unwrap_or_else(|| setting.name.to_uppercase()));
    match setting.kind {
        Kind::Number => arg
            .allow_hyphen_values(true)
            .value_parser(value_parser!(f64)),
        Kind::Whole => arg
            .allow_hyphen_values(true)
            .value_parser(value_parser!(u64)),
        Kind::Path => arg.value_parser(value_parser!(PathBuf)),
        Kind::Choice(words) => arg
            .hide_possible_values(true)
            .value_parser(PossibleValuesParser::new(words)),
        Kind::Text | Kind::Switch => arg,
    }
}
