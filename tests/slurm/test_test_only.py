"""`sbatch --test-only`: what Slurm says of a job that is only asked about."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.errors import SlurmError
from slurm_ext.slurm import CommandClient, MemoryClient, StartEstimate
from slurm_ext.slurm.listing import FAR_S, MAX_CLAUSE, read_refusal, read_start

NOW_S = 1_795_260_000
SAID = "sbatch: Job 24 to start at {} using 2 processors on nodes n1 in partition main\n"


@pytest.fixture
def sbatch(tmp_path: Path) -> Path:
    """A program in sbatch's place: append shell to it."""
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def asked(sbatch: Path, script: str, *words: str) -> StartEstimate:
    """What a client makes of an sbatch that runs `script`."""
    sbatch.write_text(f"#!/bin/sh\n{script}\n")
    return CommandClient(bin_dir=str(sbatch.parent)).start_of(words or ("job.sh",), timeout_s=5)


def test_the_start_is_read_in_seconds() -> None:
    """Slurm is asked for Unix time, so that no time zone and no clock change can mislead."""
    assert read_start(SAID.format(NOW_S + 60), NOW_S) == StartEstimate(start_s=NOW_S + 60)


def test_the_start_is_read_as_each_release_writes_it() -> None:
    """26.05 has a word too many."""
    said = SAID.format(f"{NOW_S + 60} a")
    assert read_start(said, NOW_S) == StartEstimate(start_s=NOW_S + 60)


def test_a_heterogeneous_job_starts_with_its_last_part() -> None:
    """Each part has a line of its own."""
    both = SAID.format(NOW_S + 60) + SAID.format(NOW_S + 90)
    assert read_start(both, NOW_S) == StartEstimate(start_s=NOW_S + 90)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "names no time"),
        (SAID.format("Unknown"), "names no time"),
        (SAID.format(NOW_S + FAR_S + 1), "no time limit"),
        (SAID.format(34_005_629_268), "no time limit"),  # the year 3047, as 22.05 says it
    ],
)
def test_a_time_that_is_none_is_unknown_with_its_reason(said: str, why: str) -> None:
    """Accepted and not foretold is not the same as now."""
    start = read_start(said, NOW_S)
    assert (start.start_s, start.refused) == (None, None)
    assert why in (start.why or "")


@pytest.mark.parametrize(
    ("said", "clause"),
    [
        (
            "sbatch: unrecognized option '--frob=3'\nTry \"sbatch --help\" for more information\n",
            "unrecognized option '--frob=3'",
        ),
        (
            "allocation failure: Requested node configuration is not available\n",
            "no node has that many CPUs or GPUs, or that much memory",
        ),
        (
            "sbatch: error: x\nallocation failure: Invalid partition name specified\n",
            "the partition does not exist",
        ),
        (
            "sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.\n",
            "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive",
        ),
        (
            "sbatch: error: x\x1b[2J" + "y" * 500 + "\n",
            ("x[2J" + "y" * 500)[:MAX_CLAUSE],
        ),
    ],
)
def test_a_refusal_is_one_clause(said: str, clause: str) -> None:
    """Slurm's own words where there are no better ones, harmless to a terminal."""
    assert read_refusal(said) == StartEstimate(refused=clause)


@pytest.mark.parametrize(
    "said",
    [
        "allocation failure: Unable to contact slurm controller (connect failure)\n",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n",
        "sbatch: error: Unable to open file job.sh\n",
        "sbatch: error: If munged is up, restart with --num-threads=10\n",
        "Segmentation fault\n",
        "",
    ],
)
def test_trouble_of_another_kind_is_no_refusal(said: str) -> None:
    """A controller that is away says nothing about the job."""
    assert read_refusal(said) is None


@given(st.text(), st.integers(0, 10**12))
def test_any_words_are_read_without_a_fault(said: str, now_s: int) -> None:
    """The output comes partly from the site's own Lua."""
    start = read_start(said, now_s)
    assert (start.start_s is None) != (start.why is None)
    refused = read_refusal(said)
    assert refused is None or (refused.refused or "").isprintable()


def test_dlqueue_is_told_to_stay_away_whatever_the_script_exports(sbatch: Path) -> None:
    """DLQUEUE=off in the environment, which reaches job_submit.lua by --export=ALL."""
    check = (
        'test "$DLQUEUE $SLURM_TIME_FORMAT $*" = '
        '"off %s --test-only --export=ALL -c 4 job.sh --lr 1" || exit 1\n'
        f"printf '{SAID.format('4102444800')}' >&2"
    )
    start = asked(sbatch, check, "-c", "4", "job.sh", "--lr", "1")
    assert start == StartEstimate(why="a job before it has no time limit")


def test_an_accepted_question_and_a_refused_one(sbatch: Path) -> None:
    """By exit status, from stderr."""
    accepted = 't=$(($(date +%s) + 100)); echo "sbatch: Job 1 to start at $t using 1" >&2'
    assert asked(sbatch, accepted).start_s is not None
    refused = "echo 'allocation failure: Job violates accounting/QOS policy' >&2; exit 1"
    assert asked(sbatch, refused).refused == "job violates accounting/QOS policy"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'allocation failure: Unable to contact slurm controller' >&2; exit 1", "exit 1"),
        ("exec sleep 60", "no answer within 0.2 s"),
        ("kill -9 $$", "exit -9"),
    ],
)
def test_an_sbatch_that_cannot_say_is_one_error(sbatch: Path, script: str, words: str) -> None:
    """The caller handles SlurmError, which says what happened."""
    sbatch.write_text(f"#!/bin/sh\n{script}\n")
    client = CommandClient(bin_dir=str(sbatch.parent))
    with pytest.raises(SlurmError, match=words):
        client.start_of(("job.sh",), timeout_s=0.2 if "sleep" in script else 5)


def test_no_sbatch_and_no_word_are_errors_too(tmp_path: Path, sbatch: Path) -> None:
    """Neither a missing program nor a NUL byte in a file's name is a traceback."""
    with pytest.raises(SlurmError, match="sbatch is not here: install Slurm's client commands"):
        CommandClient(bin_dir=str(tmp_path / "none")).start_of(("job.sh",), timeout_s=1)
    with pytest.raises(SlurmError, match="null byte"):
        CommandClient(bin_dir=str(sbatch.parent)).start_of(("job\0.sh",), timeout_s=1)


def test_the_cluster_in_memory_answers_what_it_was_told() -> None:
    """Tests and replay need no Slurm."""
    client = MemoryClient(known_start=lambda words: StartEstimate(refused=words[0]))
    assert client.start_of(("-c4", "job.sh"), timeout_s=1) == StartEstimate(refused="-c4")
