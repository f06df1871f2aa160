"""The common part of the backends of frameworks: python/backends/<name>/model.py is one class on top of this."""
from . import tabular
from .description import Description, TensorDescription, Undescribed
from .model import FrameworkModel
from .batching import BF16
from .category_columns import CategoryColumns
from .source import ModelError, ModelSource

__all__ = [
    "BF16",
    "CategoryColumns",
    "Description",
    "FrameworkModel",
    "ModelError",
    "ModelSource",
    "TensorDescription",
    "Undescribed",
    "tabular",
]
