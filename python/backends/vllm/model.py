"""vLLM's asynchronous engine behind the tensors of Triton's vLLM backend. `<version>/model.json` has the engine's arguments."""
import asyncio
import json
import os
import sys
import threading
import uuid

import numpy as np
import triton_python_backend_utils as pb_utils

_INPUTS = [
    ("text_input", "TYPE_STRING", False),
    ("stream", "TYPE_BOOL", True),
    ("sampling_parameters", "TYPE_STRING", True),
    ("exclude_input_in_output", "TYPE_BOOL", True),
    ("return_finish_reason", "TYPE_BOOL", True),
    ("return_cumulative_logprob", "TYPE_BOOL", True),
    ("return_logprobs", "TYPE_BOOL", True),
    ("return_num_input_tokens", "TYPE_BOOL", True),
    ("return_num_output_tokens", "TYPE_BOOL", True),
    # A chat, which the model's own tokenizer makes a prompt of. Triton's backend does not have this input.
    ("chat_request", "TYPE_STRING", True),
]
_OUTPUTS = [
    ("text_output", "TYPE_STRING"),
    ("finish_reason", "TYPE_STRING"),
    ("cumulative_logprob", "TYPE_FP32"),
    ("logprobs", "TYPE_STRING"),
    ("num_input_tokens", "TYPE_UINT32"),
    ("num_output_tokens", "TYPE_UINT32"),
]
# The numbers and flags that Triton's backend takes as texts, too.
_NUMBERS = frozenset(
    "best_of max_tokens min_tokens n top_k seed logprobs prompt_logprobs temperature top_p min_p frequency_penalty "
    "presence_penalty repetition_penalty length_penalty ignore_eos skip_special_tokens use_beam_search".split()
)
_MISSING = (
    "backend 'vllm' needs the package vllm in the Python that runs the model, and it cannot be imported: %s. "
    "Install it there (pip install vllm), or name another Python: --backend-config=vllm,interpreter=/path/to/python"
)


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        draft = config.as_dict()
        known_inputs = {tensor["name"] for tensor in draft["input"]}
        known_outputs = {tensor["name"] for tensor in draft["output"]}
        for name, data_type, is_optional in _INPUTS:
            if name not in known_inputs:
                config.add_input({"name": name, "data_type": data_type, "dims": [1], "optional": is_optional})
        for name, data_type in _OUTPUTS:
            if name not in known_outputs:
                config.add_output({"name": name, "data_type": data_type, "dims": [-1]})
        config.set_max_batch_size(0)
        config.set_model_transaction_policy({"decoupled": True})
        return config

    def initialize(self, args):
        self.logger = pb_utils.Logger
        path = os.path.join(pb_utils.get_model_dir(), "model.json")
        try:
            with open(path) as file:
                arguments = json.load(file)
        except (OSError, ValueError) as error:
            raise pb_utils.TritonModelException("%s must hold the arguments of vLLM's engine as JSON: %s" % (path, error))
        try:
            from vllm import SamplingParams
            from vllm.engine.arg_utils import AsyncEngineArgs
        except ImportError as error:
            raise pb_utils.TritonModelException(_MISSING % error)
        self._sampling_params = SamplingParams
        self._tokenizer = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        arguments.setdefault("disable_log_stats", True)
        self._engine = self._wait(self._start(AsyncEngineArgs(**arguments)))
        asyncio.run_coroutine_threadsafe(self._watch(), self._loop)

    async def _start(self, arguments):
        try:
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError:
            from vllm.engine.async_llm_engine import AsyncLLMEngine as AsyncLLM
        return AsyncLLM.from_engine_args(arguments)

    async def _watch(self):
        while True:
            self._end_with_engine()
            await asyncio.sleep(1)

    def _end_with_engine(self):
        """An engine whose own process has ended answers nothing more: the server starts this process anew."""
        if getattr(self._engine, "errored", False):
            sys.stderr.write("vLLM's engine has ended: %s\n" % getattr(self._engine, "dead_error", ""))
            sys.stderr.flush()
            os._exit(1)

    def _wait(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def execute(self, requests):
        # The engine batches: each request is under way on its own, and the next ones are taken at once.
        for request in requests:
            asyncio.run_coroutine_threadsafe(self._answer(request), self._loop)
        return None

    async def _answer(self, request):
        sender = request.get_response_sender()
        final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        try:
            await self._generate(_Asked(request), sender)
            sender.send(flags=final)
        except Exception as error:
            self._end_with_engine()
            code = pb_utils.TritonError.INVALID_ARG if _is_of_client(error) else pb_utils.TritonError.INTERNAL
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("vLLM: %s" % error, code)), flags=final)

    async def _generate(self, asked, sender):
        prompt = asked.text if asked.chat is None else await self._chat_prompt(asked.chat)
        parameters = self._sampling_params(**asked.sampling())
        sent_texts, sent_tokens = {}, {}
        last = None
        async for output in self._engine.generate(prompt, parameters, str(uuid.uuid4())):
            if sender.is_cancelled():
                break
            last = output
            if asked.is_stream:
                await self._send(sender, asked.outputs(output, sent_texts, sent_tokens, ""))
        if last is not None and not asked.is_stream:
            prefix = "" if asked.excludes_input else asked.text
            await self._send(sender, asked.outputs(last, sent_texts, sent_tokens, prefix))

    async def _send(self, sender, tensors):
        response = pb_utils.InferenceResponse(output_tensors=tensors)
        # `send` waits for a client that reads slowly; the loop of the engine must not.
        await self._loop.run_in_executor(None, sender.send, response)

    async def _chat_prompt(self, chat):
        if self._tokenizer is None:
            tokenizer = self._engine.get_tokenizer()
            self._tokenizer = await tokenizer if asyncio.iscoroutine(tokenizer) else tokenizer
        tools = chat.get("tools") if chat.get("toolChoice") != "none" else None
        return self._tokenizer.apply_chat_template(
            chat["messages"],
            tools=tools or None,
            add_generation_prompt=not chat.get("continuesLast", False),
            continue_final_message=chat.get("continuesLast", False),
            tokenize=False,
            **chat.get("templateFields", {}),
        )

    def finalize(self):
        self._engine.shutdown()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)


