"""Untrusted values: the waiting times that servers request over HTTP, and the URLs in configs."""

from __future__ import annotations

import email.utils
import ipaddress
from urllib.parse import urlsplit

from grid.core.errors import ConfigError

PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""The HTTP statuses of failures that may be temporary.

409 (another request has the lock) and 425 (too early) ask for a retry. 520 to 524 come from a gateway (Cloudflare) that
cannot reach a server or waits too long for it. 529 means 'overloaded' at some providers.
"""


def retry_after(value: str | None, now: float) -> float:
    """The waiting time in seconds from a Retry-After header, given as a number or a date; 0 if it cannot be read.

    `now` is the current time, in seconds since 1970. A time that has passed also yields 0. The result may be infinite.
    """
    if not value:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - now
        except (ValueError, OverflowError):
            return 0.0
    return max(seconds, 0.0) if seconds == seconds else 0.0


def is_loopback(url: str) -> bool:
    """Whether a URL's host is this machine. Raises ValueError if the text is not a URL."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def plain_url(key: str, url: str, example: str) -> str:
    """The URL without slashes at its end. The error names `key`, and may show `example`.

    Raises:
        ConfigError: the URL is invalid, or has a user, a password, a query or a fragment; the error shows no user, no
            password and no query.
    """
    shown = url.rpartition("@")[2].partition("?")[0]
    allowed = f"a URL that begins with http:// or https://, such as {example}"
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        raise ConfigError(key, shown, allowed) from None
    if "@" in url or parts.query or parts.fragment:
        raise ConfigError(key, shown, "a URL without a user, a password, a query or a fragment")
    if not named:
        raise ConfigError(key, shown, allowed)
    return url.rstrip("/")
