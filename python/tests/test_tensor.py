"""Tensor, string elements, DLPack."""
import sys
import unittest

import numpy as np
import triton_python_backend_utils as pb_utils
from galatea_worker.codec import FrameWriter, read_tensor
from galatea_worker.frames import NAMED
from galatea_worker.tensor import BF16, Tensor, decode_bytes, encode_bytes

NUMERIC = [np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64]


def through_a_frame(tensor):
    writer = FrameWriter(1, 0, None, 1 << 30)
    writer.add_tensor(tensor, NAMED)
    frame = bytearray(writer.finish(1))
    return read_tensor(frame, 16, (), None)[0]


class TensorTest(unittest.TestCase):
    def test_arrays_of_every_type_and_shape_survive_a_frame(self):
        for kind in NUMERIC:
            for shape in [(), (0,), (3,), (2, 0, 4), (2, 3, 4)]:
                array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind)
                back = through_a_frame(Tensor("x", array))
                self.assertEqual((back.name(), tuple(back.shape()), back.as_numpy().dtype), ("x", shape, array.dtype))
                np.testing.assert_array_equal(back.as_numpy(), array)

    def test_inputs_are_aligned_writable_views(self):
        array = through_a_frame(Tensor("x", np.ones(5))).as_numpy()
        self.assertTrue(array.flags.aligned and array.flags.writeable and not array.flags.owndata)

    def test_strings_of_any_bytes_survive_a_frame(self):
        array = np.array([[b"", b"\x00\xff"], ["ünï", 5]], dtype=np.object_)
        back = through_a_frame(Tensor("x", array)).as_numpy()
        self.assertEqual(back.tolist(), [[b"", b"\x00\xff"], ["ünï".encode(), b"5"]])

    def test_an_element_that_is_itself_a_list_stays_one_element(self):
        self.assertEqual(decode_bytes(encode_bytes(np.array([b"a", b"bc"], dtype=np.object_))), [b"a", b"bc"])

    def test_what_is_not_contiguous_or_not_little_endian_is_put_in_order(self):
        array = np.arange(6, dtype=">i4").reshape(2, 3).T
        np.testing.assert_array_equal(through_a_frame(Tensor("x", array)).as_numpy(), array)

    def test_refusals_have_tritons_texts(self):
        for arguments, message in [
            (("", np.zeros(1)), "Tensor name cannot be an empty string."),
            (("a", np.array(["x"])), "NumPy dtype is not supported."),
            (("a", np.zeros(1, np.complex64)), "NumPy dtype is not supported."),
        ]:
            with self.assertRaises(pb_utils.TritonModelException) as caught:
                Tensor(*arguments)
            self.assertEqual(str(caught.exception), message)
        with self.assertRaises(TypeError):
            Tensor("a", [1, 2])

    def test_cut_off_strings_are_refused(self):
        for data in [b"\x05\x00\x00\x00ab", b"\x01\x00"]:
            with self.assertRaises(pb_utils.TritonModelException):
                decode_bytes(data)
        with self.assertRaises(pb_utils.TritonModelException):
            decode_bytes(b"\x01\x00\x00\x00a", 2)


