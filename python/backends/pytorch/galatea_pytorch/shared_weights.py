"""ENABLE_WEIGHT_SHARING: instances are processes, and processes share what they map from a file. Parameters that were read into
memory of their own are replaced by a mapping of the place in the model's file where they came from."""
import struct
import zipfile

import numpy as np

# Smaller parameters are not worth a comparison.
MINIMUM_BYTES = 64 * 1024
_local_header = struct.Struct("<26xHH")


def share(logger, source, module):
    if source.is_gpu or module is None:
        logger.log_warn(
            "model '%s': ENABLE_WEIGHT_SHARING has no effect here; each instance has weights of its own %s"
            % (source.name, "on the GPU" if source.is_gpu else "in this format")
        )
        return
    shared = map_weights(source.path, module)
    logger.log_info("model '%s' shares %d bytes of weights between its instances" % (source.name, shared))


def map_weights(path, module):
    import torch

    records = stored_records(path)
    shared = 0
    for tensor in list(module.parameters()) + list(module.buffers()):
        size = tensor.numel() * tensor.element_size()
        if size < MINIMUM_BYTES or tensor.device.type != "cpu" or not tensor.is_contiguous():
            continue
        own = tensor.detach().reshape(-1).view(torch.uint8)
        for offset in records.get(size, ()):
            # Copy on write: a model that changes its weights changes only its own copy.
            mapped = torch.from_numpy(np.memmap(path, dtype=np.uint8, mode="c", offset=offset, shape=(size,)))
            if torch.equal(mapped, own):
                tensor.data = mapped.view(tensor.dtype).view(tensor.shape)
                shared += size
                break
    return shared


def stored_records(path):
    """Where the bytes of each record of the archive begin, by its size."""
    records = {}
    if not zipfile.is_zipfile(path):
        return records
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size < MINIMUM_BYTES:
                continue
            file.seek(entry.header_offset)
            name_bytes, extra_bytes = _local_header.unpack(file.read(_local_header.size))
            offset = entry.header_offset + _local_header.size + name_bytes + extra_bytes
            records.setdefault(entry.file_size, []).append(offset)
    return records
