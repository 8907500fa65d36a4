"""Problem objects (RFC 9457): what every refused HTTP request is answered with."""

from typing import Any

from weir.errors import WeirError

MEDIA_TYPE = "application/problem+json"


class Problem(WeirError):
    """A request that is answered with a problem object.

    `title` and `kind` are the same for every occurrence; `detail` names the value; `hint` says
    what to do; `extra` holds further members, such as the link that refused.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        title: str,
        detail: str,
        *,
        field: str | None = None,
        hint: str | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
        self.field = field
        self.hint = hint
        self.extra = extra

    def body(self) -> dict[str, Any]:
        """The JSON object of the answer."""
        return {
            "type": f"urn:weir:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "field": self.field,
            "hint": self.hint,
            **self.extra,
        }


def invalid(field: str | None, detail: str, hint: str | None = None) -> Problem:
    """A value that cannot be right (422)."""
    return Problem(
        422, "invalid-value", "A value in the request is wrong", detail, field=field, hint=hint
    )


def not_found(kind: str, name: str) -> Problem:
    """There is nothing of that name (404)."""
    return Problem(404, "not-found", f"No such {kind}", f'there is no {kind} "{name[:100]}"')


def unavailable(detail: str) -> Problem:
    """The service cannot answer now; the same request may be sent again (503)."""
    return Problem(
        503, "unavailable", "The calendar cannot answer now", detail, hint="try again shortly"
    )
