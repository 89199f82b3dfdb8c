//! The style sheets: two palettes, one layout from 400 to 1400 pixels.

use crate::chart::N_COLORS;

/// Colours by name. The tests check the contrast required by WCAG 2.2.
type Palette = [(&'static str, &'static str); 18];

const LIGHT: Palette = [
    ("paper", "#fbf9f5"),
    ("card", "#ffffff"),
    ("ink", "#1f1d1a"),
    ("soft", "#5b564e"),
    ("line", "#e2dcd1"),
    ("track", "#efeae1"),
    ("accent", "#0a6763"),
    ("alarm", "#a3192f"),
    ("alarm-tint", "#fbeaea"),
    ("rest", "#d6cfc2"),
    ("c0", "#0a6763"),
    ("c1", "#b4540a"),
    ("c2", "#6b4fa0"),
    ("c3", "#1f61a6"),
    ("c4", "#a3335c"),
    ("c5", "#5f7a1f"),
    ("c6", "#8f6b00"),
    ("c7", "#757064"),
];

const DARK: Palette = [
    ("paper", "#14171a"),
    ("card", "#1b1f23"),
    ("ink", "#ece8df"),
    ("soft", "#aaa59a"),
    ("line", "#31363b"),
    ("track", "#23282d"),
    ("accent", "#63cdc2"),
    ("alarm", "#ff9aa5"),
    ("alarm-tint", "#33191d"),
    ("rest", "#3a4046"),
    ("c0", "#4fbdb2"),
    ("c1", "#f2a35c"),
    ("c2", "#b8a1ee"),
    ("c3", "#7fb4f0"),
    ("c4", "#f08bb0"),
    ("c5", "#b5cf6b"),
    ("c6", "#e6c34d"),
    ("c7", "#97928a"),
];

/// The style sheet of a page, with colours as variables.
pub(crate) fn page_sheet() -> String {
    let set = |palette: &Palette| {
        let pairs = palette
            .iter()
            .map(|(name, color)| format!("--{name}:{color}"));
        pairs.collect::<Vec<_>>().join(";")
    };
    format!(
        ":root{{color-scheme:light dark;{}}}\n@media (prefers-color-scheme:dark){{:root{{{}}}}}\n{PAGE}{CHART}{}",
        set(&LIGHT),
        set(&DARK),
        series()
    )
}

/// The style sheet of a chart in a separate file, without variables, because many programs that
/// show SVG do not support them.
pub(crate) fn chart_sheet() -> String {
    let sheet = format!("{FILE}{CHART}{}", series());
    let with = |palette: &Palette| {
        palette.iter().fold(sheet.clone(), |sheet, (name, color)| {
            sheet.replace(&format!("var(--{name})"), color)
        })
    };
    let (light, dark) = (with(&LIGHT), with(&DARK));
    format!("{light}@media (prefers-color-scheme:dark){{\n{dark}}}\n")
}

/// Rules for the colour of each series.
fn series() -> String {
    let rule = |at: usize| {
        format!(
            ".line.c{at},.mark.c{at},.error.c{at}{{stroke:var(--c{at})}}\
             .fill.c{at},.mark.c{at},.area.c{at},.name.c{at}{{fill:var(--c{at})}}\n"
        )
    };
    let rules: String = (0..N_COLORS).map(rule).collect();
    rules + ".mark.open{fill:var(--card)}\n.fill.below{fill:var(--c1)}\n"
}

/// Layout and type of a page.
const PAGE: &str = include_str!("page.css");
/// Shapes and text of a plot.
const CHART: &str = include_str!("chart.css");
/// Additional rules for a separate file.
const FILE: &str = "svg{font:13px ui-sans-serif,system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif}
text{fill:var(--ink)}
.card{fill:var(--card)}
.title{font-size:16px;font-weight:600}
.below{fill:var(--soft);font-size:12.5px}
.value{font-variant-numeric:tabular-nums}
";

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of `#rrggbb`, WCAG 2.2.
    fn luminance(color: &str) -> f64 {
        let channel = |at: usize| {
            let byte = u8::from_str_radix(&color[at..at + 2], 16).unwrap();
            let v = f64::from(byte) / 255.0;
            if v <= 0.04045 {
                v / 12.92
            } else {
                ((v + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(palette: &Palette, a: &str, b: &str) -> f64 {
        let of = |name: &str| luminance(palette.iter().find(|(n, _)| *n == name).unwrap().1);
        let (a, b) = (of(a), of(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn contrast_is_known_for_black_on_white() {
        let mut palette = LIGHT;
        palette[0].1 = "#ffffff";
        palette[2].1 = "#000000";
        assert!((contrast(&palette, "ink", "paper") - 21.0).abs() < 1e-9);
    }

    #[test]
    fn words_and_shapes_can_be_told_from_what_is_behind_them() {
        for (name, palette) in [("light", &LIGHT), ("dark", &DARK)] {
            for (front, back, least) in [
                ("ink", "paper", 12.0),
                ("ink", "card", 12.0),
                ("soft", "paper", 4.5),
                ("soft", "card", 4.5),
                ("accent", "paper", 4.5),
                ("accent", "card", 4.5),
                ("alarm", "paper", 4.5),
                ("alarm", "alarm-tint", 4.5),
                ("c0", "rest", 2.0),
            ] {
                let found = contrast(palette, front, back);
                assert!(found >= least, "{name}: {front} on {back} is {found:.2}");
            }
            for at in 0..N_COLORS {
                // shapes against their background; names at the ends of lines are text
                for (back, least) in [("track", 3.0), ("card", 4.5)] {
                    let found = contrast(palette, &format!("c{at}"), back);
                    assert!(found >= least, "{name}: c{at} on {back} is {found:.2}");
                }
            }
        }
    }

    #[test]
    fn every_colour_that_is_used_is_in_both_palettes_and_nothing_is_loaded() {
        let sheets = [page_sheet(), chart_sheet()];
        for used in sheets[0].split("var(--").skip(1) {
            let name = used.split(')').next().unwrap();
            for palette in [&LIGHT, &DARK] {
                assert!(palette.iter().any(|(n, _)| *n == name), "{name}");
            }
        }
        assert!(!sheets[1].contains("var("));
        for sheet in sheets {
            assert!(!sheet.contains("url(") && !sheet.contains("@import") && !sheet.contains('<'));
            assert_eq!(sheet.matches('{').count(), sheet.matches('}').count());
        }
    }
}