class _Asked:
    """What a request asks for."""

    def __init__(self, request):
        def read(name, otherwise):
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            return otherwise if tensor is None else tensor.as_numpy().reshape(-1)[0]

        def text(name):
            value = read(name, None)
            return None if value is None else value.decode("utf-8")

        self.text = text("text_input")
        self.is_stream = bool(read("stream", False))
        self.excludes_input = bool(read("exclude_input_in_output", False)) or self.is_stream
        chat = text("chat_request")
        self.chat = None if chat is None else json.loads(chat)
        self.wants = {
            name: bool(read("return_" + name, False))
            for name in ("finish_reason", "cumulative_logprob", "logprobs", "num_input_tokens", "num_output_tokens")
        }
        given = text("sampling_parameters")
        # As Triton's backend: the parameters of the request stand for the input where that is not given.
        self._sampling = _of_parameters(json.loads(request.parameters())) if given is None else json.loads(given or "{}")

    def sampling(self):
        given = dict(self._sampling)
        schema, grammar = given.pop("json_schema", None), given.pop("grammar", None)
        given.pop("lora", None)
        given.pop("add_special_tokens", None)
        if schema is not None or grammar is not None:
            given.update(_structured(schema, grammar))
        if self.chat is not None:
            # A chat ends where the context ends, not after vLLM's 16 tokens.
            given.setdefault("max_tokens", None)
        if "logit_bias" in given:
            given["logit_bias"] = {int(token): bias for token, bias in given["logit_bias"].items()}
        if given.get("top_k") == -1:
            del given["top_k"]
        if self.wants["logprobs"] and "logprobs" not in given:
            given["logprobs"] = 0
        return given

    def outputs(self, output, sent_texts, sent_tokens, prefix):
        texts, reasons, likelihoods, counts, logprobs = [], [], [], [], []
        for part in output.outputs:
            told, told_tokens = sent_texts.get(part.index, 0), sent_tokens.get(part.index, 0)
            texts.append((prefix + part.text[told:]).encode("utf-8"))
            reasons.append(str(part.finish_reason or "").encode("utf-8"))
            likelihoods.append(part.cumulative_logprob or 0.0)
            counts.append(len(part.token_ids) - told_tokens)
            logprobs.append(json.dumps(_logprobs(part, told_tokens)).encode("utf-8"))
            sent_texts[part.index], sent_tokens[part.index] = len(part.text), len(part.token_ids)
        tensors = [_tensor("text_output", texts, np.object_)]
        rows = {
            "finish_reason": (reasons, np.object_),
            "cumulative_logprob": (likelihoods, np.float32),
            "logprobs": (logprobs, np.object_),
            "num_input_tokens": ([len(output.prompt_token_ids or [])], np.uint32),
            "num_output_tokens": (counts, np.uint32),
        }
        return tensors + [_tensor(name, *rows[name]) for name, isWanted in self.wants.items() if isWanted]


def _of_parameters(parameters):
    """Parameters of a request may be texts where vLLM wants numbers, and not all of them are for vLLM."""
    names = {name for name, _, _ in _INPUTS}
    return {
        key: _plain(value) if key in _NUMBERS and isinstance(value, str) else value
        for key, value in parameters.items()
        if key not in names and not key.startswith("triton_")
    }


def _plain(text):
    try:
        return json.loads(text.lower())
    except ValueError:
        return text


def _is_of_client(error):
    """Versions of vLLM from 0.12 on have classes of their own for wrong requests."""
    return isinstance(error, (ValueError, TypeError)) or any(
        kind.__name__ == "VLLMClientError" for kind in type(error).__mro__
    )


def _structured(schema, grammar):
    """Under the name that this version of vLLM has for it."""
    wanted = {"json": schema} if schema is not None else {"grammar": grammar}
    try:
        from vllm.sampling_params import StructuredOutputsParams

        return {"structured_outputs": StructuredOutputsParams(**wanted)}
    except ImportError:
        from vllm.sampling_params import GuidedDecodingParams

        return {"guided_decoding": GuidedDecodingParams(**wanted)}


def _logprobs(part, start):
    """As Triton's backend: for each token an object from token ids to their probabilities, the token itself first."""
    found = []
    for place, alternatives in zip(part.token_ids[start:], (part.logprobs or [])[start:]):
        own = {place: alternatives[place]} if place in alternatives else {}
        found.append({
            str(token): {"logprob": value.logprob, "rank": value.rank, "decoded_token": value.decoded_token}
            for token, value in {**own, **alternatives}.items()
        })
    return found


def _tensor(name, values, kind):
    return pb_utils.Tensor(name, np.array(values, dtype=kind))
