"""Maps inputs to arguments, and parts of the answer to outputs: Triton's naming rules.

Inputs are named as the arguments of forward, or `<anything>__<index>` by position; a model whose one argument is a dictionary or
a list gets all inputs in it. Outputs are `<anything>__<index>` by position, or the keys of the dictionary that the model
returns."""
import re

from galatea_framework import ModelError

_indexed = re.compile(r"^(.*)__(\d+)$")


def argument_plan(source, loaded, input_names):
    """Returns a function: tensors by input name → positional and named arguments of the call."""
    if loaded.container is dict:
        return lambda tensors: ((tensors,), {})
    order = ordered(source, loaded, input_names)
    if loaded.container is list:
        return lambda tensors: (([tensors[name] for name in order],), {})

    def arguments(tensors):
        if len(tensors) == len(order):
            return [tensors[name] for name in order], {}
        # Optional inputs may be missing, so all arguments after the first missing one are passed by name.
        given = 0
        while order[given] in tensors:
            given += 1
        keywords = {name: tensors[name] for name in order[given:] if name in tensors}
        return [tensors[name] for name in order[:given]], keywords

    return arguments


def ordered(source, loaded, input_names):
    """The inputs in the form that the function takes."""
    if loaded.names and all(name in loaded.names for name in input_names):
        return [name for name in loaded.names if name in input_names]
    positions = {name: _index_of(name) for name in input_names}
    if all(index is not None for index in positions.values()):
        order = sorted(input_names, key=positions.get)
        if [positions[name] for name in order] != list(range(len(order))):
            raise ModelError(
                "inputs of model '%s' are numbered %s: expected every number from 0 on, once"
                % (source.name, ", ".join(str(positions[name]) for name in order))
            )
        return order
    if not loaded.names or loaded.container is list or len(input_names) == len(loaded.names) == 1:
        return list(input_names)
    if len(input_names) == len(loaded.names):
        # As Triton: names that follow no convention are taken in the order of the configuration.
        return list(input_names)
    wrong = next(name for name in input_names if name not in loaded.names)
    raise ModelError(
        "input '%s' of model '%s' is neither an argument of forward (%s) nor of the form <name>__<index>, and the order of "
        "the configuration does not tell either: it has %d inputs, forward takes %d"
        % (wrong, source.name, ", ".join(loaded.names), len(input_names), len(loaded.names))
    )


def output_plan(source, output_names):
    """Returns a function: the answer of the model → values by output name."""
    positions = [_index_of(name) for name in output_names]
    order = positions if None not in positions else list(range(len(output_names)))

    def read(answer):
        if hasattr(answer, "_asdict"):
            fields = answer._asdict()
            answer = fields if all(name in fields for name in output_names) else answer
        if isinstance(answer, dict):
            return {name: _member(source, answer, name) for name in output_names}
        values = answer if isinstance(answer, (list, tuple)) and not _is_strings(answer) else [answer]
        if len(values) <= max(order):
            raise ModelError(
                "the model returned %d values, its configuration names %s" % (len(values), ", ".join(output_names))
            )
        return {name: values[index] for name, index in zip(output_names, order)}

    return read


def _member(source, answer, name):
    if name in answer:
        return answer[name]
    raise ModelError("the model returned a dictionary without '%s'; it has %s" % (name, ", ".join(map(str, answer))))


def _is_strings(answer):
    return bool(answer) and all(isinstance(item, str) for item in answer)


def _index_of(name):
    found = _indexed.match(name)
    return int(found.group(2)) if found else None


def example_config(names, texts=(), outputs=("TYPE_FP32",)):
    kinds = {name: "TYPE_STRING" if name in texts else "TYPE_FP32" for name in names}
    inputs = ['input { name: "%s" data_type: %s dims: [ -1 ] }\n' % (name, kind) for name, kind in kinds.items()]
    answers = ['output { name: "OUTPUT__%d" data_type: %s dims: [ -1 ] }\n' % (index, kind) for index, kind in enumerate(outputs)]
    return 'backend: "pytorch"\nmax_batch_size: 0\n%s%s' % ("".join(inputs), "".join(answers))
