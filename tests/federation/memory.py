"""Flower's grid without Flower's processes: the same messages, error codes, delays and losses, in threads."""

import itertools
import queue
import threading
import time

from flwr.app import Error, Message
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.task_identity import TaskIdentity

from paceline.federation.config import Limits, NodeConfig
from paceline.federation.members import Members
from paceline.federation.nodes import Nodes
from paceline.federation.records import from_records, to_records
from paceline.federation.resident import Resident
from paceline.federation.terms import problem_of
from tests.worlds.threads import one_at_a_time

TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1  # as Flower's processes have it


class MemoryNode:
    """A SuperNode with its resident worker: one message at a time."""

    def __init__(self, client, directory, **more):
        self.config = NodeConfig(client=client, state=str(directory), insecure=True, **more)
        self.resident = Resident(self.config, lambda terms, data: one_at_a_time(lambda: problem_of(terms, data)))
        self.inbox = queue.SimpleQueue()

    def answer(self, content):
        """What the application on the node does with a message."""
        reply = self.resident.answer(from_records(content, 1 << 40))
        return to_records(reply.words, reply.blobs)


class MemoryGrid:
    """Carries messages to nodes of this process; ``fault`` may take one away (True) or give an error's code."""

    def __init__(self, directory, clients):
        self.nodes = {100 + k: MemoryNode(k, directory / f"node{k}") for k in range(clients)}
        self.directory = directory
        self.keys = {number: f"key of {number}".encode() for number in self.nodes}
        self.away = set()
        self.dead = set()
        """Nodes that are silent, which nobody has noticed yet."""
        self.sent = []
        self.fault = lambda node, frame: None
        self.changed = lambda node, frame, content: content
        """What becomes of a reply's content."""
        self._replies = {}
        self._numbers = itertools.count()
        for number in self.nodes:
            self.live(number)

    def live(self, number):
        threading.Thread(target=self._live, args=(number, self.nodes[number]), daemon=True).start()

    def _live(self, number, node):
        while (message := node.inbox.get()) is not None:
            frame = from_records(message.content, 1 << 40)
            self.sent.append((number, frame.words))
            fault = self.fault(number, frame)
            if fault is True or number in self.away | self.dead:
                continue
            if fault is None:
                content = self.changed(number, frame, node.answer(message.content))
                if content is None:  # it is lost on its way back, and Flower says so
                    reply = Message(Error(4, "the reply is not there"), reply_to=message)
                else:
                    reply = Message(content, reply_to=message)
            else:
                reply = Message(Error(fault, "so it was arranged"), reply_to=message)
            self._replies[message.metadata.message_id] = reply

    def push_messages(self, messages):
        numbers = []
        for message in messages:
            numbers.append(f"m{next(self._numbers)}")
            message.metadata.__dict__["_message_id"] = numbers[-1]
            self.nodes[message.metadata.dst_node_id].inbox.put(message)
        return numbers

    def pull_messages(self, message_ids):
        return [self._replies.pop(number) for number in message_ids if number in self._replies]

    def get_node_ids(self):
        return [number for number in self.nodes if number not in self.away]

    def get_nodes(self):
        return [NodeInfo(node_id=number, public_key=self.keys.get(number, b"")) for number in self.get_node_ids()]

    def hosts(self, limits=None, members=None, **more):
        """For ``make_local_run``."""
        members = members or Members(self.directory / "clients.json")
        return lambda scene: Nodes(self, "run", limits or Limits(), scene, members, **more)

    def stop(self):
        for node in self.nodes.values():
            node.inbox.put(None)


def until(true, seconds=60.0):
    """Wait for something that other threads do."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it has not come true"
        time.sleep(0.01)
