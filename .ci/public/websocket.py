"""A client of the edge's WebSockets by python3-autobahn, whose library the edge does not use.

A turn of Responses whose message comes one byte a frame, between pings with a payload, and a session
of realtime transcription. Both are closed with 1000.

    websocket.py HOST PORT KEY
"""

import asyncio
import base64
import json
import sys

from autobahn.asyncio.websocket import WebSocketClientFactory, WebSocketClientProtocol

HOST, PORT, KEY = sys.argv[1], int(sys.argv[2]), sys.argv[3]


class Client(WebSocketClientProtocol):
    """Puts what arrives into a queue: ("pong", bytes), ("message", dict) or ("close", code)."""

    def onOpen(self):
        self.factory.queue.put_nowait(("open", None))

    def onPong(self, payload):
        self.factory.queue.put_nowait(("pong", payload))

    def onMessage(self, payload, is_binary):
        self.factory.queue.put_nowait(("message", json.loads(payload)))

    def onClose(self, was_clean, code, reason):
        self.factory.queue.put_nowait(("close", code))


class Session:
    """One connection."""

    async def open(self, path, protocols=None):
        factory = WebSocketClientFactory(
            f"ws://{HOST}:{PORT}{path}", protocols=protocols, headers={"Authorization": "Bearer " + KEY}
        )
        factory.protocol = Client
        factory.queue = self.queue = asyncio.Queue()
        _, self.client = await asyncio.get_running_loop().create_connection(factory, HOST, PORT)
        assert (await self.next())[0] == "open"

    async def next(self):
        return await asyncio.wait_for(self.queue.get(), 30)

    async def until(self, kind):
        """Reads messages up to one of the given type."""
        while True:
            what, message = await self.next()
            assert what == "message" and message["type"] != "error", (what, message)
            if message["type"] == kind:
                return message

    async def close(self):
        self.client.sendClose(1000)
        while True:
            what, value = await self.next()
            if what == "close":
                assert value == 1000, value
                return


async def responses():
    s = Session()
    await s.open("/v1/responses")
    s.client.sendPing(b"\x00\xff")
    assert await s.next() == ("pong", b"\x00\xff")
    text = json.dumps({"type": "response.create", "model": "sim", "input": "Grüße"})
    s.client.sendMessage(text.encode(), fragmentSize=1)
    done = await s.until("response.completed")
    assert done["response"]["output"], done
    await s.close()


async def realtime():
    s = Session()
    await s.open("/v1/realtime?intent=transcription", ["realtime"])
    await s.until("session.created")
    assert s.client.websocket_protocol_in_use == "realtime"
    update = {"type": "transcription", "audio": {"input": {"transcription": {"model": "ears"}}}}
    s.client.sendMessage(json.dumps({"type": "session.update", "session": update}).encode())
    for _ in range(10):
        audio = base64.b64encode(bytes(4800)).decode()
        s.client.sendMessage(json.dumps({"type": "input_audio_buffer.append", "audio": audio}).encode(), fragmentSize=100)
    s.client.sendMessage(b'{"type":"input_audio_buffer.commit"}')
    done = await s.until("conversation.item.input_audio_transcription.completed")
    assert done["transcript"], done
    await s.close()


asyncio.run(responses())
asyncio.run(realtime())
print("python3-autobahn: a turn of Responses and a realtime session")
