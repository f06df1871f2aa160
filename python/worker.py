"""Entry point of a worker process: `python worker.py <socket descriptor>`."""
import sys

# A process that a model spawns (multiprocessing, the engine of vLLM) imports this file under another name. It is no worker, and
# it has the path of its parent.
IS_WORKER = __name__ == "__main__"

# This folder is first on the path at start, and last afterwards, so that a model's own modules are found first.
if IS_WORKER:
    sys.path.append(sys.path.pop(0))

if sys.version_info < (3, 9):
    sys.stderr.write("Python %d.%d is too old: 3.9 or newer is needed\n" % sys.version_info[:2])
    sys.exit(3)

from galatea_worker.telemetry import switch_telemetry_off  # noqa: E402

switch_telemetry_off()
if IS_WORKER:
    from galatea_worker.start import main

    main(int(sys.argv[1]))
