"""What an estimator was fitted on, column by column. scikit-learn does not keep the types of a table, but encoders keep their
categories, imputers their types and vectorisers are for text: the parts of an estimator are walked down to them."""
import numpy as np

from galatea_framework import ModelError

# Estimators of these modules turn every number into a float32 before they look at it.
_FLOAT32_MODULES = ("sklearn.tree._classes", "sklearn.ensemble._forest", "sklearn.ensemble._iforest", "sklearn.ensemble._gb")
# Parts that get the same table as the estimator that holds them.
_PART_NAMES = ("best_estimator_", "estimator_", "regressor_", "classifier_", "_preprocessor")
_EXACT_INTEGERS = 2**53


class Evidence:
    """One column. `kind` is number, integer, bool or string; `is_sure` when a part of the estimator says so: `by` names it."""

    def __init__(self, kind="number", is_sure=False, by="", examples=(), missing=(), is_float32=False, is_text=False):
        self.kind = kind
        self.is_sure = is_sure
        self.by = by
        # Values that the estimator knows, and the value that stands for none: [], [None] or [nan].
        self.examples = list(examples)
        self.missing = list(missing)
        self.is_float32 = is_float32
        # Goes to a vectoriser, which takes a list of texts and not a table.
        self.is_text = is_text

    def merged(self, other):
        """Two parts look at the same column."""
        first, second = (self, other) if self.is_sure or not other.is_sure else (other, self)
        is_string = (first.is_sure and first.kind == "string") or (second.is_sure and second.kind == "string")
        return Evidence(
            "string" if is_string else first.kind,
            first.is_sure,
            first.by,
            [one for one in first.examples if one in second.examples] or first.examples or second.examples,
            first.missing or second.missing,
            first.is_float32 and second.is_float32,
            first.is_text or second.is_text,
        )


def columns_of(estimator, positions):
    """Evidence by position. A position that no part of the estimator looks at is left out."""
    name = type(estimator).__name__
    if estimator is None or isinstance(estimator, str):
        return {} if estimator == "drop" else {position: Evidence() for position in positions}
    if hasattr(estimator, "steps"):
        return _of_steps([step for _, step in estimator.steps], positions)
    if hasattr(estimator, "transformers_"):
        return _of_column_transformer(estimator, positions)
    if hasattr(estimator, "transformer_list"):
        return _merged([columns_of(part, positions) for _, part in estimator.transformer_list])
    if hasattr(estimator, "build_analyzer"):
        _refuse_files(estimator)
        return {position: Evidence("string", True, name, ["a"], is_text=True) for position in positions[:1]}
    if name in ("DictVectorizer", "FeatureHasher", "MultiLabelBinarizer"):
        raise ModelError(
            "%s takes dictionaries or lists of any length, which no tensor can hold: save the steps that come after it as a "
            "model of their own, or write a Python model" % name
        )
    if type(estimator).__module__ in _FLOAT32_MODULES:
        return {position: Evidence(is_float32=True) for position in positions}
    if hasattr(estimator, "categories_"):
        return {position: _of_categories(name, one) for position, one in zip(positions, estimator.categories_)}
    if hasattr(estimator, "statistics_"):
        return _of_imputer(estimator, positions)
    parts = parts_of(estimator, positions)
    if parts:
        return _merged([columns_of(part, seen) for part, seen in parts])
    is_float32 = _has_float32(estimator)
    return {position: Evidence(is_float32=is_float32) for position in positions}


def parts_of(estimator, positions):
    """The fitted estimators inside that get the table itself, each with the positions that it gets."""
    name = type(estimator).__name__
    if name in ("RFE", "RFECV"):
        return []
    if name == "FrozenEstimator":
        return [(estimator.estimator, positions)]
    calibrated = getattr(estimator, "calibrated_classifiers_", None)
    if calibrated:
        return [(one.estimator, positions) for one in calibrated]
    parts = [one for one in _flat(getattr(estimator, "estimators_", [])) if hasattr(one, "fit")]
    chosen = getattr(estimator, "estimators_features_", None)
    if chosen is not None and len(chosen) == len(parts):
        return [(part, [positions[index] for index in some]) for part, some in zip(parts, chosen)]
    if name in ("ClassifierChain", "RegressorChain"):
        # The later members of a chain get the answers of the earlier ones as well.
        parts = parts[:1]
    if not parts:
        parts = [part for part in (getattr(estimator, one, None) for one in _PART_NAMES) if hasattr(part, "fit")][:1]
    return [(part, positions) for part in parts]


def _flat(parts):
    return list(parts.flat) if isinstance(parts, np.ndarray) else list(parts)


def _of_steps(steps, positions):
    found = {}
    for step in steps:
        if step is None or step == "passthrough":
            continue
        here = columns_of(step, positions)
        found = _merged([found, here]) if found else here
        # Behind these steps the columns are still the same.
        if type(step).__name__ != "FunctionTransformer" and not (_keeps_columns(step) and len(here) == len(positions)):
            break
    return found


def _keeps_columns(step):
    return type(step).__name__ == "SimpleImputer" and not step.add_indicator


def _of_column_transformer(estimator, positions):
    found = []
    for name, part, _ in estimator.transformers_:
        seen = [positions[index] for index in estimator._transformer_to_input_indices[name]]
        if len(seen) > 0:
            found.append(columns_of(part, seen))
    return _merged(found)


def _of_categories(name, categories):
    known = [one for one in list(categories) if not _is_missing(one)]
    missing = [one for one in list(categories) if _is_missing(one)]
    kinds = {_kind_of(one) for one in known}
    kind = kinds.pop() if len(kinds) == 1 else "string" if "string" in kinds else "number"
    if kind == "integer" and all(abs(int(one)) <= _EXACT_INTEGERS for one in known):
        kind = "number"
    return Evidence(kind, bool(known), name, known, missing[:1])


def _of_imputer(estimator, positions):
    name = type(estimator).__name__
    marker = getattr(estimator, "missing_values", np.nan)
    missing = [None if marker is None else np.nan] if _is_missing(marker) else []
    kind = getattr(estimator, "_fit_dtype", np.asarray(estimator.statistics_).dtype).kind
    found = {}
    for position, value in zip(positions, estimator.statistics_):
        is_string = kind in "OUS" and isinstance(value, str)
        examples = [] if _is_missing(value) else [value]
        found[position] = Evidence("string" if is_string else "number", kind not in "OUS" or is_string, name, examples, missing)
    return found


def _merged(all_found):
    merged = {}
    for found in all_found:
        for position, evidence in found.items():
            merged[position] = merged[position].merged(evidence) if position in merged else evidence
    return merged


def _kind_of(value):
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (int, np.integer)):
        return "integer"
    return "string" if isinstance(value, (str, bytes)) else "number"


def _is_missing(value):
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _has_float32(estimator):
    """A fit on float32 leaves float32 behind: coefficients, centres, rows."""
    try:
        values = list(vars(estimator).values())
    except TypeError:
        return False
    nested = [one for value in values if isinstance(value, list) for one in value[:4]]
    return any(getattr(value, "dtype", None) == np.float32 for value in values + nested)


def _refuse_files(vectoriser):
    if getattr(vectoriser, "input", "content") != "content":
        raise ModelError(
            "%s was made with input='%s': it would read files of the server that clients name. Make it with input='content'"
            % (type(vectoriser).__name__, vectoriser.input)
        )
