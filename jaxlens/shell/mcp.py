"""`jaxlens mcp`: `jaxlens ask` as a tool of the Model Context Protocol, over stdin and stdout.

Each question is asked in a process of its own, as a file is imported anew and may end Python.
"""

import argparse
import subprocess
import sys

from jaxlens.errors import missing_package

_HOW = """Answers a question about a JAX program: what jaxlens ask --json prints, sentences first.

Args:
    question: One of those in the instructions, such as "memory" or "fits=h100".
    program: A function of a file ("train.py:step"), a saved capture, HLO text, a folder of XLA's
        dumps, or a function of a record ("runs/a:step").
    args: Shapes, Python values and variables of the file: "params, f32[64,128], n=3".
    target: "cpu", "gpu", "tpu:v5e:2x2", "gpu:h100"; by default where JAX would run it.
"""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser of `jaxlens`."""
    mcp = commands.add_parser("mcp", help="serve `ask` to an assistant, by jaxlens[mcp]")
    mcp.add_argument("--python", metavar="PATH", help="the interpreter that runs the files")
    mcp.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> int:
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise missing_package("jaxlens mcp", error) from None
    from jaxlens.shell.questions import listing

    server = MCPServer("jaxlens", instructions=f"Questions about JAX programs:\n\n{listing()}")

    def ask(question: str, program: str, args: str = "", target: str = "") -> str:
        given = (("args", args), ("target", target), ("python", options.python))
        words = [f"--{name}={value}" for name, value in given if value]
        words += ["--json", "--", question, program]
        command = [sys.executable, "-m", "jaxlens", "ask", *words]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        return done.stdout or done.stderr

    server.tool(description=_HOW)(ask)
    server.run("stdio")
    return 0
