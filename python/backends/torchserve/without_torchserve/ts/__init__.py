"""What handlers import of TorchServe, for a Python that does not have it. With `torchserve` installed this is not read."""
__version__ = "0.12.0"
