"""`outrider template` and `outrider chat`."""

import click
from outrider import hookimpl


@hookimpl
def outrider_commands(group: click.Group) -> None:
    """Add the commands."""
    from outrider_chat.interactive import chat
    from outrider_chat.template import template

    group.add_command(template)
    group.add_command(chat)
