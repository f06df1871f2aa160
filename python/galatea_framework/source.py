"""A model's files and settings, as its framework backend sees them."""
import json
import os


class ModelError(Exception):
    """Something about the model that its owner can put right; the message says how, and where in our code it was found does
    not matter to anybody."""

    is_plain = True


class InputError(ModelError):
    """Values in a request that the model cannot take: the client's to put right."""


class ModelSource:
    def __init__(self, model_dir, config, file_names, kind="CPU", device_id=0):
        self.model_dir = model_dir
        self.config = config
        self.name = config.get("name", "")
        self.device_id = int(device_id)
        self.kind = kind
        self.is_gpu = kind == "GPU"
        self.path = self._find(config.get("default_model_filename", ""), file_names)

    def _find(self, named, file_names):
        # A class in `runtime` may have no weights, but the name of their file is always filled in.
        runtime = self.config.get("runtime", "")
        for name in [named, runtime] if named and runtime in file_names else [named] if named else file_names:
            path = os.path.join(self.model_dir, name)
            if os.path.exists(path):
                return path
        wanted = "'%s' (default_model_filename)" % named if named else " or ".join("'%s'" % name for name in file_names)
        found = sorted(os.listdir(self.model_dir)) if os.path.isdir(self.model_dir) else []
        raise ModelError(
            "model '%s' has no %s in '%s'; there is %s"
            % (self.name, wanted, self.model_dir, ", ".join(found) if found else "nothing")
        )

    @property
    def is_batching(self):
        return self.config.get("max_batch_size", 0) > 0

    def parameter(self, *names):
        """The first of these parameters that config.pbtxt has, or None. Triton writes names in capitals."""
        parameters = self.config.get("parameters", {})
        for name in names:
            if name in parameters:
                return parameters[name].get("string_value", "")
        return None

    def flag(self, name, otherwise):
        text = self.parameter(name)
        if text is None:
            return otherwise
        words = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}
        if text.strip().lower() not in words:
            raise ModelError("parameter %s of model '%s': expected true or false, got '%s'" % (name, self.name, text))
        return words[text.strip().lower()]

    def integer(self, name, otherwise, minimum=0):
        text = self.parameter(name)
        if text is None:
            return otherwise
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise ModelError(
                "parameter %s of model '%s': expected a whole number of at least %d, got '%s'"
                % (name, self.name, minimum, text)
            )
        return value

    def choice(self, name, otherwise, allowed):
        text = self.parameter(name)
        if text is None:
            return otherwise
        if text not in allowed:
            raise ModelError(
                "parameter %s of model '%s': expected %s, got '%s'" % (name, self.name, " or ".join(allowed), text)
            )
        return text


def backend_setting(key, otherwise=None):
    """The settings of --backend-config=<backend>,<key>=<value>."""
    settings = json.loads(os.environ.get("GALATEA_BACKEND_CONFIG", "{}"))
    return settings.get(key, otherwise)
