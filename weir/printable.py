r"""Names and messages of others, made fit to print: a line stays a line, a terminal obeys nobody.

A file may be called `a\x1b[2J`, and a peer may send any text. Printed as they are they clear
the screen, set its title or forge lines of output.
"""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# What turns the direction of the text that follows: the rest of a line would read as another.
_TURNS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})


def printable(text: str) -> str:
    r"""`text` with `\n`, `\x1b`, `\u202e` and the like in place of what a terminal acts on."""
    if text.isprintable():
        return text
    # Only here: nearly all text is printable, and every command waits for what is imported above.
    import unicodedata

    return "".join(_shown(character, unicodedata.category(character)) for character in text)


def sum_line(digest: str, name: bytes) -> str:
    """A file's hash as `b3sum` prints it, which `b3sum --check` reads.

    A backslash before the hash says that the name has escapes. `b3sum` has those of newline,
    carriage return and backslash only; what else a terminal acts on has some that it cannot read.
    """
    plain = name.decode("utf-8", "surrogateescape")
    shown = printable(plain.replace("\\", "\\\\"))
    mark = "" if shown == plain else "\\"
    return f"{mark}{digest}  {shown}"


def path_facts(path: bytes | None) -> dict[str, str | None]:
    r"""A path as machines are told it: its text as `path`, with `\xff` for a byte that is no UTF-8.

    Another name may have that text; where it is not the name itself, `path_hex` has the bytes.
    """
    if path is None:
        return {"path": None}
    try:
        return {"path": path.decode()}
    except UnicodeDecodeError:
        return {"path": path.decode("utf-8", "backslashreplace"), "path_hex": path.hex()}


def _shown(character: str, category: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character not in _TURNS and category not in _UNPRINTABLE:
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as `os.fsdecode` gives it
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
