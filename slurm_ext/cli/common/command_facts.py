"""Examples, exit statuses and files of each command, beside what --help says.

Manual pages and the reference of the documentation print them; tests/cli/test_man.py runs them.
"""

from slurm_ext.core.settings.document import DEFAULT_PATH
from slurm_ext.core.settings.table import TABLE

Rows = tuple[tuple[str, str], ...]

EXAMPLES: dict[str, Rows] = {
    "run": (
        ("dlqueue run python train.py", "Measure a training and tune its loader, where you are."),
        ("dlqueue run --off python train.py", "The same program, bare."),
    ),
    "profile": (
        ("dlqueue profile job.sh", "Submit one short run of a batch script and say where it goes."),
        ("dlqueue profile --seconds 60 -- python train.py", "A minute of training, here."),
    ),
    "predict": (
        ("dlqueue predict job.sh", "What would be changed in this job, and why."),
        ("dlqueue predict job.sh --what-if --cores 1,2,4", "Its rate, run time and cost by cores."),
        ("dlqueue predict job.sh --json", "The same for programs."),
    ),
    "explain": (
        ("dlqueue explain 1042", "What was predicted, done and measured for job 1042."),
        ("dlqueue explain 1042 --html job.html", "The same and its plots as a page."),
        ("dlqueue explain 1042 --json", "All that is kept of it, for programs."),
    ),
    "jobs": (
        ("dlqueue jobs --since 7d", "Your jobs that ended in the last week."),
        (
            "dlqueue jobs --all --state FAILED,TIMEOUT",
            "Everybody's that failed or ran out of their limit.",
        ),
    ),
    "history": (
        ("dlqueue history ls --limit 5", "The five newest runs."),
        ("dlqueue history show 1042", "One run, field by field."),
        ("dlqueue history export --output runs.csv", "All runs as a table."),
        ("dlqueue history import jobs.txt", "Jobs of before dlqueue, from what `sacct -P` wrote."),
    ),
    "train": (("dlqueue train", "Fit all models and promote those that later runs bear out."),),
    "serve": (("dlqueue serve", "Run the advisor in the foreground, as its unit does."),),
    "report": (
        ("dlqueue report --since 30d --output report.html", "A page on the last month."),
        (
            "dlqueue report --output report.html --jobs 20",
            "With a page of each of the first twenty jobs that it names, in report-jobs/.",
        ),
        ("dlqueue report --format csv", "Its figures as a table."),
    ),
    "simulate": (
        ("dlqueue simulate trace.csv --nodes 1", "The usual policies on your trace."),
        (
            "dlqueue simulate trace.csv --nodes 1 --policy fifo,mine.py:patient+backfill",
            "A policy of your own against first in, first out.",
        ),
    ),
    "recommend": (
        ("dlqueue recommend job.sh", "How many ranks should share each of its GPUs."),
        (
            "dlqueue recommend job.sh --nodes nodes.toml --deadline 8:00:00",
            "The cheapest nodes on which it ends in time.",
        ),
    ),
    "control": (
        ("dlqueue control --dry-run", "What would be lent on this node now; nothing is changed."),
        ("dlqueue control --queue --dry-run", "What would be changed in the queue's order."),
        ("dlqueue control --pairs status", "What the running loop did last."),
    ),
    "install": (
        ("dlqueue install --dry-run", "A diff of every file; nothing is written."),
        ("dlqueue install files", "The first of four steps: settings and what nodes read."),
    ),
    "uninstall": (("dlqueue uninstall", "Take all steps out again."),),
    "doctor": (
        ("dlqueue doctor", "What is missing on this machine, with what to do."),
        ("dlqueue doctor --nagios", "The same as a monitoring plugin."),
    ),
    "sandbox": (
        ("dlqueue sandbox up --dlqueue", "A private Slurm with all of dlqueue, ready to play."),
        ("dlqueue sandbox run -- sinfo", "A command inside it."),
        ("dlqueue sandbox down", "Stop it and leave nothing behind."),
    ),
    "demo": (("dlqueue demo", "Four trainings before and after, on a private Slurm."),),
    "config": (
        ("dlqueue config", "The settings in force, each with its meaning."),
        ("dlqueue config --sample", "A commented dlqueue.toml with every default."),
    ),
    "completion": (("dlqueue completion bash", "The script that bash reads."),),
    "man": (
        ("dlqueue man predict", "One page, for `man -l -`."),
        ("dlqueue man --output man1", "All pages, a file each."),
    ),
}

