import ast
from pathlib import Path

import frostline

MOST_LINES = 60  # with signature and docstring


def test_no_function_outside_the_command_line_is_long():
    package = Path(frostline.__file__).parent
    long = [
        f"{path.relative_to(package)}:{node.lineno} {node.name}: {node.end_lineno - node.lineno + 1} lines"
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).parts[0] != "cli"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno + 1 > MOST_LINES
    ]
    assert not long, "; ".join(long)
