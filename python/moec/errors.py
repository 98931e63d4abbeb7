"""What goes wrong, in the compiler's own words."""
import json


class Error(Exception):
    """Any of the two below."""


class CompileError(Error):
    """The text is refused, or there is no code. `diagnostics` has each message with file, line and column."""

    def __init__(self, text, details=None):
        super().__init__(text.rstrip("\n"))
        self.diagnostics = json.loads(details)["diagnostics"] if details else []


class CallError(Error, ValueError):
    """A call is refused; `status` is its moe_status."""

    def __init__(self, text, status=0):
        super().__init__(text)
        self.status = status
