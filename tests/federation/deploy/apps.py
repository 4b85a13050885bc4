"""A Flower app of a few lines: every node that is there is asked to echo."""

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "echo"
version = "0.1.0"
license = "Apache-2.0"
dependencies = []
[tool.hatch.build.targets.wheel]
packages = ["."]
[tool.flwr.app]
publisher = "test"
[tool.flwr.app.components]
serverapp = "echo.server:app"
clientapp = "echo.client:app"
"""
SERVER = """
import pathlib, time
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()
@app.main()
def main(grid, context):
    while not (nodes := list(grid.get_node_ids())):
        time.sleep(0.2)
    content = RecordDict({"said": ConfigRecord({"word": "hello"})})
    asked = [Message(content, dst_node_id=node, message_type="query", ttl=120) for node in nodes]
    ids = set(grid.push_messages(asked))
    heard = []
    while len(heard) < len(asked):
        heard += [m for m in grid.pull_messages(ids) if m.has_content()]
        time.sleep(0.2)
    words = sorted(f"{m.metadata.src_node_id} {m.content['said']['word']}" for m in heard)
    part = pathlib.Path(OUT + ".part")
    part.write_text("\\n".join(words))
    part.rename(OUT)
"""
CLIENT = """
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
app = ClientApp()
@app.query()
def query(message, context):
    word = message.content["said"]["word"] + " again"
    return Message(RecordDict({"said": ConfigRecord({"word": word})}), reply_to=message)
"""


def write_app(folder, out):
    package = folder / "echo"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").touch()
    (package / "server.py").write_text(f"OUT = {str(out)!r}\n{SERVER}")
    (package / "client.py").write_text(CLIENT)
    return folder
