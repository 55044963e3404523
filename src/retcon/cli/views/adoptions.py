"""A table that was taken over."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import count, slices
from retcon.cli.views.parts import STRONG, bullets, command, facts, stack, title
from retcon.flow.adopt import Adopted


def adopted_view(adopted: Adopted, env_option: str) -> RenderableType:
    """What is there, and what is to know about it."""
    adoption = adopted.adoption
    held = f"{slices(adoption.slices)} ({count(len(adoption.slices))} slices, {count(adopted.survey.rows)} rows)"
    told = ["nothing of the table was changed; how these slices were computed is unknown until they are restated"]
    return stack(
        [
            title("Adopted", Text(adoption.model, style=STRONG)),
            facts([("holds", held), ("at", f"snapshot {adoption.snapshot_id}"), ("why", adoption.reason)]),
            bullets([*told, *adopted.notes]),
            Text(),
            facts([("next", command(f"retcon plan {adoption.model}{env_option} --reason …"))]),
        ]
    )
