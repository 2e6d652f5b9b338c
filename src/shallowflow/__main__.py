"""The program, `shallowflow` or `python -m shallowflow`: an interrupt at any moment is one line and a code.

While the package is imported, Ctrl-C and SIGTERM end the process at once: an import cut in two leaves errors
of other libraries behind. From then on they are exceptions, and files being written are removed.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

WORDS = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}
"""Exit code and line of each signal."""
_received: list[int] = []


def main() -> None:
    """Import the command line and run it."""
    heeded = [number for number in WORDS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, _leave)
    from shallowflow.cli import main as program

    for number in heeded:
        signal.signal(number, _raise)
    try:
        program()
    except SystemExit as end:
        if _received and end.code == WORDS[signal.SIGINT][0]:  # the line has been said
            sys.exit(WORDS[signal.Signals(_received[0])][0])
        raise
    except BaseException:
        # Compilers and pools turn an interrupt into errors of their own.
        if _received:
            _leave(_received[0])
        raise


def _leave(number: int, *_: Any) -> NoReturn:
    """Say a line and end the process, without what Python does at its end."""
    code, word = WORDS[signal.Signals(number)]
    os.write(2, f"{word}\n".encode())
    os._exit(code)


def _raise(number: int, *_: Any) -> NoReturn:
    """Interrupt what is going on; a second signal ends the process at once."""
    if _received:
        _leave(number)
    _received.append(number)
    raise KeyboardInterrupt(WORDS[signal.Signals(number)][1])


if __name__ == "__main__":
    main()
