"""Asks 'intent', and then the one branch that it names. Several requests wait beside each other."""
import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils

# For each intent: the model of its branch, that model's input, and its output.
BRANCHES = {"order": ("orders", "TEXT", "ANSWER"), "question": ("questions", "input", "label")}


async def ask(model, input_name, output_name, text):
    request = pb_utils.InferenceRequest(
        model_name=model, requested_output_names=[output_name], inputs=[pb_utils.Tensor(input_name, text)]
    )
    response = await request.async_exec()
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return pb_utils.get_output_tensor_by_name(response, output_name).as_numpy()


class TritonPythonModel:
    async def execute(self, requests):
        return await asyncio.gather(*[self.answer(request) for request in requests])

    async def answer(self, request):
        text = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(1, 1)
        intent = await ask("intent", "input", "label", text)
        answer = await ask(*BRANCHES[intent[0, 0].decode()], text)
        outputs = {"INTENT": intent.reshape(1), "ANSWER": answer.reshape(1)}
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in outputs.items()])
