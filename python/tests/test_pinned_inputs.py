"""When CUDA is told of the server's shared memory, and when it has to forget it. CUDA itself is not here: bench/gpu/resnet50.py
asks a real one whether the answers are right."""
import os
import sys
import unittest
from types import SimpleNamespace

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "backends", "pytorch"))

from galatea_pytorch.pinned_inputs import PinnedInputs
from galatea_worker import frames
from galatea_worker.arena import InputRegion
from galatea_worker.context import context
from galatea_worker.runner import Runner


class Cuda:
    """Notes down which addresses are registered."""

    def __init__(self, problem=0):
        self.registered = {}
        self.problem = problem

    def cudart(self):
        return self

    def cudaHostRegister(self, address, size, flags):
        if self.problem == 0:
            self.registered[address] = size
        return self.problem

    def cudaHostUnregister(self, address):
        del self.registered[address]
        return 0


@unittest.skipUnless(hasattr(os, "memfd_create"), "there is no memfd on this system")
class PinnedInputsTest(unittest.TestCase):
    def setUp(self):
        self.fd = os.memfd_create("inputs")
        os.ftruncate(self.fd, 1 << 16)
        context.inputs = InputRegion(self.fd, lambda offset: None)
        self.warnings = []
        self.cuda = Cuda()

    def tearDown(self):
        context.inputs = None
        os.close(self.fd)

    def pinned(self):
        return PinnedInputs(SimpleNamespace(cuda=self.cuda), SimpleNamespace(log_warn=self.warnings.append))

    def test_what_is_mapped_is_registered_once(self):
        pinned = self.pinned()
        pinned.cover()
        self.assertEqual(self.cuda.registered, {}, "nothing is mapped yet")
        view = context.inputs.view(0, 100)
        pinned.cover()
        pinned.cover()
        self.assertEqual(self.cuda.registered, {np.asarray(view).ctypes.data: 1 << 16})

    def test_memory_that_has_grown_is_registered_in_place_of_the_old(self):
        pinned = self.pinned()
        context.inputs.view(0, 100)
        pinned.cover()
        os.ftruncate(self.fd, 1 << 20)
        context.inputs.view(1 << 17, 100)
        pinned.cover()
        self.assertEqual(list(self.cuda.registered.values()), [1 << 20])

    def test_what_the_server_gives_back_to_the_system_is_forgotten_first(self):
        pinned = self.pinned()
        context.inputs.view(0, 100)
        pinned.cover()
        Runner._trim(SimpleNamespace(), 0, 0, frames.simple_frame(frames.TRIM))
        self.assertEqual(self.cuda.registered, {})
        pinned.cover()
        self.assertEqual(list(self.cuda.registered.values()), [1 << 16])

    def test_where_it_cannot_be_registered_the_model_works_on_and_says_so_once(self):
        self.cuda.problem = 1
        pinned = self.pinned()
        context.inputs.view(0, 100)
        pinned.cover()
        pinned.cover()
        self.assertEqual(len(self.warnings), 1)


if __name__ == "__main__":
    unittest.main()
