"""The command line: one file a command, imported only when that command is asked for or listed.

Exit codes: 0 done, 1 the gate failed or ``--fail-on`` was reached, 2 usage, configuration or rule error, 3 the trace
cannot be read, 4 inconclusive. 130 is Ctrl-C, 141 a reader that went away, 70 a bug of the advisor itself.
"""

from __future__ import annotations

from advisor import interrupts  # the first of all: from here on Ctrl-C ends the process

# isort: split

import atexit
import gc
import importlib
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.errors import AdvisorError, nearest
from advisor.privacy import without_secrets

if TYPE_CHECKING:
    from types import FrameType

    from click.shell_completion import CompletionItem

# Name to module; the module holds a click command of the name `command`. The order is that of the help.
COMMANDS = {
    "analyze": "advisor.cli.analyze",
    "watch": "advisor.cli.watch",
    "compare": "advisor.cli.compare",
    "gate": "advisor.cli.gate",
    "baseline": "advisor.cli.baseline",
    "history": "advisor.cli.history",
    "export": "advisor.cli.export",
    "record": "advisor.cli.record",
    "fix": "advisor.cli.fix",
    "ladder": "advisor.cli.ladder",
    "rules": "advisor.cli.rules",
    "query": "advisor.cli.query",
    "mcp": "advisor.cli.mcp",
}

EXIT_BUG = 70
EXIT_BROKEN_PIPE = 141


def complain(message: str, kind: str = "error") -> None:
    """Say on stderr what went wrong, or is worth a ``"note"``. The text may quote a trace, so it is made printable first."""
    from advisor.cli.terminal import clear
    from advisor.report.plain import clean

    clear()
    lines = without_secrets(message).splitlines()
    click.echo(f"advisor: {kind}: " + "\n".join(clean(line) for line in lines), err=True)


_TRACES = (".json", ".json.gz")
"""Ends of names that are traces to analyze, where a command was expected."""
ALONE = "analyze"
"""The command that does without the garbage collector while it analyzes one trace."""
_OWN_END = ("fix", "ladder", "mcp", "watch")
"""Commands that put something right, or answer, when Ctrl-C ends them. A script to record begins with that of Python, too."""


def _stands_for_analysis(word: str) -> bool:
    """Tell whether a word of the command line is a trace, which stands for its analysis."""
    return not word.startswith("-") and (os.path.exists(word) or word.endswith(_TRACES))


class _Flushing:
    """Writes out what a command printed, where a reader that went away can still be told from a bug; ``result`` says so then."""

    result: Any = None

    def __enter__(self) -> _Flushing:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        try:
            if error is None and sys.stdout is not None and not sys.stdout.closed:  # a recorded script may close it
                sys.stdout.flush()
        except BrokenPipeError as broken:
            error = broken
        if not isinstance(error, BrokenPipeError):
            return False
        # What is still in the buffer would raise once more while Python shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        self.result = EXIT_BROKEN_PIPE
        return True


