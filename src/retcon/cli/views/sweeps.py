"""What a sweep let go of, and what it kept."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import Zone, counted
from retcon.cli.views.parts import QUIET, bullets, name, prose, section, stack, table
from retcon.flow.sweep import Swept


def swept_view(swept: Swept, zone: Zone) -> RenderableType:
    """What went, or would go; then what stays, and until when."""
    if not swept.leftovers:
        return Text("nothing to sweep: no run left a branch, a tag or an old table", style=QUIET)
    return stack([_dropped(swept), _kept(swept, zone), _advice(swept)])


def _dropped(swept: Swept) -> RenderableType | None:
    if not swept.dropped:
        return None
    verb = "Would be dropped" if swept.is_dry else "Dropped"
    rows = [(each.table, each.kind.value, each.name, each.why) for each in swept.dropped]
    return section(verb, table((name("table"), name("kind"), name("name"), prose("why")), rows))


def _kept(swept: Swept, zone: Zone) -> RenderableType | None:
    if not swept.kept:
        return None
    rows = [(each.table, each.kind.value, each.name, zone.moment(each.until), each.why) for each in swept.kept]
    heads = (name("table"), name("kind"), name("name"), name(f"until ({zone.name})"), prose("why"))
    return section("Kept", table(heads, rows))


def _advice(swept: Swept) -> RenderableType:
    if swept.is_dry:
        return bullets([f"{counted(len(swept.dropped), 'thing')} would go; nothing was changed"])
    if not swept.dropped:
        return bullets(["nothing is old enough to go"])
    return bullets(["their files are freed when you next expire the tables' snapshots and remove orphan files"])
