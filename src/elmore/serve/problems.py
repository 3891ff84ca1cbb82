"""Answers that are not 2xx: one line for people and a type for programs, in a single format."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from elmore.errors import ElmoreError
from elmore.serve.schemas import Problem, ProblemAnswer

TYPES = {
    400: "bad_request",
    401: "wrong_key",
    403: "wrong_site",
    404: "not_found",
    405: "wrong_method",
    408: "too_slow",
    413: "too_large",
    422: "invalid",
    429: "busy",
    500: "internal",
    503: "unavailable",
}

_UNREADABLE = "The body cannot be read: it is not UTF-8, nested too deep, or has an endless number."


class RefusedError(Exception):
    """A request that is answered with a problem."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers

    def answer(self) -> JSONResponse:
        problem = Problem(message=self.message, type=TYPES.get(self.status, "error"))
        content = ProblemAnswer(error=problem).model_dump()
        return JSONResponse(content, self.status, self.headers)


def too_large(what: str, found: int, most: int) -> RefusedError:
    return RefusedError(413, f"The request has {found:,} {what}; at most {most:,} are taken.")


def busy(seconds: int, problem: str = "The queue is full") -> RefusedError:
    message = f"{problem}; try again in {seconds} s."
    return RefusedError(429, message, {"Retry-After": str(seconds)})


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems of a route in the form of FastAPI's `responses`."""
    said: dict[int | str, dict[str, Any]] = {
        status: {"model": ProblemAnswer} for status in (*statuses, 403, 503)
    }
    seconds = {"description": "Seconds.", "schema": {"type": "integer"}}
    for status in said.keys() & {429, 503}:
        said[status]["headers"] = {"Retry-After": seconds}
    return said


def install(app: FastAPI) -> None:
    """Answer every kind of failure in this format."""
    for kind in (RefusedError, ElmoreError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _answer)


async def _answer(_: Request, error: Exception) -> JSONResponse:
    match error:
        case RefusedError():
            refused = error
        case ElmoreError():
            refused = RefusedError(422, str(error))
        case RequestValidationError():
            # Without the input itself, which may be long, secret or not valid Unicode.
            lines = dict.fromkeys(_line(found) for found in error.errors())
            refused = RefusedError(422, "; ".join(lines) + ".")
        case HTTPException(status_code=status, detail=detail, headers=headers):
            message = _UNREADABLE if status == 400 else f"{detail}."
            refused = RefusedError(status, message, dict(headers or {}))
        case _:
            refused = RefusedError(500, "The server failed; its log says how.")
    return refused.answer()


def _line(found: dict[str, Any]) -> str:
    if found["type"] == "json_invalid":
        return f"The body is not JSON: {found['ctx']['error']} at character {found['loc'][1]}"
    # Field names and positions, without the names that pydantic gives to parts of unions.
    parts = map(str, found["loc"][1:])
    place = ".".join(part for part in parts if part.replace("_", "").isalnum())
    if not place:
        return "The body should be a JSON object, sent as Content-Type: application/json"
    return f"{place}: {found['msg']}"
