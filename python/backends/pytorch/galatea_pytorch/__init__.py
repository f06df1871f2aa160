"""The kinds of files that the PyTorch backend serves. Each has a module with `load` and `describe`."""
