"""A model's SQL as text, tokens and tree. What isn't one plain query is refused here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, TokenError

from retcon.project.readings import SqlProblem as SqlProblem
from retcon.project.sql.functions import function_name
from retcon.values import dataclass

DIALECT = "spark"

_QUERY_OPENINGS = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES, TokenType.L_PAREN})
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_BEFORE_TABLE = (None, TokenType.FROM, TokenType.JOIN, TokenType.COMMA, TokenType.L_PAREN)
_QUOTES = frozenset("'\"`")
_COMMENT_OR_BRACE = re.compile(r"--[^\n]*|/\*.*?\*/|(?P<jinja>\{#)", re.DOTALL)
# Spark goes on with a `--` comment after a backslash at the line's end; sqlglot doesn't
_CONTINUED_COMMENT = re.compile(r"--[^\n]*\\\n")
_CLASS_NAMES = re.compile(r"Required keyword: .* missing for .*")
_MISSING_QUOTE = re.compile(r"Missing (?P<quote>\S+) from (?P<line>\d+):")
_PLAIN_SQL = "write plain SQL; values come in as parameters, `:start_date` or one of `params` in retcon.yaml"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One query: the text that will run, its tokens, its tree."""

    text: str
    tokens: tuple[Token, ...]
    tree: exp.Query | exp.Values

    def line_of(self, node: exp.Expr, *keywords: str) -> int | None:
        """The line of the node, or of the keyword that introduces it."""
        starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
        if not starts:
            return self.line_of(node.parent) if node.parent else None
        start = min(starts)
        if keywords:
            start = max((t.start for t in self.tokens if t.start < start and t.text.upper() in keywords), default=start)
        return line_at(self.text, start)

    def line_of_parameter(self, name: str) -> int | None:
        """The line where `:name` first stands: sqlglot keeps no positions of parameters."""
        for colon, word in pairwise(self.tokens):
            if colon.token_type is TokenType.COLON and word.text == name:
                return line_at(self.text, colon.start)
        return None

    def word_of(self, function: exp.Expr) -> str:
        """The function's name as it is written, in lower case."""
        if "start" not in function.meta:
            return function_name(function)
        return self.text[function.meta["start"] : function.meta["end"] + 1].lower()

    @property
    def normalised(self) -> str:
        """The tokens alone, so that comments, hints, layout and the case of keywords don't count.

        Not generated from the tree: sqlglot's generator may change from one release to the next, and the tree
        knows fewer spellings than Spark knows functions.
        """
        identifiers = {node.meta["start"] for node in self.tree.find_all(exp.Identifier) if "start" in node.meta}
        pieces: list[str] = []
        for token, following in pairwise((*self.tokens, None)):
            if token is None or token.token_type is TokenType.HINT:
                continue
            written = self.text[token.start : token.end + 1]
            is_call = following is not None and following.token_type is TokenType.L_PAREN
            is_word = token.token_type is TokenType.VAR and not is_call
            keeps_case = not _QUOTES.isdisjoint(written) or is_word or token.start in identifiers
            pieces.append(written if keeps_case else written.upper())
        return " ".join(pieces)


def line_at(text: str, offset: int) -> int:
    """The line, from 1, in which this character stands."""
    return text.count("\n", 0, offset) + 1


def read_statement(text: str) -> Statement | SqlProblem:
    """The one query in the text, or why there is none."""
    if "${" in text:
        # Spark fills in ${env:…} and ${system:…} even inside strings, so secrets could end up in a table
        line = line_at(text, text.index("${"))
        return SqlProblem(message="`${…}` is templating, and this is plain SQL", line=line, remedy=_PLAIN_SQL)
    try:
        tokens = tuple(sqlglot.tokenize(text, read=DIALECT))
    except TokenError as error:
        return _unfinished(error)
    problem = _templating(text, tokens) or _not_one_query(text, tokens) or _unsupported_words(text, tokens)
    if problem:
        return problem
    if tokens[-1].token_type is TokenType.SEMICOLON:
        text, tokens = text[: tokens[-1].start], tokens[:-1]
    try:
        trees = sqlglot.Dialect.get_or_raise(DIALECT).parser().parse(list(tokens), text)
    except ParseError as error:
        return _unparsable(error)
    except RecursionError:
        return SqlProblem(message="the query is nested too deeply to be read", remedy="split it into several models")
    tree = trees[0]
    if not isinstance(tree, exp.Query | exp.Values):
        return _not_a_query("this" if tree is None else tree.key.upper(), 1)
    return Statement(text=text, tokens=tokens, tree=tree)


