"""Hooks of MkDocs: the decisions in the navigation, and links of the repository that are not pages of the site.

A link to a folder leads to its README.md, and a link to a source file to a page that shows the file. In code within a table, GitHub needs a
backslash before a vertical bar, and Python-Markdown would show it.
"""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?\)")
LANGUAGES = {".rs": "rust", ".py": "python", ".sh": "sh", ".toml": "toml"}
TABLE_ROW = re.compile(r"^\|.*$", re.M)
CODE = re.compile(r"`[^`]*`")
FENCE = "`" * 6


def linked_path(page: Path, target: str) -> Path | None:
    """The path within the repository that `target` on `page` names, if it exists."""
    if ":" in target:
        return None
    path = (ROOT / page.parent / target).resolve()
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) and path.exists() else None


def on_config(config):
    decisions = next(entry["Decisions"] for entry in config.nav if "Decisions" in entry)
    folder = Path(config.docs_dir) / "docs/decisions"
    decisions += sorted(f"docs/decisions/{page.name}" for page in folder.glob("0*.md"))


def on_files(files, config):
    sources = set()
    for file in list(files.documentation_pages()):
        for match in LINK.finditer(file.content_string):
            path = linked_path(Path(file.src_uri), match[2])
            if path and path.suffix in LANGUAGES and (ROOT / path).is_file():
                sources.add(path)
    for path in sorted(sources):
        code = (ROOT / path).read_text()
        content = f"# {path}\n\n{FENCE}{LANGUAGES[path.suffix]}\n{code}{FENCE}\n"
        files.append(File.generated(config, f"{path}.md", content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    def as_page(match):
        path = linked_path(Path(page.file.src_uri), match[2])
        target = match[2].rstrip("/")
        if path and (ROOT / path / "README.md").is_file():
            target += "/README.md"
        elif path and path.suffix in LANGUAGES:
            target += ".md"
        else:
            return match[0]
        return f"{match[1]}{target}{match[3] or ''})"

    markdown = LINK.sub(as_page, markdown)
    return TABLE_ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown)
