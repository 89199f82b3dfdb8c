//! A strict check of an HTML page: stricter than browsers, which repair errors.

/// Elements without content.
const VOID: [&str; 2] = ["meta", "br"];
/// Shapes, which are self-closing.
const SHAPES: [&str; 4] = ["rect", "circle", "line", "path"];

/// Checks that every element is closed properly, every attribute is quoted, every name refers to
/// something, and nothing is loaded or run.
#[track_caller]
pub(crate) fn check(html: &str) {
    assert!(html.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
    let mut open: Vec<String> = Vec::new();
    let (mut ids, mut wanted) = (Vec::new(), Vec::new());
    let mut rest = &html["<!DOCTYPE html>".len()..];
    while let Some(at) = rest.find('<') {
        assert!(
            !rest[..at].contains('>'),
            "a stray > before {}",
            &rest[at..][..20]
        );
        let end = rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..at + end];
        rest = &rest[at + end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed out of turn");
            continue;
        }
        let closes_itself = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(
            name.chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()),
            "{name}"
        );
        assert!(
            !["script", "link", "img", "iframe", "object"].contains(&name),
            "{name}"
        );
        while let Some((key, after)) = attributes.split_once("=\"") {
            let key = key.trim();
            let (value, after) = after.split_once('"').expect("a quoted value ends");
            assert!(
                !key.starts_with("on") && !["src", "srcset", "action"].contains(&key),
                "{key}"
            );
            assert!(
                !value.contains("http") && !value.contains("NaN") && !value.contains("inf"),
                "{value}"
            );
            match key {
                "id" => ids.push(value),
                "aria-labelledby" => wanted.push(value),
                "href" => wanted.push(value.strip_prefix('#').expect("within the page")),
                _ => {}
            }
            attributes = after;
        }
        assert_eq!(
            attributes.trim(),
            "",
            "an attribute without value in <{tag}>"
        );
        assert_eq!(closes_itself, SHAPES.contains(&name), "<{tag}>");
        if name == "style" {
            rest = rest.split_once("</style>").expect("the style sheet ends").1;
        } else if !closes_itself && !VOID.contains(&name) {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    for name in &wanted {
        assert_eq!(ids.iter().filter(|id| *id == name).count(), 1, "#{name}");
    }
}
