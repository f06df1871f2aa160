"""The socket: cutting frames, many threads that wait, the end of the server."""
import socket
import threading
import unittest

from galatea_worker.channel import Channel, ConnectionClosed, Waiter
from galatea_worker.frames import simple_frame


class ChannelTest(unittest.TestCase):
    def setUp(self):
        self.server, self.worker = socket.socketpair()
        self.channel = Channel(self.worker.fileno())
        self.addCleanup(self.server.close)
        self.addCleanup(self.worker.close)

    def test_frames_are_cut_out_of_any_pieces(self):
        got = []
        waiter = Waiter()

        def collect(count, id, frame):
            got.append((id, bytes(frame[16:])))
            if len(got) == 50:
                waiter.finish()

        self.channel.handlers = {7: collect}
        sent = [bytes([i]) * (16 * i * i * 10) for i in range(50)]
        data = b"".join(simple_frame(7, i, body) for i, body in enumerate(sent))

        def write():
            view = memoryview(data)
            for start in range(0, len(data), 9973):
                self.server.sendall(view[start : start + 9973])

        writer = threading.Thread(target=write)
        writer.start()
        self.channel.wait(waiter)
        writer.join()
        self.assertEqual(got, list(enumerate(sent)))

    def test_each_of_many_waiting_threads_gets_its_own(self):
        waiters = [Waiter() for _ in range(20)]
        self.channel.handlers = {7: lambda count, id, frame: waiters[id].finish()}
        threads = [threading.Thread(target=self.channel.wait, args=(waiter,)) for waiter in waiters]
        for thread in threads:
            thread.start()
        # From the last to the first: whoever reads is never the one that is served.
        for id in reversed(range(20)):
            self.server.sendall(simple_frame(7, id))
        for thread in threads:
            thread.join(30)
        self.assertFalse(any(thread.is_alive() for thread in threads))

    def test_what_is_deferred_leaves_before_the_next_frame(self):
        self.channel.defer(simple_frame(1))
        self.channel.note_freed(64)
        self.channel.send(simple_frame(2))
        kinds = []
        data = self.server.recv(1000)
        while data:
            size = int.from_bytes(data[:4], "little")
            kinds.append(int.from_bytes(data[4:6], "little"))
            data = data[size:]
        self.assertEqual(kinds, [1, 39, 2])

    def test_every_waiting_thread_hears_of_the_servers_end(self):
        ended = []

        def wait():
            try:
                self.channel.wait(Waiter())
            except ConnectionClosed:
                ended.append(True)

        threads = [threading.Thread(target=wait) for _ in range(5)]
        for thread in threads:
            thread.start()
        self.server.close()
        for thread in threads:
            thread.join(30)
        self.assertEqual(len(ended), 5)


if __name__ == "__main__":
    unittest.main()
