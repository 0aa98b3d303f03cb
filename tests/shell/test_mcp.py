"""`jaxlens mcp`: the questions as a tool of the Model Context Protocol."""

import asyncio
import json
import sys

import pytest

from jaxlens.cli import main
from jaxlens.shell.questions import listing
from tests.support.paths import environment


def test_without_the_package_a_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert main(["mcp"]) == 2
    said = "jaxlens: jaxlens mcp needs mcp, which is not installed: pip install mcp\n"
    assert capsys.readouterr().err == said


@pytest.mark.backend
def test_a_client_asks(tmp_path):
    session = pytest.importorskip("mcp.client.session")
    stdio = pytest.importorskip("mcp.client.stdio")
    (tmp_path / "f.py").write_text("def f(x): return x * x, x - 1")
    words = ["-m", "jaxlens", "mcp"]
    server = stdio.StdioServerParameters(
        command=sys.executable, args=words, cwd=tmp_path, env=environment()
    )

    async def asked():
        async with stdio.stdio_client(server) as ends, session.ClientSession(*ends) as client:
            about = await client.initialize()
            answers = [
                await client.call_tool(
                    "ask", {"question": name, "program": "f.py:f", "args": "f32[4]"}
                )
                for name in ("tree", "--schema")
            ]
            return about.instructions, [json.loads(a.content[0].text) for a in answers]

    instructions, (answer, refused) = asyncio.run(asked())
    assert listing() in instructions
    assert answer["facts"]["work"] == 8
    assert refused["error"]["kind"] == "OptionError"