class Commands(click.Group):
    """A group whose commands are imported one by one, and whose errors become exit codes."""

    _collects = _owns_process = False
    ends_process = False
    """True where the process ends with the command."""
    ends_alone = False
    """True once the command has run that leaves nothing behind in a process of its own that would have to be taken apart."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:  # a shell that completes asks without arguments, too
            click.echo(ctx.get_help())
            ctx.exit()
        own = {name for param in self.get_params(ctx) for name in param.opts}
        ahead = args and args[0].startswith("-") and args[0] not in own and not any(word in COMMANDS for word in args)
        if ahead and any(_stands_for_analysis(word) for word in args):
            args = ["analyze", *args]  # options before the trace: advisor -v trace.json.gz
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found = super().shell_complete(ctx, incomplete)
        return found or [CompletionItem(incomplete, type="file")]  # a trace stands for its analysis

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name]).command
        if cmd_name != ALONE and self._collects:
            gc.enable()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            if _stands_for_analysis(args[0]):
                return self.resolve_command(ctx, [ALONE, *args])
            raise click.UsageError(f'no command "{args[0]}"{nearest(args[0], COMMANDS)}', ctx)
        if args and args[0] in _OWN_END:
            interrupts.usual()
        if args and args[0] == ALONE and self._owns_process:
            from advisor.threads import share_heap

            share_heap()
            self.ends_alone = True
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _Flushing() as flushing:
            flushing.result = super().invoke(ctx)
        return flushing.result

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            result = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            return result() if callable(result) else result
        # What one run makes, its end frees; the collector would look at all modules again and again, a twentieth of the time.
        self._collects, self._owns_process = gc.isenabled(), True
        gc.disable()
        try:
            self._run(args, prog_name, complete_var, extra)
        finally:
            self._owns_process = False
            if self._collects and not (self.ends_process and self.ends_alone):  # else it would look at all once more
                gc.enable()

    def _run(
        self, args: Sequence[str] | None, prog_name: str | None, complete_var: str | None, extra: dict[str, Any]
    ) -> None:
        """Run the command, and exit."""
        try:
            code = super().main(args, prog_name or "advisor", complete_var, standalone_mode=False, **extra)
            if callable(code):
                # A program to record runs from here: what click has on the stack would be in each of its tracebacks, and make
                # what formats those (anomaly detection does for each operator) take longer than it does alone.
                interrupts.usual()
                with _Flushing() as flushing:
                    flushing.result = code()
                code = flushing.result
        except (click.Abort, KeyboardInterrupt):
            sys.exit(interrupts.EXIT_INTERRUPTED)
        except click.ClickException as error:
            complain(error.format_message())
            context = error.ctx if isinstance(error, click.UsageError) else None
            if context is not None and context.command.get_help_option(context) is not None:
                click.echo(f"Try '{context.command_path} --help'.", err=True)
            sys.exit(2)
        except AdvisorError as error:
            complain(str(error))
            sys.exit(error.exit_code)
        except Exception:  # noqa: BLE001  (the last resort: Python would exit with 1, which means "the gate failed")
            import traceback

            click.echo(without_secrets(traceback.format_exc()), nl=False, err=True)
            click.echo("advisor: this is a bug in the advisor; please report it with the traceback above.", err=True)
            sys.exit(EXIT_BUG)
        sys.exit(code if isinstance(code, int) else 0)


def program() -> None:
    """Run the command of a process, which ends with it.

    To take everything apart, module by module, takes Python a fifth of a second, and more than the memory of a large trace.
    """
    main.ends_process = _is_all_there_is(sys._getframe(1))
    try:
        main.main(
            prog_name="advisor"
        )  # a call of it would be one frame more on the stack of each program that is recorded
    except SystemExit as end:
        if main.ends_process:
            interrupts.over()
        else:
            interrupts.usual()
        if main.ends_process and (main.ends_alone or end.code == interrupts.EXIT_INTERRUPTED):
            _end(end.code)
        raise


def _is_all_there_is(caller: FrameType) -> bool:
    """Tell whether nothing goes on in this process behind a command: no caller's code, no profiler, debugger or prompt.

    *caller* is the frame that runs it: of the script that an installer wrote, or of ``python -m advisor``.
    """
    if sys.flags.inspect or sys.getprofile() is not None or sys.gettrace() is not None or _is_monitored():
        return False
    script, runpy = Path(caller.f_code.co_filename), []
    name = script.parent if script.name == "__main__.py" else script  # on Windows advisor.exe holds an own __main__.py
    frame = caller.f_back
    while frame is not None:
        runpy.append((frame.f_globals.get("__name__"), frame.f_code.co_name))
        frame = frame.f_back
    return (
        caller.f_globals.get("__name__") == "__main__"
        and caller.f_code.co_name == "<module>"
        and name.stem == "advisor"
        and runpy in ([], [("runpy", "_run_code"), ("runpy", "_run_module_as_main")])
    )


def _is_monitored() -> bool:
    """Tell whether a tool of ``sys.monitoring``, of Python 3.12, watches this process: a profiler, a measure of coverage."""
    if sys.version_info < (3, 12):
        return False
    return any(sys.monitoring.get_tool(tool) is not None for tool in range(6))


def _end(code: object) -> None:
    """End this process as Python does, but for taking apart what is in its memory; do nothing where other threads or processes
    have to be waited for."""
    if (
        not isinstance(code, int)
        or "multiprocessing" in sys.modules
        or any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())
    ):
        return
    if (conditions := sys.modules.get("advisor.rulebook.conditions")) is not None:
        atexit.unregister(conditions.close)  # it takes ten milliseconds, for memory that goes with the process
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            try:
                stream.flush()
            except OSError:
                return
    os._exit(code)


def _print_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from advisor.results.version import __version__

        click.echo(f"advisor {__version__}")
        ctx.exit()


@click.command("advisor", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print it.")
def main() -> None:
    """Read the trace that torch.profiler wrote: what slows the program down, where, what to change, what it is worth.

    \b
      advisor trace.json.gz            one screen; the same as advisor analyze trace.json.gz

    Exit codes: 0 done; 1 the gate failed or --fail-on was reached; 2 usage, configuration or rule error; 3 the trace
    cannot be read; 4 inconclusive.

    \b
    The shell completes commands, rules, frames and files after (or with zsh_source, fish_source):
      eval "$(_ADVISOR_COMPLETE=bash_source advisor)"
    """
