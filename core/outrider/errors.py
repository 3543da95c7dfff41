"""Errors meant for the person who reads them: what happened, where, and what to do."""

from __future__ import annotations


class OutriderError(Exception):
    """Base of every error that Outrider raises on purpose; shown without a traceback."""


class ConfigError(OutriderError):
    """A pipeline file, an option or an argument that cannot be used as it is."""


class PluginError(OutriderError):
    """A plugin that cannot be imported, registered or assembled."""


class ModelError(OutriderError):
    """A model file that is missing, damaged, or not the kind that was asked for."""


class LibraryError(OutriderError):
    """A llama.cpp library that is missing or is not the one the declarations describe."""


class EngineError(OutriderError):
    """llama.cpp refused or failed an operation."""


class LogitsError(EngineError):
    """A row of logits that no token can be chosen from: it contains NaN, or only -infinity."""


class RequestError(OutriderError):
    """A prompt or a request that cannot be served (empty, too long, malformed)."""
