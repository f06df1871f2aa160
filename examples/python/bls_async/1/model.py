"""Calls add_sub twice at the same time: once as asked, once the other way round."""
import asyncio

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        return await asyncio.gather(*[self.answer(request) for request in requests])

    async def answer(self, request):
        a = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
        b = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
        there, back = await asyncio.gather(self.add_sub(a, b), self.add_sub(b, a))
        for response in (there, back):
            if response.has_error():
                return pb_utils.InferenceResponse(error=response.error())
        sums = pb_utils.get_output_tensor_by_name(there, "OUTPUT0")
        differences = pb_utils.get_output_tensor_by_name(back, "OUTPUT1")
        return pb_utils.InferenceResponse([sums, differences])

    async def add_sub(self, a, b):
        request = pb_utils.InferenceRequest(
            model_name="add_sub",
            requested_output_names=["OUTPUT0", "OUTPUT1"],
            inputs=[pb_utils.Tensor("INPUT0", a), pb_utils.Tensor("INPUT1", b)],
        )
        return await request.async_exec()
