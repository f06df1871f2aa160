"""Registers the server's shared memory with CUDA, so that its tensors go to the GPU without another copy."""
import numpy as np

from galatea_worker.context import context


class PinnedInputs:
    """Only the thread that executes may use this: no copy from the memory may run while it is registered or forgotten."""

    def __init__(self, torch, logger):
        self._torch = torch
        self._logger = logger
        self._region = context.inputs
        self._registered = None
        if self._region is not None:
            # The server is about to give pages of the region back, and the GPU would still read these pages.
            self._region.on_trim = self._forget

    def cover(self):
        """Call it before copies, because the memory may have grown."""
        region = self._region
        if region is None or region.map is None or (self._registered is not None and self._registered[0] is region.map):
            return
        self._forget()
        view = np.frombuffer(region.map, np.uint8)
        address, size = view.ctypes.data, view.nbytes
        problem = self._torch.cuda.cudart().cudaHostRegister(address, size, 0)
        if int(problem) != 0:
            self._region = None
            self._logger.log_warn("the shared memory of inputs could not be made known to CUDA (error %d): copies to the "
                                  "GPU take a way round" % int(problem))
            return
        # The mapping is kept as long as CUDA knows its address.
        self._registered = (region.map, address)

    def _forget(self):
        if self._registered is not None:
            self._torch.cuda.cudart().cudaHostUnregister(self._registered[1])
            self._registered = None
