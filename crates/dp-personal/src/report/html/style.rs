//! The style sheet: two palettes, one layout from 400 to 1400 pixels.

/// Colours by name. The tests hold them to the contrast that WCAG 2.2 asks for.
type Palette = [(&'static str, &'static str); 14];

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
    ("c3", "#807a6e"),
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
    ("c3", "#97928a"),
];

/// The whole sheet.
pub(super) fn style() -> String {
    let set = |palette: &Palette| {
        let pairs = palette
            .iter()
            .map(|(name, color)| format!("--{name}:{color}"));
        pairs.collect::<Vec<_>>().join(";")
    };
    format!(
        ":root{{color-scheme:light dark;{}}}\n@media (prefers-color-scheme:dark){{:root{{{}}}}}\n{SHEET}",
        set(&LIGHT),
        set(&DARK)
    )
}

const SHEET: &str = include_str!("style.css");

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
                ("c0", "track", 3.0),
                ("c1", "track", 3.0),
                ("c2", "track", 3.0),
                ("c3", "track", 3.0),
                ("c0", "card", 3.0),
                ("c1", "card", 3.0),
                ("c2", "card", 3.0),
                ("c3", "card", 3.0),
                ("c0", "rest", 2.0),
            ] {
                let found = contrast(palette, front, back);
                assert!(found >= least, "{name}: {front} on {back} is {found:.2}");
            }
        }
    }

    #[test]
    fn every_colour_that_is_used_is_in_both_palettes_and_nothing_is_loaded() {
        let sheet = style();
        for used in SHEET.split("var(--").skip(1) {
            let name = used.split(')').next().unwrap();
            for palette in [&LIGHT, &DARK] {
                assert!(palette.iter().any(|(n, _)| *n == name), "{name}");
            }
        }
        assert!(!sheet.contains("url(") && !sheet.contains("@import") && !sheet.contains('<'));
        assert_eq!(sheet.matches('{').count(), sheet.matches('}').count());
    }
}