_USUAL_STATUS: Rows = (
    ("0", "Done."),
    ("1", "Could not: the reason is on standard error, in one line."),
    ("2", "Wrong usage."),
    ("130", "Interrupted."),
)
_STATUS: dict[str, Rows] = {
    "run": (
        ("the program's", "Its own exit status; a signal that ends it ends dlqueue, too."),
        ("2", "No program was named."),
        ("126, 127", "It cannot be run; there is no such program."),
    ),
    "profile": (
        ("0", "Measured."),
        ("1", "Nothing could be measured, or a reason on standard error."),
        *_USUAL_STATUS[2:],
    ),
    "doctor": (
        ("0", "Nothing fails; there may be warnings."),
        ("1", "At least one check fails, or could not be made."),
        *_USUAL_STATUS[2:],
        ("0, 1, 2, 3", "With --nagios: ok, warning, critical, unknown."),
    ),
    "uninstall": (
        *_USUAL_STATUS[:3],
        ("3", "Done, but launchers stay that Slurm may run: what is printed, then once more."),
        *_USUAL_STATUS[3:],
    ),
    "sandbox": (
        ("the command's", "Of `run`: its own exit status; 126 or 127 where it cannot be run."),
        ("1", "Of `up` and `status`: a part of it is not running."),
        *_USUAL_STATUS,
    ),
}


def _default(key: str) -> str:
    return str(next(setting.default for setting in TABLE if setting.key == key))


_SETTINGS = (
    str(DEFAULT_PATH),
    "Settings; files of dlqueue.d beside it follow, by name. $DLQUEUE_CONFIG names another file.",
)
_OWN = (
    "~/.local/state/dlqueue",
    "Your own history and settings, of `dlqueue run`; under $XDG_STATE_HOME where that is set.",
)
_HISTORY = (f"{_default('paths.state_dir')}/history.db", "The site's runs and decisions (SQLite).")
_MODELS = (f"{_default('paths.state_dir')}/models", "Trained models, with checksums.")
_SOCKET = (_default("paths.socket"), "Where the advisor answers.")
_OFF = (_default("paths.kill_file"), "While it exists, dlqueue does nothing.")
_NODE = (_default("node.spool_dir"), "A node's records on their way, and folders of running jobs.")
_LOOPS = (f"{_default('paths.state_dir')}/control", "What cluster loops changed, to put it back.")
_ETC = (f"{DEFAULT_PATH.parent}/install", "What was installed, and the files of before.")

_FILES: dict[str, Rows] = {
    "run": (_OWN,),
    "predict": (_SOCKET, _HISTORY, _OWN, _OFF),
    "explain": (_HISTORY, _OWN),
    "jobs": (_HISTORY, _OWN),
    "history": (_HISTORY, _OWN),
    "train": (_HISTORY, _MODELS),
    "serve": (_HISTORY, _MODELS, _SOCKET, _OFF),
    "report": (_HISTORY,),
    "recommend": (_HISTORY, _MODELS),
    "control": (_LOOPS, _NODE),
    "install": (_ETC,),
    "uninstall": (_ETC,),
    "doctor": (_HISTORY, _SOCKET, _NODE),
}
OVERVIEW_FILES: Rows = (_SETTINGS, _OFF, _HISTORY, _MODELS, _SOCKET, _NODE, _OWN, _ETC)
OVERVIEW_EXAMPLES: Rows = tuple(EXAMPLES[name][0] for name in ("run", "predict", "explain", "jobs"))
RECORD_EXAMPLES: Rows = (EXAMPLES["history"][1], EXAMPLES["explain"][1])
RECORD_FILES: Rows = (_NODE, _HISTORY)


def statuses(command: str) -> Rows:
    """Exit statuses of a command, or of all that have no others."""
    return _STATUS.get(command, _USUAL_STATUS)


def files(command: str) -> Rows:
    """Files that a command reads or writes at their default places."""
    return (_SETTINGS, *_FILES.get(command, ()))
