//! Commands of a page.

use std::path::Path;

/// What a page asks for, in its order.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// A command, or a script of several lines.
    Run(String),
    /// A file whose content the page shows.
    File { name: String, content: String },
}

/// Steps of blocks marked `sh` (scripts), `text` or nothing (lines after `$ `), and `toml` (a file that its first
/// line names as `# NAME`).
pub(crate) fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for (language, block) in blocks(page) {
        match language {
            "sh" => steps.push(Step::Run(block.to_owned())),
            "toml" => steps.extend(named_file(block)),
            "text" | "" => steps.extend(session(block)),
            _ => {}
        }
    }
    steps
}

/// Language and content of every fenced block.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once("\n```") {
        let (language, after) = after.split_once('\n').expect("a fence ends its line");
        let (block, after) = after.split_once("```").expect("a block is closed");
        found.push((language.trim(), block));
        rest = after;
    }
    found
}

fn named_file(block: &str) -> Option<Step> {
    let name = block.lines().next()?.strip_prefix("# ")?;
    Some(Step::File {
        name: name.to_owned(),
        content: block.to_owned(),
    })
}

/// Commands after `$ `, continued by a backslash; `cat NAME` shows a file, whose lines follow.
fn session(block: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = block.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("$ ") else {
            continue;
        };
        let mut command = command.to_owned();
        while let Some(start) = command.strip_suffix('\\') {
            command = format!("{} {}", start.trim(), lines.next().unwrap_or("").trim());
        }
        match command.strip_prefix("cat ") {
            Some(name) => {
                let mut content = String::new();
                while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                    content.push_str(line);
                    content.push('\n');
                }
                let name = name.to_owned();
                steps.push(Step::File { name, content });
            }
            None => steps.push(Step::Run(command)),
        }
    }
    steps
}

/// Everything between single backticks outside of blocks.
pub(crate) fn spans(page: &str) -> Vec<String> {
    let mut inside = false;
    let mut prose = String::new();
    for line in page.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if !inside {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    // an odd backtick spoils its own paragraph only
    let paragraphs = prose.split("\n\n");
    let spans = paragraphs.flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    spans.map(str::to_owned).collect()
}

/// Pages of the repository, relative to its root.
pub(crate) fn pages(root: &Path) -> Vec<String> {
    let mut found = vec!["README.md".to_owned()];
    for folder in [
        "docs",
        "docs/tutorials",
        "docs/reference",
        "docs/roles",
        "crates/*",
    ] {
        let (folder, within) = match folder.strip_suffix("/*") {
            Some(folder) => (folder, "/README.md"),
            None => (folder, ""),
        };
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let page = format!("{folder}/{name}{within}");
            if page.ends_with(".md") && root.join(&page).is_file() {
                found.push(page);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_page_is_read_in_order() {
    let page = "# T\n\n```sh\na b\nc\n```\nsee `dp x`\n\n```text\n$ cat f\n1\n2\n$ d \\\n   e\nout\n```\n\n```toml\n# g\nk = 1\n```\n";
    let file = |name: &str, content: &str| Step::File {
        name: name.to_owned(),
        content: content.to_owned(),
    };
    let expected = [
        Step::Run("a b\nc\n".to_owned()),
        file("f", "1\n2\n"),
        Step::Run("d e".to_owned()),
        file("g", "# g\nk = 1\n"),
    ];
    assert_eq!(steps(page), expected);
    assert_eq!(spans(page), ["dp x"]);
}
