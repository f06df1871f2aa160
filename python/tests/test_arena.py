"""Shared memory: blocks, growth, limits, and when input blocks come back."""
import gc
import os
import random
import unittest

import numpy as np
from galatea_worker.arena import InputRegion, OutputRegion, SharedMemoryFull

MEBIBYTE = 1 << 20


@unittest.skipUnless(hasattr(os, "memfd_create"), "memfd is Linux only")
class ArenaTest(unittest.TestCase):
    def region_fd(self, size):
        fd = os.memfd_create("test")
        os.ftruncate(fd, size)
        self.addCleanup(os.close, fd)
        return fd

    def test_blocks_hold_their_bytes_until_they_are_freed(self):
        region = OutputRegion(self.region_fd(MEBIBYTE), MEBIBYTE, 64 * MEBIBYTE)
        pick = random.Random(5)
        live = {}
        for _ in range(500):
            if live and pick.random() < 0.45:
                offset = pick.choice(sorted(live))
                self.assertEqual(region.map[offset : offset + len(live[offset])], live.pop(offset))
                region.free(offset)
            else:
                data = pick.randbytes(pick.randrange(1, 100_000))
                live[region.store(memoryview(data))] = data
        for offset, data in live.items():
            self.assertEqual(region.map[offset : offset + len(data)], data)
            region.free(offset)
        self.assertTrue(region.is_empty)

    def test_the_limit_is_kept_and_named(self):
        region = OutputRegion(self.region_fd(MEBIBYTE), MEBIBYTE, 2 * MEBIBYTE)
        first = region.store(memoryview(bytes(MEBIBYTE)))
        with self.assertRaises(SharedMemoryFull) as caught:
            region.store(memoryview(bytes(2 * MEBIBYTE)))
        self.assertIn("shm-max-byte-size", str(caught.exception))
        region.free(first)
        region.store(memoryview(bytes(2 * MEBIBYTE)))

    def test_an_idle_region_gives_its_pages_back(self):
        fd = self.region_fd(MEBIBYTE)
        region = OutputRegion(fd, MEBIBYTE, 64 * MEBIBYTE)
        offset = region.store(memoryview(b"x" * 20 * MEBIBYTE))
        region.trim()
        self.assertGreater(os.fstat(fd).st_blocks * 512, 19 * MEBIBYTE)
        region.free(offset)
        region.trim()
        self.assertLessEqual(os.fstat(fd).st_blocks * 512, MEBIBYTE)

    def test_an_input_block_comes_back_when_the_last_array_on_it_is_gone(self):
        given_back = []
        region = InputRegion(self.region_fd(MEBIBYTE), given_back.append)
        root = region.view(4096, 400)
        array = np.ndarray((100,), np.float32, root, 0)
        part = array[10:20].reshape(2, 5).T
        del root, array
        gc.collect()
        self.assertEqual(given_back, [])
        del part
        gc.collect()
        self.assertEqual(given_back, [4096])

    def test_views_of_a_smaller_mapping_survive_growth(self):
        fd = self.region_fd(MEBIBYTE)
        region = InputRegion(fd, lambda offset: None)
        old = region.view(0, 16)
        old[:] = 7
        os.ftruncate(fd, 4 * MEBIBYTE)
        new = region.view(3 * MEBIBYTE, 16)
        new[:] = 8
        self.assertEqual((old.tolist(), region.view(0, 16).tolist()), ([7] * 16, [7] * 16))
        with self.assertRaises(ValueError):
            region.view(4 * MEBIBYTE, 1)


if __name__ == "__main__":
    unittest.main()
