//! Colours of the terminal. They say again what the words say: without them nothing is lost.
//!
//! Standard output and standard error take them off where they are no terminals, and where `NO_COLOR` is set.

use anstyle::{AnsiColor, Style};

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const CARE: Style = AnsiColor::Yellow.on_default().bold();
const ADVICE: Style = AnsiColor::Cyan.on_default().bold();
const FIGURE: Style = Style::new().bold();
const LESS: Style = Style::new().dimmed();

/// A summary, line by line: its figure of privacy in bold, verdicts by what they say, and what must not be published as such.
pub(crate) fn summary(text: &str) -> String {
    text.split_inclusive('\n').map(summary_line).collect()
}

fn summary_line(whole: &str) -> String {
    let line = whole.trim_end_matches('\n');
    let end = &whole[line.len()..];
    if line.starts_with("NOT PRIVATE") || line.starts_with("REFUTED") {
        return format!("{}{end}", in_style(BAD, line));
    }
    if line.starts_with("internal, ") {
        return format!("{}{end}", in_style(CARE, line));
    }
    let Some((name, gap, value)) = fact(line) else {
        return with_bar(line) + end;
    };
    let value = match name {
        "private" | "will cost" | "left" => {
            let first = value.find([',', ';']).unwrap_or(value.len());
            in_style(GOOD, &value[..first]) + &value[first..]
        }
        "verdict" => in_style(style_of_verdict(value), value),
        "internal" => in_style(CARE, value),
        _ => value.to_owned(),
    };
    format!("{}{gap}{value}{end}", in_style(FIGURE, name))
}

/// Name, gap and value of a line of facts: a short name at the left edge, two spaces or more, and the value.
fn fact(line: &str) -> Option<(&str, &str, &str)> {
    const NAMES: [&str; 8] = [
        "private",
        "will cost",
        "left",
        "verdict",
        "internal",
        "written to",
        "model",
        "ledger",
    ];
    let name = NAMES.into_iter().find(|name| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with("  "))
    })?;
    let rest = &line[name.len()..];
    let value = rest.trim_start_matches(' ');
    Some((name, &rest[..rest.len() - value.len()], value))
}

fn style_of_verdict(value: &str) -> Style {
    if value.starts_with("better") {
        GOOD
    } else if value.starts_with("do not ship") {
        BAD
    } else if value.starts_with("not shown") {
        CARE
    } else {
        Style::new()
    }
}

/// The bar at the end of a line of a table of the budget.
fn with_bar(line: &str) -> String {
    let words = line.trim_end_matches('#');
    if words.len() == line.len() || !words.ends_with("  ") {
        return line.to_owned();
    }
    words.to_owned() + &in_style(AnsiColor::Green.on_default(), &line[words.len()..])
}

/// A line of standard error, by the word that it begins with.
pub(crate) fn message(line: &str) -> String {
    let styles = [
        ("error:", BAD),
        ("warning:", CARE),
        ("hint:", ADVICE),
        ("note:", LESS),
    ];
    for (word, style) in styles {
        if let Some(rest) = line.strip_prefix(word) {
            return in_style(style, word) + rest;
        }
    }
    line.to_owned()
}

fn in_style(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left where colours are taken off.
    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn styles_add_nothing_but_styles() {
        let text = "private      epsilon 1.0000, delta 1e-5, add or remove one user\n\
                    verdict      do not ship this: user mean is better\n\
                    NOT PRIVATE  the noise is seeded\n\
                    internal, not covered by the guarantee: do not publish\n\
                    \u{20}   item counts   9.04    3.0 %  #\n\
                    last line without an end";
        let styled = summary(text);
        assert_eq!(plain(&styled), text);
        let lines: Vec<&str> = styled.lines().collect();
        assert!(
            lines[..5].iter().all(|line| line.contains("\u{1b}[")),
            "{styled:?}"
        );
        assert!(lines[0].contains(&in_style(GOOD, "epsilon 1.0000")));
        assert!(lines[1].contains(&in_style(BAD, "do not ship this: user mean is better")));
        assert_eq!(lines[5], "last line without an end");
        for line in ["error: no", "warning: x", "hint: y", "note: z"] {
            assert_eq!(plain(&message(line)), line);
            assert!(message(line).contains("\u{1b}["));
        }
        assert_eq!(message("features: a"), "features: a");
    }
}
