//! Bar charts as SVG: a few lines of text, the same at every call.

use std::fmt::Write as _;

const LABEL: f64 = 190.0;
const BAR: f64 = 300.0;
const ROW: f64 = 22.0;
const TOP: f64 = 54.0;

/// Bars of non-negative numbers from the left, each with its number; a dash where there is none.
pub(crate) fn bars(title: &str, below: &str, rows: &[(String, Option<f64>)]) -> String {
    let largest = rows.iter().filter_map(|row| row.1).fold(0.0, f64::max);
    let (width, height) = (LABEL + BAR + 80.0, TOP + ROW * rows.len() as f64 + 14.0);
    let mut text = head([width, height], title, below);
    for (at, (name, value)) in rows.iter().enumerate() {
        let y = TOP + ROW * at as f64;
        let length = match value {
            Some(value) if largest > 0.0 => BAR * (value / largest).max(0.0),
            _ => 0.0,
        };
        let shown = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
        // writing to a string does not fail
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LABEL}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"15\" fill=\"#1f61a6\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{shown}</text>",
            LABEL - 8.0,
            y + 12.0,
            escaped(&shortened(name)),
            LABEL + length + 6.0,
            y + 12.0,
        );
    }
    text.push_str("</svg>\n");
    text
}

/// The beginning of a figure: its size, its title and a line below.
pub(super) fn head([width, height]: [f64; 2], title: &str, below: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"15\">{}</text>\n\
         <text x=\"12\" y=\"40\" fill=\"#555\" font-size=\"12\">{}</text>\n",
        escaped(title),
        escaped(below)
    )
}

/// A name that fits beside its bar.
fn shortened(name: &str) -> String {
    if name.chars().count() <= 26 {
        return name.to_owned();
    }
    name.chars().take(25).chain(['…']).collect()
}

/// Text as XML and HTML show it, in elements and in quoted attributes, without characters that they cannot hold.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' => safe.push('\n'),
            c if c.is_control() => safe.push('?'),
            // marks that turn the direction of what follows, and so could make one text look like another
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => safe.push('?'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_and_names_are_text() {
        let rows = [
            ("a<b & \"c\"\u{1}".to_owned(), Some(2.0)),
            ("half".to_owned(), Some(1.0)),
            ("x".repeat(40), None),
        ];
        let svg = bars("t", "b", &rows);
        assert!(svg.contains("a&lt;b &amp; &quot;c&quot;?"));
        assert!(svg.contains("width=\"300.0\"") && svg.contains("width=\"150.0\""));
        assert!(svg.contains(&format!("{}…", "x".repeat(25))) && svg.contains(">-</text>"));
        let empty = bars("t", "b", &[("zero".to_owned(), Some(0.0))]);
        assert!(empty.contains("width=\"0.0\"") && !empty.contains("NaN"));
    }

    #[test]
    fn no_character_of_a_name_is_markup() {
        let hostile = "<script>alert('x')</script>\" onload=\"y\" &amp; \u{1}\u{202e}";
        let safe = escaped(hostile);
        assert!(!safe.contains(['<', '>', '"', '\'', '\u{1}', '\u{202e}']));
        assert!(safe.starts_with("&lt;script&gt;alert(&#39;x&#39;)") && safe.contains("&amp;amp;"));
    }
}
