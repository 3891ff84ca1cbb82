"""The few kinds of error a user can cause. Each message is one line that says what was found,
where, what was expected and what to do; the command line prints it and exits with 2."""


class ElmoreError(Exception):
    """Something the user can mend; never a bug in the library. Messages quote files: a line end or
    a control character is shown as an escape."""

    def __init__(self, message: str):
        super().__init__("".join(c if c.isprintable() else _escape(c) for c in message))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


class ElmoreWarning(UserWarning):
    """Probably not what was meant; the command line prints it in one line."""


class InputError(ElmoreError):
    """The text or data given does not have the promised form."""


class FormatError(ElmoreError):
    """A model file is missing, damaged, or does not fit its companions."""


class ConfigError(ElmoreError):
    """A setting is unknown, out of range, or contradicts another."""
