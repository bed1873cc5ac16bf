"""What a session is kept from: the value of `--settings`, and the addresses that its signal route is not proxied for.

Claude takes up settings files of the user, of the project and of this flag; the flag wins, key by key and variable by
variable, within a turn too (measured, claude 2.1.332). A subagent can write the project's files, so whatever there
names a command or an address is set here. Pure: what the user's own files hold is read by `settingsfiles`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from attrs import field, frozen

from hivesub.redaction.detection import url_secrets

HELPERS = (
    "apiKeyHelper",
    "awsAuthRefresh",
    "awsCredentialExport",
    "gcpAuthRefresh",
    "otelHeadersHelper",
    "proxyAuthHelper",
)
"""Keys that name a command which claude runs for its credentials, in a headless session too; "" is none (measured,
claude 2.1.332)."""

ADDRESSES = (
    "ALL_PROXY",
    "ANTHROPIC_AWS_BASE_URL",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_BEDROCK_MANTLE_BASE_URL",
    "ANTHROPIC_FOUNDRY_BASE_URL",
    "ANTHROPIC_FOUNDRY_RESOURCE",
    "ANTHROPIC_UNIX_SOCKET",
    "ANTHROPIC_VERTEX_BASE_URL",
    "CLAUDE_CODE_API_BASE_URL",
    "CLAUDE_CODE_ENABLE_TELEMETRY",
    "CLAUDE_CODE_HTTPS_PROXY",
    "CLAUDE_CODE_HTTP_PROXY",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_GATEWAY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_VERTEX",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "all_proxy",
    "http_proxy",
    "https_proxy",
)
"""Variables that say where claude sends its requests and their keys: what the user or the daemon's environment says
holds, else "", which is claude's default (measured, claude 2.1.332)."""

_BEDROCK = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL_STS")
_UNPROXIED = ("NO_PROXY", "no_proxy")


@frozen(kw_only=True)
class OwnSettings:
    """What the user's own settings say of the keys that are set here: `helpers` and `env`, the texts alone."""

    helpers: Mapping[str, str] = field(factory=dict, repr=False)
    env: Mapping[str, str] = field(factory=dict, repr=False)


@frozen(kw_only=True)
class Confinement:
    """`settings`: the JSON for `--settings`. `private`: it holds what must not stand in an argument list. `environ`:
    the child's environment with it.
    """

    settings: str = field(repr=False)
    private: bool
    environ: dict[str, str] = field(repr=False)


def confine(environ: Mapping[str, str], own: OwnSettings, *, hooks: bool, signal_url: str) -> Confinement:
    """Close what would reach a session from outside.

    No hooks, no messages of other sessions, no helper commands and no addresses but the user's own.

    :param environ: the child's.
    :param hooks: leave hooks to the user's settings, the project's and plugins'.
    :param signal_url: the host in it is reached without a proxy.
    """
    host = urlsplit(signal_url).hostname or ""
    names = ADDRESSES + (
        _BEDROCK if own.env.get("CLAUDE_CODE_USE_BEDROCK", environ.get("CLAUDE_CODE_USE_BEDROCK")) else ()
    )
    pinned = {name: own.env.get(name, environ.get(name, "")) for name in names}
    # A program reads one spelling or the other: where only one is there, it speaks for both.
    said = {name: own.env.get(name, environ.get(name)) for name in _UNPROXIED}
    either = next((text for text in said.values() if text is not None), "")
    unproxied = {name: _with_host(either if text is None else text, host) for name, text in said.items()}
    helpers = {name: own.helpers.get(name, "") for name in HELPERS}
    settings = {
        **({} if hooks else {"disableAllHooks": True}),
        "crossSessionInbound": "refuse",
        **helpers,
        "env": {**pinned, **unproxied},
    }
    # A helper's command line may hold the very key that it prints.
    private = any(helpers.values()) or any(url_secrets(text) for text in (*pinned.values(), *unproxied.values()))
    return Confinement(settings=json.dumps(settings), private=private, environ={**environ, **unproxied})


def _with_host(listed: str, host: str) -> str:
    entries = [entry.strip() for entry in listed.split(",") if entry.strip()]
    return ",".join(entries if not host or host in entries or "*" in entries else [*entries, host])
