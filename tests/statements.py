"""A module's statements, for rules about the code: imports, functions and classes are among them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_HOLD_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


def statements(source: str) -> Iterator[ast.AST]:
    """All of them, however deep; what they are made of is most of a module, and is looked through by nobody who asks for these."""
    left: list[ast.AST] = [ast.parse(source)]
    while left:
        node = left.pop()
        yield node
        left += (one for one in ast.iter_child_nodes(node) if isinstance(one, _HOLD_STATEMENTS))
