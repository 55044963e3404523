"""What the doctor found, and what was mended."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import counted
from retcon.cli.views.parts import BAD, GOOD, QUIET, STRONG, bullets, facts, more, section, stack
from retcon.core.troubles import Trouble
from retcon.flow.doctor import Checkup

_PATHS = 5


def checkup_view(checkup: Checkup, *, repair: bool) -> RenderableType:
    """Each trouble with its meaning and its remedy; last, what was looked at."""
    return stack(
        [
            _repaired(checkup),
            *(_trouble(trouble, repair=repair) for trouble in checkup.troubles),
            Text() if checkup.troubles or checkup.repaired else None,
            _summary(checkup),
            *_looked_at(checkup),
        ]
    )


def _repaired(checkup: Checkup) -> RenderableType | None:
    if not checkup.repaired:
        return None
    lines = (Text.assemble(("✓ ", GOOD), f"{trouble.what}; it has it now") for trouble in checkup.repaired)
    return section("Repaired", bullets(lines))


def _trouble(trouble: Trouble, *, repair: bool) -> RenderableType:
    remedy = trouble.remedy if not trouble.repair or repair else f"--repair {trouble.repair}"
    paths = trouble.details[:_PATHS]
    return stack(
        [
            Text(),
            Text.assemble(("✗ ", BAD), (trouble.what, STRONG)),
            facts(
                [
                    ("  means", trouble.means),
                    ("  next", remedy),
                    *(("  file" if at == 0 else "", Text(path, style=QUIET)) for at, path in enumerate(paths)),
                ]
            ),
            *more(len(trouble.details) - len(paths), "file", "--json lists them"),
        ]
    )


def _summary(checkup: Checkup) -> Text:
    if checkup.troubles:
        return Text(f"{counted(len(checkup.troubles), 'trouble')} found", style=BAD)
    return Text("nothing is wrong", style=GOOD)


def _looked_at(checkup: Checkup) -> list[Text]:
    files = f"{counted(checkup.files, 'file')} of {counted(checkup.tables, 'table')}"
    looked = f"looked at {counted(checkup.runs, 'run')}, and for {files}"
    lines = [Text(looked, style=QUIET)]
    if checkup.files_left:
        lines.append(Text(f"{counted(checkup.files_left, 'more file')} with --files", style=QUIET))
    return lines
