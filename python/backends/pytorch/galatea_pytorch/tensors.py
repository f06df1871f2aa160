"""numpy's arrays ⇄ torch's tensors. On the CPU nothing is copied but the rows of several requests; those for a GPU are gathered
there, and it reads them where the server has put them (pinned_inputs.py)."""
import numpy as np

from galatea_framework import BF16, ModelError


def join(torch, arrays, device):
    first = arrays[0]
    if first.dtype == np.object_:
        # TorchScript takes strings as a list.
        return [item.decode() if isinstance(item, bytes) else str(item) for array in arrays for item in array.reshape(-1)]
    parts = [tensor_of(torch, array) for array in arrays]
    if device.type == "cpu":
        return parts[0] if len(parts) == 1 else torch.cat(parts)
    if device.type != "cuda":
        return torch.cat(parts).to(device)
    if first.ndim == 0:
        return parts[0].to(device)
    if len(parts) == 1:
        return parts[0].to(device, non_blocking=True)
    rows = sum(part.shape[0] for part in parts)
    gathered = torch.empty((rows,) + tuple(first.shape[1:]), dtype=parts[0].dtype, device=device)
    start = 0
    for part in parts:
        if part.shape[1:] != gathered.shape[1:]:
            raise ValueError("rows of shapes %s and %s" % (list(gathered.shape[1:]), list(part.shape[1:])))
        gathered[start : start + part.shape[0]].copy_(part, non_blocking=True)
        start += part.shape[0]
    return gathered


def tensor_of(torch, array):
    if isinstance(array, torch.Tensor):
        return array
    if array.dtype == BF16:
        # The type changes through views, because torch has no structures and numpy has no bfloat16.
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def is_on_gpu(torch, value):
    return isinstance(value, torch.Tensor) and value.is_cuda


def plain(value):
    """The same numbers, as they travel: in rows, and without marks that torch would apply later."""
    return value.detach().contiguous().resolve_conj().resolve_neg()


def array_of(torch, name, value):
    if isinstance(value, torch.Tensor):
        value = plain(value.cpu())
        if value.dtype == torch.bfloat16:
            return value.view(torch.int16).numpy().view(BF16)
        return value.numpy()
    if isinstance(value, str):
        value = [value]
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return np.array(value, dtype=np.object_)
    if isinstance(value, (bool, int, float)):
        return np.asarray(value)
    raise ModelError("output '%s' is a %s: the protocol carries tensors and lists of strings" % (name, type(value).__name__))
