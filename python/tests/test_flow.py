"""The window of a request's answers: when send waits, and everything that ends the wait."""
import socket
import threading
import unittest

from galatea_worker import flow, frames
from galatea_worker.channel import Channel
from galatea_worker.context import context
from galatea_worker.flow import WINDOW_BYTES, WINDOW_RESPONSES
from galatea_worker.frames import simple_frame


class Request:
    def __init__(self, handle):
        self._handle = handle


class FlowTest(unittest.TestCase):
    def setUp(self):
        self.server, self.worker = socket.socketpair()
        context.channel = Channel(self.worker.fileno())
        context.channel.handlers = {frames.TAKEN: flow.on_taken, frames.CANCEL: flow.on_cancel}
        flow.begin([Request(1)])
        self.addCleanup(self.tidy)

    def tidy(self):
        context.flows.clear()
        context.cancelled.clear()
        context.announced = context.begun = 0
        context.channel = None
        self.server.close()
        self.worker.close()

    def fill(self, count=WINDOW_RESPONSES, size=1):
        for _ in range(count):
            context.flows[1].sent(size)

    def waits(self, end_of_wait):
        """Whether a thread stands still in wait until `end_of_wait`, and not any longer."""
        passed = threading.Event()

        def wait():
            context.flows[1].wait()
            passed.set()

        thread = threading.Thread(target=wait)
        thread.start()
        stood_still = not passed.wait(0.05)
        end_of_wait()
        thread.join(10)
        self.assertFalse(thread.is_alive())
        return stood_still

    def tell(self, kind, count=0):
        return lambda: self.server.sendall(simple_frame(kind, 1, b"", count))

    def test_an_open_window_is_passed(self):
        self.fill(WINDOW_RESPONSES - 1)
        context.flows[1].wait()

    def test_a_full_window_waits_until_answers_are_taken(self):
        self.fill()
        self.assertTrue(self.waits(self.tell(frames.TAKEN, 1)))
        self.fill(1)
        self.assertTrue(self.waits(self.tell(frames.TAKEN, WINDOW_RESPONSES)))
        context.flows[1].wait()

    def test_bytes_fill_the_window_too(self):
        self.fill(1, WINDOW_BYTES)
        self.assertTrue(self.waits(self.tell(frames.TAKEN, 1)))

    def test_cancellation_ends_the_wait(self):
        self.fill()
        self.assertTrue(self.waits(self.tell(frames.CANCEL)))
        self.assertIn(1, context.cancelled)

    def test_the_end_of_everything_ends_the_wait(self):
        def leave():
            flow.end_all()
            # Whoever reads the channel looks again when something comes.
            self.tell(frames.TAKEN)()

        self.fill()
        self.assertTrue(self.waits(leave))

    def test_many_threads_wait_and_all_go_on(self):
        self.fill()
        threads = [threading.Thread(target=context.flows[1].wait) for _ in range(8)]
        for thread in threads:
            thread.start()
        self.tell(frames.TAKEN, WINDOW_RESPONSES)()
        for thread in threads:
            thread.join(10)
            self.assertFalse(thread.is_alive())

    def test_a_request_that_comes_frees_a_thread_that_is_shared(self):
        context.channel.handlers[frames.EXECUTE] = lambda count, id, frame: flow.announce(count)
        passed = threading.Event()

        def serve():
            other = flow.Flow()
            other.sent(1)
            self.fill()
            context.flows[1].wait()
            passed.set()

        thread = threading.Thread(target=serve)
        thread.start()
        self.assertFalse(passed.wait(0.05))
        # The thread that waits reads this itself, and nothing comes after it.
        self.tell(frames.EXECUTE, 1)()
        thread.join(10)
        self.assertTrue(passed.is_set())

    def test_a_thread_that_serves_two_requests_does_not_wait_for_one(self):
        flow.begin([Request(2)])

        def serve():
            context.flows[2].sent(1)
            self.fill()
            context.flows[1].wait()

        thread = threading.Thread(target=serve)
        thread.start()
        thread.join(10)
        self.assertFalse(thread.is_alive())


if __name__ == "__main__":
    unittest.main()
