"""Parses Swift code; fails at errors of syntax."""

import re
import sys

import tree_sitter
import tree_sitter_swift


def errors(node):
    if node.type == "ERROR" or node.is_missing:
        yield f"line {node.start_point[0] + 1}: {node.text[:60].decode()}"
    for child in node.children:
        yield from errors(child)


# The grammar does not know this attribute of the compiler.
text = re.sub(r"@_documentation\(.*?\)", "", open(sys.argv[1]).read())
found = list(errors(tree_sitter.Parser(tree_sitter.Language(tree_sitter_swift.language())).parse(text.encode()).root_node))
print(f"{sys.argv[1]}: {len(text.splitlines())} lines, {len(found)} errors", *found[:9], sep="\n")
sys.exit(bool(found))
