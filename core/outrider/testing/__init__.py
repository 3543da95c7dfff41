"""The test kit for plugin authors.

- The `scripted` engine (`outrider.testing.engine`): a toy model with chosen statistics and costs
  on a virtual clock, whose recurrent state shows every wrong rollback.
- `make_pipeline`, `opened`, `decode_all`, `plain_tokens`: pipelines from a mapping, with
  components that need not be installed.
- Contract suites, one for each kind of component (`outrider.testing.contracts`): subclass one
  in a test module and name the component.
- Fixtures `scripted_pipeline` and `scripted`, known to pytest once Outrider is installed.
"""

from outrider.testing.harness import (
    SCRIPTED,
    decode_all,
    emitted,
    make_pipeline,
    module_offering,
    opened,
    plain_tokens,
    registry_offering,
)

__all__ = [
    "SCRIPTED",
    "decode_all",
    "emitted",
    "make_pipeline",
    "module_offering",
    "opened",
    "plain_tokens",
    "registry_offering",
]
