"""Draw a recording as a moving SVG: `python -m contrib.docs.terminal FILE.cast FILE.svg`.

The picture needs no script and no font of its own: CSS shows each piece of text when its time has
come, and begins again. Where motion is not wanted, or CSS does not move, all of it stands there.
A recording is drawn as it stands at its end: what a program writes over is not drawn twice.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import escape

LONGEST_PAUSE_S, LAST_S = 1.5, 8.0  # a wait is shortened to; the end stands for
ADVANCE, HEIGHT, LEFT, TOP = 8.43, 19, 16, 52  # of a character, of a line; first one's place
FOREGROUND = "#d8dee9"
# Of the codes of a terminal, 30 to 37 and 90 to 97.
COLOURS = ("#6b7689", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#eceff4")
STYLE = """\
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;\
white-space:pre;fill:#d8dee9}.b{font-weight:700}.n{fill:#8b96a8;text-anchor:middle}"""
_ESCAPE = re.compile(r"\x1b\[([\d;?]*)([A-Za-z])")


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one style that appears at once; row and column count from 0."""

    at_s: float
    row: int
    column: int
    text: str
    colour: str
    bold: bool


class Pen:
    """Where the next character goes, and how it looks."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self.row = self.column = 0
        self._colour, self._bold = FOREGROUND, False

    def write(self, at_s: float, text: str) -> Iterator[Piece]:
        """The pieces of what a terminal gets; lines wrap at its width."""
        end = 0
        for found in _ESCAPE.finditer(text):
            yield from self._plain(at_s, text[end : found.start()])
            if found[2] == "m":
                self._style(found[1])
            end = found.end()
        yield from self._plain(at_s, text[end:])

    def _plain(self, at_s: float, text: str) -> Iterator[Piece]:
        for part in re.findall(r"\n|[^\r\n]+", text):
            if part == "\n":
                self.row, self.column = self.row + 1, 0
                continue
            rest = part
            while rest:
                if self.column == self._columns:
                    self.row, self.column = self.row + 1, 0
                fits = rest[: self._columns - self.column]
                yield Piece(at_s, self.row, self.column, fits, self._colour, self._bold)
                self.column, rest = self.column + len(fits), rest[len(fits) :]

    def _style(self, codes: str) -> None:
        for code in map(int, (codes or "0").split(";")):
            if code == 0:
                self._colour, self._bold = FOREGROUND, False
            elif code == 1:
                self._bold = True
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self._colour = COLOURS[code % 10]


def pieces(recording: str) -> Iterator[Piece]:
    """Everything that a recording shows, with long pauses shortened."""
    head, *events = map(json.loads, recording.splitlines())
    pen = Pen(head["width"])
    now = before = 0.0
    for at_s, _, text in events:
        now += min(at_s - before, LONGEST_PAUSE_S)
        before = at_s
        yield from pen.write(round(now, 2), text)


def drawn(recording: str) -> str:
    """The picture of a recording."""
    head = json.loads(recording.partition("\n")[0])
    shown = [piece for piece in pieces(recording) if piece.text.strip()]
    times = sorted({piece.at_s for piece in shown})
    width = round(2 * LEFT + head["width"] * ADVANCE)
    height = TOP + HEIGHT * max(piece.row for piece in shown) + LEFT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(head['title'])}</title>",
            f"<style>{STYLE}",
            *_motion(times),
            "</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#1e2430"/>',
            *(
                f'<circle cx="{20 + 18 * at}" cy="18" r="6" fill="{colour}"/>'
                for at, colour in enumerate(("#e06c75", "#e5c07b", "#98c379"))
            ),
            f'<text class="n" x="{width // 2}" y="23">{escape(head["title"])}</text>',
            *(_group(times.index(at_s), here) for at_s, here in groupby(shown, lambda p: p.at_s)),
            "</svg>\n",
        ]
    )


def _motion(times: Iterable[float]) -> Iterator[str]:
    """A rule for each time: hidden until then, in every round."""
    times = list(times)
    whole = times[-1] + LAST_S
    yield "@media (prefers-reduced-motion:no-preference){"
    yield f"g{{animation:{whole:g}s step-end infinite}}"
    for number in range(len(times)):
        yield f".t{number}{{animation-name:k{number}}}"
    yield "}"
    for number, at_s in enumerate(times):
        share = 100 * at_s / whole
        yield f"@keyframes k{number}{{0%{{opacity:0}}{share:.2f}%{{opacity:1}}}}" if share else ""


def _group(number: int, here: Iterable[Piece]) -> str:
    """What appears at one time."""
    return f'<g class="t{number}">{"".join(map(_text, here))}</g>'


def _text(piece: Piece) -> str:
    text = piece.text.rstrip()
    blanks = len(text) - len(text.lstrip())
    x, y = LEFT + ADVANCE * (piece.column + blanks), TOP + HEIGHT * piece.row
    long = ADVANCE * (len(text) - blanks)
    weight = ' class="b"' if piece.bold else ""
    colour = "" if piece.colour == FOREGROUND else f' fill="{piece.colour}"'
    style = f' style="fill:{piece.colour}"' if colour else ""
    return (
        f'<text x="{x:.1f}" y="{y}" textLength="{long:.1f}"{weight}{style}>'
        f"{escape(text.lstrip())}</text>"
    )


def main() -> None:
    """Draw one file."""
    source, target = map(Path, sys.argv[1:])
    target.write_text(drawn(source.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
