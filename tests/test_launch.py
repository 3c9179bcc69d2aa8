"""The scripts in deploy/. srun, scontrol and torchrun are programs that record their arguments and do nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[1]
LAUNCH = ROOT / "deploy"
RECORD = f"""#!{sys.executable}
import json, os, pathlib, sys
name = pathlib.Path(sys.argv[0]).name
with open(os.environ["CALLS"], "a") as file:
    print(json.dumps([name, *sys.argv[1:]]), file=file)
if name == "scontrol" and sys.argv[1] == "show":
    print("first", "second", sep="\\n")
sys.exit(int(os.environ["CODE"]) if name == "srun" else 0)
"""
SLURM = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "[first,second]", "SLURM_NNODES": "2", "SLURM_CPUS_PER_TASK": "16"}
ARGUMENTS = ["name=two words", "data.train_src=$HOME/*.en"]


class Result(NamedTuple):
    code: int
    calls: list[list[str]]


def launch(script: str, folder: Path, code: int = 0) -> Result:
    """Run a script with ``ARGUMENTS``; srun exits with ``code``. Return its exit code and the recorded calls."""
    for name in ("srun", "scontrol", "torchrun"):
        program = folder / name
        program.write_text(RECORD)
        program.chmod(0o755)
    calls = folder / "calls"
    environment = {**os.environ, **SLURM, "PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(calls)}
    words = ["bash", str(LAUNCH / script), *ARGUMENTS]
    process = subprocess.run(words, env={**environment, "CODE": str(code)}, cwd=folder)
    return Result(process.returncode, [json.loads(line) for line in calls.read_text().splitlines()])


@pytest.mark.parametrize("script", ["slurm.sbatch", "torchrun.sh"])
def test_arguments_reach_the_program_unchanged(script: str, tmp_path: Path) -> None:
    code, calls = launch(script, tmp_path)
    assert code == 0
    assert "nmt-train" in calls[-1] and calls[-1][-len(ARGUMENTS) :] == ARGUMENTS


@pytest.mark.parametrize("code", [0, 1, 129])
def test_training_job_starts_again_only_after_its_time_is_over(code: int, tmp_path: Path) -> None:
    result = launch("slurm.sbatch", tmp_path, code)
    assert result.code == code
    assert [call for call in result.calls if call[0] == "scontrol"] == [["scontrol", "requeue", "7"]] * (code == 129)


@pytest.mark.parametrize("name", ["Dockerfile", "nmt-serve.service"])
def test_server_starts_with_settings_that_exist(name: str) -> None:
    started = re.findall(r"^(?:ENTRYPOINT |CMD |ExecStart=)(.*)", (LAUNCH / name).read_text(), re.MULTILINE)
    keys = re.findall(r"\b(\w+)=", " ".join(started))
    settings = yaml.safe_load((ROOT / "conf/serve.yaml").read_text())
    assert len(keys) >= 2 and set(keys) <= set(settings)