def _unfinished(error: TokenError) -> SqlProblem:
    match = _MISSING_QUOTE.search(str(error.__cause__))
    if match is None:
        return SqlProblem(message="a comment or a string doesn't end", remedy="close it")
    return SqlProblem(
        message=f"a {match['quote']} is opened and not closed", line=int(match["line"]), remedy="close it"
    )


def _unparsable(error: ParseError) -> SqlProblem:
    found = error.errors[0] if error.errors else {}
    near = f" near `{found['highlight'].strip()}`" if found.get("highlight") else ""
    column = f" (column {found['col']})" if found.get("col") else ""
    description = _CLASS_NAMES.sub("something is missing", found.get("description") or "not understood")
    return SqlProblem(
        message=f"this isn't Spark SQL{near}{column}: {description}",
        line=found.get("line"),
        remedy="correct the SQL; `spark-sql` says more about it",
    )


def _gaps(text: str, tokens: tuple[Token, ...]) -> Iterator[tuple[int, str]]:
    """What stands between tokens: blanks and comments."""
    at = 0
    for token in tokens:
        yield at, text[at : token.start]
        at = token.end + 1
    yield at, text[at:]


def _templating(text: str, tokens: tuple[Token, ...]) -> SqlProblem | None:
    found: list[int] = [token.start for token in tokens if token.token_type is TokenType.BLOCK_START]
    braces = [token.start for token in tokens if token.token_type is TokenType.L_BRACE]
    found += [first for first, second in pairwise(braces) if second == first + 1]
    for at, gap in _gaps(text, tokens):
        found += [at + match.start() for match in _COMMENT_OR_BRACE.finditer(gap) if match["jinja"]]
        continued = _CONTINUED_COMMENT.search(gap)
        if continued:
            return SqlProblem(
                message="a `--` comment ends in a backslash, so Spark takes the next line for a comment too",
                line=line_at(text, at + continued.start()),
                remedy="remove the backslash",
            )
    if not found:
        return None
    return SqlProblem(
        message=f"`{text[min(found) : min(found) + 2]}` is templating, and this is plain SQL",
        line=line_at(text, min(found)),
        remedy=_PLAIN_SQL,
    )


def _not_one_query(text: str, tokens: tuple[Token, ...]) -> SqlProblem | None:
    if not tokens:
        return SqlProblem(message="there is no query", remedy="write a SELECT")
    semicolons = [token for token in tokens if token.token_type is TokenType.SEMICOLON]
    if semicolons and semicolons[0] is not tokens[-1]:
        return SqlProblem(
            message="there are several statements; a model is one query",
            line=line_at(text, semicolons[0].start),
            remedy="keep one SELECT; what prepares its data is a model of its own",
        )
    opening = tokens[0]
    if opening.token_type not in _QUERY_OPENINGS:
        return _not_a_query(opening.text.upper(), line_at(text, opening.start))
    return None


def _not_a_query(word: str, line: int) -> SqlProblem:
    return SqlProblem(
        message=f"{word} isn't a query", line=line, remedy="write a SELECT; retcon makes and fills the table"
    )


def _unsupported_words(text: str, tokens: tuple[Token, ...]) -> SqlProblem | None:
    for position, token in enumerate(tokens):
        following = tokens[position + 1].token_type if position + 1 < len(tokens) else None
        previous = tokens[position - 1].token_type if position else None
        if token.token_type is TokenType.PIPE_GT:
            message, remedy = "pipe syntax `|>` isn't supported", "write it as a SELECT"
        elif token.token_type is TokenType.WITH and following is TokenType.L_PAREN:
            message = "options on a table, `WITH (…)`, aren't supported"
            remedy = "remove them; retcon says how an input is read"
        elif token.token_type is TokenType.TABLE and following in _NAMES and previous in _BEFORE_TABLE:
            message, remedy = "`TABLE name` isn't supported", "write `SELECT * FROM name` instead"
        else:
            continue
        return SqlProblem(message=message, line=line_at(text, token.start), remedy=remedy)
    return None
