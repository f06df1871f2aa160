"""Reads an estimator out of its file: skops, or a pickle where pickles are allowed."""
import os
import warnings

from galatea_framework import ModelError
from galatea_framework.model import require_pickles

# The process that described the model may go on to serve it, so the estimator is kept.
_loaded = {}


def load_estimator(source):
    """The estimator, and the version that saved it when that differs from the running version."""
    if source.path not in _loaded:
        _loaded[source.path] = _read(source)
    return _loaded[source.path]


def _read(source):
    from sklearn.exceptions import InconsistentVersionWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InconsistentVersionWarning)
        estimator = _read_skops(source) if source.path.endswith(".skops") else _read_pickle(source)
    versions = [getattr(one.message, "original_sklearn_version", None) for one in caught]
    return estimator, next((version for version in versions if version), None)


def _read_pickle(source):
    require_pickles(source, "save it with skops: skops.io.dump(estimator, 'model.skops')")
    import joblib

    try:
        return joblib.load(source.path)
    except (AttributeError, ModuleNotFoundError) as error:
        raise ModelError(
            "'%s' of model '%s' needs code that is not here (%s). A pickle has the names of classes and functions, not their "
            "code: put it into a module, import it where the model is fitted, and install it where the model is served"
            % (os.path.basename(source.path), source.name, error)
        ) from None


def _read_skops(source):
    try:
        import skops.io
    except ModuleNotFoundError:
        raise ModelError("model '%s' is a skops file: 'pip install skops' brings what reads it" % source.name) from None
    trusted = (source.parameter("skops_trusted") or "").split(",")
    # A type of the framework itself runs only code of the framework.
    found = skops.io.get_untrusted_types(file=source.path)
    unknown = [name for name in found if name.split(".")[0] not in ("sklearn", "numpy", "scipy") and name not in trusted]
    if unknown:
        raise ModelError(
            "model '%s' holds types that nobody vouches for: %s. Name those that you trust in the parameter skops_trusted, "
            "with commas between them" % (source.name, ", ".join(unknown))
        )
    return skops.io.load(source.path, trusted=found)
