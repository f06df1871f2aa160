"""pb_utils.ModelConfig: what auto_complete_config may change, with Triton's checks."""
import json


class ModelConfig:
    def __init__(self, model_config):
        self._model_config = json.loads(model_config)

    def as_dict(self):
        return self._model_config

    def set_max_batch_size(self, max_batch_size):
        config = self._model_config
        if config["max_batch_size"] > max_batch_size:
            raise ValueError(
                "configuration specified max_batch_size %s, but in auto-complete-config function for model '%s' "
                "specified max_batch_size %s" % (config["max_batch_size"], config["name"], max_batch_size)
            )
        config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self):
        config = self._model_config
        for scheduler in ("sequence_batching", "ensemble_scheduling"):
            if scheduler in config:
                raise ValueError(
                    "Configuration specified scheduling_choice as '%s', but auto-complete-config function for model "
                    "'%s' tries to set scheduling_choice as 'dynamic_batching'" % (scheduler, config["name"])
                )
        config.setdefault("dynamic_batching", {})

    def add_input(self, input):
        self._add("input", input, ("name", "data_type", "dims", "optional"), "'name', 'data_type', 'dims' and 'optional'")

    def add_output(self, output):
        self._add("output", output, ("name", "data_type", "dims"), "'name', 'data_type' and 'dims'")

    def _add(self, role, tensor, allowed, allowed_text):
        config = self._model_config
        model = config["name"]
        if any(key not in allowed for key in tensor):
            raise ValueError(
                "%s '%s' in auto-complete-config function for model '%s' contains property other than %s."
                % (role, tensor["name"], model, allowed_text)
            )
        if "name" not in tensor:
            raise ValueError(
                "%s in auto-complete-config function for model '%s' is missing 'name' property." % (role, model)
            )
        for key in ("data_type", "dims"):
            if key not in tensor:
                raise ValueError(
                    "%s '%s' in auto-complete-config function for model '%s' is missing '%s' property."
                    % (role, tensor["name"], model, key)
                )
        for known in config[role]:
            if known["name"] == tensor["name"]:
                self._merge(role, known, tensor)
                return
        config[role].append(tensor)

    def _merge(self, role, known, tensor):
        model = self._model_config["name"]
        if known["data_type"] not in ("TYPE_INVALID", tensor["data_type"]):
            raise ValueError(
                "unable to load model '%s', configuration expects datatype %s for %s '%s', model provides %s"
                % (model, known["data_type"], role, tensor["name"], tensor["data_type"])
            )
        if known["dims"] and known["dims"] != tensor["dims"]:
            raise ValueError(
                "model '%s', tensor '%s': the model expects dims %s but the model configuration specifies dims %s"
                % (model, tensor["name"], tensor["dims"], known["dims"])
            )
        if "optional" in known and "optional" in tensor and known["optional"] != tensor["optional"]:
            raise ValueError(
                "model '%s', tensor '%s': the model expects optional %s but the model configuration specifies optional "
                "%s" % (model, tensor["name"], tensor["optional"], known["optional"])
            )
        known.update(tensor)

    def set_model_transaction_policy(self, transaction_policy_dict):
        config = self._model_config
        if any(key != "decoupled" for key in transaction_policy_dict):
            raise ValueError(
                "model transaction property in auto-complete-config function for model '%s' contains property other "
                "than 'decoupled'." % config["name"]
            )
        policy = config.setdefault("model_transaction_policy", {})
        if "decoupled" in transaction_policy_dict:
            wanted = transaction_policy_dict["decoupled"]
            if "decoupled" in policy and policy["decoupled"] != wanted:
                raise ValueError(
                    "trying to change decoupled property in auto-complete-config for model '%s', which is already set "
                    "to '%s'." % (config["name"], policy["decoupled"])
                )
            policy["decoupled"] = wanted