class DLPackTest(unittest.TestCase):
    def test_arrays_go_through_dlpack_without_a_copy(self):
        array = np.arange(6.0).reshape(2, 3)
        tensor = Tensor("a", array)
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))
        for source in [tensor.to_dlpack(), array, tensor]:
            back = Tensor.from_dlpack("b", source)
            np.testing.assert_array_equal(back.as_numpy(), array)
            self.assertEqual(back.raw().obj.ctypes.data, array.ctypes.data)

    def test_the_array_of_a_tensor_of_dlpack_may_be_written_to_and_the_tensor_stays(self):
        source = np.zeros(2)
        tensor = Tensor.from_dlpack("a", source)
        tensor.as_numpy()[...] = 7
        self.assertEqual(tensor.as_numpy().tolist(), [7, 7])
        self.assertEqual(Tensor.from_dlpack("b", tensor.to_dlpack()).as_numpy().tolist(), [0, 0])
        self.assertEqual((source.tolist(), bytes(tensor.raw())), ([0, 0], bytes(16)))

    def test_memory_without_elements_has_no_order(self):
        for shape in [(0,), (0, 3), (3, 0), (2, 0, 4), (0, 0)]:
            tensor = Tensor.from_dlpack("a", np.zeros(shape, np.float32))
            self.assertEqual((tensor.shape(), bytes(tensor.raw())), (list(shape), b""))
            self.assertEqual(Tensor.from_dlpack("b", tensor.to_dlpack()).shape(), list(shape))

    def test_a_capsule_keeps_its_tensor_until_it_is_gone(self):
        raw = np.array([0x3F80], np.uint16)
        for tensor in [Tensor("a", np.arange(3)), Tensor.from_raw("a", BF16, raw.shape, raw)]:
            before = sys.getrefcount(tensor)
            capsule = tensor.to_dlpack()
            self.assertEqual(sys.getrefcount(tensor), before + 1)
            back = Tensor.from_dlpack("b", capsule)
            del capsule
            self.assertEqual(sys.getrefcount(tensor), before + 1)
            del back
            self.assertEqual(sys.getrefcount(tensor), before)

    def test_bfloat16_has_no_numpy_form_but_goes_through_dlpack(self):
        raw = np.array([0x3F80, 0x4000], np.uint16)
        tensor = Tensor.from_raw("a", BF16, raw.shape, raw)
        with self.assertRaises(pb_utils.TritonModelException):
            tensor.as_numpy()
        back = Tensor.from_dlpack("b", tensor.to_dlpack())
        self.assertEqual((back.triton_dtype(), bytes(back.raw())), (BF16, raw.tobytes()))
        self.assertEqual(bytes(through_a_frame(back).raw()), raw.tobytes())

    def test_refusals_have_tritons_texts(self):
        strings = Tensor("a", np.array([b"x"], dtype=np.object_))
        for action, message in [
            (lambda: strings.to_dlpack(), "DLPack does not have support for string tensors."),
            (lambda: Tensor.from_dlpack("", np.zeros(1)), "Tensor name cannot be an empty string."),
            (lambda: Tensor.from_dlpack("a", np.zeros((2, 3)).T), "DLPack tensor is not contiguous."),
            (lambda: Tensor.from_dlpack("a", 5), "Provided tensor is not supported."),
        ]:
            with self.assertRaises(pb_utils.TritonModelException) as caught:
                action()
            self.assertIn(message, str(caught.exception))


class FunctionsTest(unittest.TestCase):
    def test_names_and_types_translate_as_in_triton(self):
        self.assertIs(pb_utils.triton_string_to_numpy("TYPE_FP16"), np.float16)
        self.assertIsNone(pb_utils.triton_to_numpy_type(14))
        self.assertEqual(pb_utils.numpy_to_triton_type(np.dtype(np.int64)), 9)
        self.assertEqual(pb_utils.numpy_to_triton_type(np.bytes_), 13)
        with self.assertRaises(KeyError):
            pb_utils.triton_string_to_numpy("TYPE_BF16")

    def test_configurations_are_looked_up_by_name(self):
        config = {"input": [{"name": "A", "dims": [1]}], "output": [], "model_transaction_policy": {"decoupled": True}}
        self.assertEqual(pb_utils.get_input_config_by_name(config, "A"), {"name": "A", "dims": [1]})
        self.assertIsNone(pb_utils.get_output_config_by_name(config, "A"))
        self.assertTrue(pb_utils.using_decoupled_model_transaction_policy(config))

    def test_string_tensors_are_framed(self):
        framed = pb_utils.serialize_byte_tensor(np.array([b"a", "bc"], dtype=np.object_))
        self.assertEqual(framed, b"\x01\x00\x00\x00a\x02\x00\x00\x00bc")
        self.assertEqual(pb_utils.deserialize_bytes_tensor(framed).tolist(), [b"a", b"bc"])
        self.assertIsNone(pb_utils.serialize_byte_tensor(np.array([1])))
        self.assertEqual(pb_utils.serialize_byte_tensor(np.array([], dtype=np.object_)), ())


if __name__ == "__main__":
    unittest.main()
