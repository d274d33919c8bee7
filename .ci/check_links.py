"""Checks the book: every link, anchor and named function exists, every page is in SUMMARY.md, and Rust blocks hide no lines."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "docs"
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page):
    """The anchors of a page's headings, as mdBook and GitHub make them."""
    headings = re.findall(r"^#+ (.*)$", without_code(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def without_code(page):
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


def gone():
    """The functions of accepted mutants that are not in their files."""
    table = ROOT.parent / ".cargo/accepted-mutants.md"
    for file, mutants in re.findall(r"^\| `(src/[^`]*|crates/[^`]*)` \| (.*?) \|", table.read_text(), re.M):
        names = re.findall(r"`(?:[\w<>]+::)*(\w+)`:", mutants)
        text = (ROOT.parent / file).read_text()
        yield from (f"{table}: {file} has no function {name}" for name in names if not re.search(rf"fn {name}\b", text))


def main():
    pages = sorted(ROOT.rglob("*.md"))
    linked, errors = set(), []
    for page in [*pages, *ROOT.parent.glob("*.md")]:
        for link in LINK.findall(re.sub(r"`[^`\n]*`", "", without_code(page))):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if page in pages and not target.is_relative_to(ROOT):
                errors.append(f"{page}: {link} leaves the book")
            elif not target.exists():
                errors.append(f"{page}: {link} does not exist")
            elif anchor and anchor not in anchors(target):
                errors.append(f"{page}: {link} has no such heading")
            elif page.name == "SUMMARY.md":
                linked.add(target)
        # Readers copy what they see.
        blocks = re.findall(r"^```rust\n(.*?)^```", page.read_text(), re.M | re.S)
        errors += [f"{page}: hidden line in a Rust block" for block in blocks if re.search(r"^ *# ", block, re.M)]
    errors += [f"{page} is not in SUMMARY.md" for page in pages if page not in linked and page.name != "SUMMARY.md"]
    errors += gone()
    print("\n".join(errors) or f"{len(pages)} pages, all links exist")
    return bool(errors)


sys.exit(main())
