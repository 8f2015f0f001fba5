"""A site's own templates: used where they are right, named with their line where they are not."""

from pathlib import Path

import pytest
from jinja2.exceptions import SecurityError

from slurm_ext.cli import main
from slurm_ext.history.store.store import open_history
from slurm_ext.report.render import _environment
from tests.report.conftest import site


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The folder of a site's templates, named in its settings."""
    folder = tmp_path / "templates"
    folder.mkdir()
    open_history(tmp_path / "history.db").close()
    site(tmp_path, settings=f'[report]\ntemplates = "{folder}"\n')
    return folder


def page(own: Path, form: str = "html") -> str:
    """The report as the site has it."""
    output = own.parent / f"report.{form}"
    config = str(own.parent / "dlqueue.toml")
    assert main(["report", "--config", config, "--output", str(output)]) == 0
    return output.read_text(encoding="utf-8")


def test_one_section_may_be_the_sites(own: Path) -> None:
    """By its key; the others stay ours."""
    (own / "energy.html.jinja").write_text("<p>{{ section.answer }} by {{ report.cluster }}</p>")
    text = page(own)
    assert "<p>not measured by cluster</p>" in text
    assert '<section id="waste"' in text
    assert '<section id="energy"' not in text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("<p>\n{{ nobody }}\n</p>", 2),
        ("<p>\n\n{% if %}", 3),
        ("{{ 1 / 0 }}", 1),
        ("\n{{ section.answer | no_such_filter }}", 2),
        ("\n\n\n{% include 'elsewhere' %}", 4),
        ("{{ section.__class__.__mro__[99] }}", 1),
    ],
)
def test_an_error_is_named_with_its_line(
    own: Path, text: str, line: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr and in the page; ours stands in, and the rest is whole."""
    (own / "energy.html.jinja").write_text(text)
    (own / "ledger.html.jinja").write_text("<p>the site's own</p>")
    made = page(own)
    told = capsys.readouterr().err
    assert f"energy.html.jinja:{line}: " in told
    assert "ours stands in" in told
    assert '<section id="energy"' in made
    assert "<p>the site's own</p>" in made  # noqa: RUF100
    assert "Template not used" in made


def test_what_is_no_text_is_named(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A picture, or a folder without leave to read."""
    (own / "table.html.jinja").write_bytes(b"\x89PNG\xff\xfe")
    assert '<section id="energy"' in page(own)
    assert "table.html.jinja:1: " in capsys.readouterr().err


def test_several_faults_are_all_named(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other is found."""
    for name in ("page.html", "section.html", "style.css"):
        (own / f"{name}.jinja").write_text("\n{{ nobody }}")
    assert '<section id="energy"' in page(own)
    told = capsys.readouterr().err
    assert [f"{name}.jinja:2" in told for name in ("page.html", "section.html", "style.css")] == [
        True
    ] * 3


def test_a_name_that_is_none_of_ours_is_told(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typo is not silently without effect; a site's own parts begin with `_`."""
    (own / "wast.html.jinja").write_text("<p></p>")
    (own / "_part.jinja").write_text("a part")
    (own / "waste.html.jinja").write_text("<p>{% include 'report/_part.jinja' %}</p>")
    assert "<p>a part</p>" in page(own)
    told = capsys.readouterr().err
    assert "wast.html.jinja: stands in for no template of ours: " in told
    assert "_part.jinja:" not in told


def test_markdown_may_be_the_sites(own: Path) -> None:
    """Any of our templates by its name."""
    (own / "page.md.jinja").write_text("{{ report.runs }} runs\n")
    assert page(own, "md") == "0 runs\n"


def test_a_folder_that_is_none(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is an error: a silent default would hide a typo."""
    own.rmdir()
    words = ["report", "--config", str(own.parent / "dlqueue.toml"), "--format", "html"]
    assert main(words) == 1
    assert "is no folder; report.templates names one" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "{{ section.__init__.__globals__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('touch PROOF') }}",
        "{{ '{0.__class__}'.format(section) }}",
        "{{ (report.sections | list).append(1) }}",
        "{{ range(10000000) | list }}",
        "{{ self.__init__ }}",
    ],
)
def test_a_template_reaches_nothing_but_the_report(
    own: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No class, no module, no change of what is told: the template is named, ours stands in."""
    proof = own.parent / "proof"
    (own / "energy.html.jinja").write_text(text.replace("PROOF", str(proof)))
    made = page(own)
    assert "energy.html.jinja:1: " in capsys.readouterr().err
    assert '<section id="energy"' in made
    assert not proof.exists()


def test_a_value_that_acts_is_not_called() -> None:
    """Methods of plain values, macros and ranges are; those of other values are not."""
    environment = _environment()
    path = Path("/nowhere")
    template = "{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}{{ twice('a'.upper()) }}{{ act }}"
    assert environment.from_string(template).render(act=len(range(3))) == "AA3"
    with pytest.raises(SecurityError):
        environment.from_string("{{ path.unlink() }}").render(path=path)
    with pytest.raises(SecurityError):
        environment.from_string("{{ act('x') }}").render(act=open)
