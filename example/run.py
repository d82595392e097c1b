"""The main job: makes ``.venv``, installs the project, builds a knowledge base and asks it questions.

    python3 example/run.py                         this project's own documents, a PDF among them
    python3 example/run.py FOLDER                  yours; the questions come from their headings
    python3 example/run.py FOLDER --ask "Who …?"   yours, with your own questions

--mode MODE searches in another way (default: hybrid_mix); --working-dir DIR keeps the knowledge base there.

Needs Python 3.11 or newer and nothing else: no key, and no network once the packages are installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.environment import SetUpError, prepared, run

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Sets up, then runs ``ask_documents.py`` in the environment."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    try:
        python = prepared()
    except SetUpError as failure:
        print(failure, file=sys.stderr)
        return 1
    return run(python, str(HERE / "ask_documents.py"), *(_absolute(argument) for argument in sys.argv[1:]))


def _absolute(argument: str) -> str:
    """Paths are meant from where the user stands; the job runs in the root of the checkout."""
    return str(Path(argument).resolve()) if not argument.startswith("-") and Path(argument).exists() else argument


if __name__ == "__main__":
    sys.exit(main())
