"""Commands that run in a shell, with the programs of this environment."""

import os
import subprocess
import sys
from pathlib import Path


def shell(command: str, folder: Path) -> str:
    """Run a command in a folder and return its output; raise an error if it fails."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env=os.environ | {"PATH": programs},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout
