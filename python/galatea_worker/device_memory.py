"""Memory of a GPU that another process has allocated. A handle is opened once for all tensors that lie in its memory, and closed
some time after the last of them is gone: until then the memory stays, also when the process that allocated it has ended."""
import contextlib
import ctypes
import threading
import time

from .errors import TritonModelException

LIBRARY = "libcuda.so.1"
LINGER_SECONDS = 2
_LAZY_PEER_ACCESS = 1
_ALREADY_MAPPED = 208
_LEGACY_STREAM = 1


class _Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


class AlreadyMapped(TritonModelException):
    pass


class _Driver:
    """CUDA's driver, in the context that all libraries of this process share."""

    def __init__(self, library):
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise TritonModelException("an input lies on a GPU, and the CUDA driver cannot be loaded: %s" % error) from None
        self._contexts = {}
        self._call("cuInit", ctypes.c_uint(0))

    def _call(self, name, *arguments):
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            kind = AlreadyMapped if code == _ALREADY_MAPPED else TritonModelException
            raise kind("%s failed: %s (%d)" % (name, (text.value or b"unknown error").decode(), code))

    @contextlib.contextmanager
    def _on(self, device_id):
        context = self._contexts.get(device_id)
        if context is None:
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(device_id))
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self._contexts[device_id] = context
        self._call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def open(self, device_id, handle):
        address = ctypes.c_uint64()
        structure = _Handle.from_buffer_copy(handle)
        with self._on(device_id):
            self._call("cuIpcOpenMemHandle_v2", ctypes.byref(address), structure, ctypes.c_uint(_LAZY_PEER_ACCESS))
        return address.value

    def close(self, device_id, address):
        with self._on(device_id):
            self._call("cuIpcCloseMemHandle", ctypes.c_uint64(address))

    def fetch(self, device_id, address, size):
        data = bytearray(size)
        if size > 0:
            target = (ctypes.c_char * size).from_buffer(data)
            with self._on(device_id):
                self._call("cuMemcpyDtoH_v2", target, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return data

    def copy(self, device_id, target, source, size):
        """Behind all work of the legacy stream. Returns when the bytes are there."""
        stream = ctypes.c_void_p(_LEGACY_STREAM)
        with self._on(device_id):
            self._call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(target), ctypes.c_uint64(source), ctypes.c_size_t(size), stream)
            self._call("cuStreamSynchronize", stream)


class _Opened:
    __slots__ = ("device_id", "address", "users", "unused_since")

    def __init__(self, device_id, address):
        self.device_id = device_id
        self.address = address
        self.users = 0
        self.unused_since = 0.0


class Lease:
    """A tensor's claim on opened memory."""

    __slots__ = ("_memory", "_opened", "address", "device_id")

    def __init__(self, memory, opened, offset):
        self._memory = memory
        self._opened = opened
        self.device_id = opened.device_id
        self.address = opened.address + offset

    def fetch(self, size):
        return self._memory.driver.fetch(self.device_id, self.address, size)

    def put(self, source, size):
        self._memory.driver.copy(self.device_id, self.address, source, size)

    def __del__(self):
        self._memory.give_back(self._opened)


class DeviceMemory:
    def __init__(self, library=LIBRARY, linger_seconds=LINGER_SECONDS, now=time.monotonic):
        self.driver = _Driver(library)
        self._linger_seconds = linger_seconds
        self._now = now
        self._opened = {}
        # A lease may end anywhere, also in the thread that holds the lock.
        self._lock = threading.RLock()
        self._closer = None

    def lease(self, handle, device_id, offset):
        key = (handle, device_id)
        with self._lock:
            opened = self._opened.get(key)
            if opened is None:
                opened = self._opened[key] = _Opened(device_id, self._open(device_id, handle))
            opened.users += 1
            if self._closer is None:
                self._closer = threading.Thread(target=self._close_until_none, daemon=True)
                self._closer.start()
        return Lease(self, opened, offset)

    def _open(self, device_id, handle):
        try:
            return self.driver.open(device_id, handle)
        except AlreadyMapped:
            # The client has freed a region and has a new one at the same address. The old one must go first.
            self.close_unused(self._now())
            return self.driver.open(device_id, handle)

    def give_back(self, opened):
        with self._lock:
            opened.users -= 1
            opened.unused_since = self._now()

    def close_unused(self, limit=None):
        """Closes what nobody has used since. Whether something is still open."""
        with self._lock:
            limit = self._now() - self._linger_seconds if limit is None else limit
            for key, opened in list(self._opened.items()):
                if opened.users == 0 and opened.unused_since <= limit:
                    del self._opened[key]
                    # What cannot be closed must not keep the others open.
                    with contextlib.suppress(TritonModelException):
                        self.driver.close(opened.device_id, opened.address)
            if not self._opened:
                self._closer = None
            return bool(self._opened)

    def _close_until_none(self):
        while True:
            time.sleep(self._linger_seconds / 2)
            if not self.close_unused():
                return


_memory = None


def device_memory():
    global _memory
    if _memory is None:
        _memory = DeviceMemory(LIBRARY)
    return _memory
