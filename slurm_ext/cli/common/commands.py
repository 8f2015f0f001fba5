"""The commands of `dlqueue`, in the order that `--help` lists them."""

COMMANDS = {
    "run": "run a program under the probe: no root, no Slurm, a history of your own",
    "profile": "where the time of a step goes: one short run of a script, in windows",
    "predict": "what dlqueue would change in a job, and why; with --what-if, other shapes",
    "explain": "what one job used, what was predicted, done and measured; why it waits",
    "jobs": "your last jobs, a line each: how they ended, what of their resources they used",
    "history": "list, show and export the runs it learned from; import earlier ones",
    "train": "fit priors, slowdowns and run times; promote what later runs bear out",
    "serve": "run the advisor that slurmctld asks",
    "report": "what was gained, wasted, predicted and decided: a page, or figures",
    "simulate": "replay a trace of queues, elastic jobs or node demand under several policies",
    "recommend": "how many ranks should share a GPU; which nodes meet a deadline or a budget",
    "control": "move CPUs and workers among the jobs that run on a node",
    "install": "write dlqueue's files and join it to slurm.conf, hooks and job_submit.lua",
    "uninstall": "every file as it was before `dlqueue install`",
    "doctor": "what is missing or misconfigured on this machine",
    "sandbox": "a private, real Slurm to try things in",
    "demo": "the whole loop on a private Slurm, in a few minutes",
    "config": "print the settings in force, or a sample dlqueue.toml",
    "completion": "the completion script for bash, zsh or fish",
    "man": "manual pages",
}
