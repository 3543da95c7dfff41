"""The embedded reference model, offered by name to every pipeline."""

from pathlib import Path

from outrider import hookimpl

_HERE = Path(__file__).parent


@hookimpl
def outrider_models() -> dict[str, Path]:
    """The target with its MTP head, and the DFlash2 drafter trained for it."""
    return {
        "outrider-nano": _HERE / "outrider-nano-q8_0.gguf",
        "outrider-nano-dflash2": _HERE / "outrider-nano-dflash2-q8_0.gguf",
    }
