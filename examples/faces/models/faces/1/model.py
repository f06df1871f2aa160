"""Finds faces with the three networks of MTCNN, which are models of their own. Needs numpy and pillow.

The networks take pictures with the width before the height, as they were trained."""
import io

import numpy as np
import triton_python_backend_utils as pb_utils
from PIL import Image

SMALLEST_FACE = 40
MOST_PIXELS = 4_000_000
THRESHOLDS = (0.6, 0.7, 0.7)
Image.MAX_IMAGE_PIXELS = MOST_PIXELS


def ask(model, inputs, outputs):
    tensors = [pb_utils.Tensor(name, np.ascontiguousarray(value, np.float32)) for name, value in inputs.items()]
    request = pb_utils.InferenceRequest(model_name=model, requested_output_names=outputs, inputs=tensors)
    response = request.exec()
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return [pb_utils.get_output_tensor_by_name(response, name).as_numpy() for name in outputs]


def pixels(picture, box, size):
    """A part of the picture as a network takes it. What lies outside of the picture is black."""
    part = picture.resize(size, Image.BOX) if box is None else picture.crop(box).resize(size, Image.BOX)
    return (np.asarray(part, np.float32).transpose(1, 0, 2) - 127.5) / 128


def best(boxes, scores, overlap, of_smaller=False):
    """The likeliest of boxes that overlap, as indexes."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    left, kept = np.argsort(-scores), []
    while len(left) > 0:
        first, others = left[0], left[1:]
        kept.append(first)
        low = np.maximum(boxes[first, :2], boxes[others, :2])
        high = np.minimum(boxes[first, 2:], boxes[others, 2:])
        shared = np.prod(np.clip(high - low, 0, None), axis=1)
        whole = np.minimum(areas[first], areas[others]) if of_smaller else areas[first] + areas[others] - shared
        left = others[shared <= overlap * whole]
    return np.array(kept, int)


def moved(boxes, shifts):
    """Boxes with their corners where the network wants them."""
    sizes = boxes[:, 2:] - boxes[:, :2]
    return boxes + shifts * np.concatenate([sizes, sizes], axis=1)


def squares(boxes):
    centres, sides = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]).max(axis=1, keepdims=True)
    return np.round(np.concatenate([centres - sides / 2, centres + sides / 2], axis=1))


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        file = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy().ravel()[0]
        try:
            picture = Image.open(io.BytesIO(file)).convert("RGB")
        except (OSError, Image.DecompressionBombError) as error:
            told = pb_utils.TritonError("IMAGE cannot be read: %s" % error, pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse(error=told)
        boxes = self.proposals(picture)
        boxes, _, _ = self.judged(picture, boxes, 24, "face_refine", "input_2", ["dense_2", "softmax_1"], THRESHOLDS[1])
        outputs = ["dense_5", "softmax_2", "dense_6"]
        boxes, scores, points = self.judged(
            picture, boxes, 48, "face_points", "input_3", outputs, THRESHOLDS[2], True
        )
        values = {"BOX": boxes, "SCORE": scores, "POINTS": points}
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, np.ascontiguousarray(value, np.float32)) for name, value in values.items()]
        )

    def proposals(self, picture):
        """Squares of 12 pixels that look like a face, in the picture at ever smaller sizes."""
        found, scale = [np.empty((0, 9), np.float32)], 12 / SMALLEST_FACE
        while min(picture.size) * scale >= 12:
            size = [int(np.ceil(side * scale)) for side in picture.size]
            shifts, chances = ask("face_propose", {"input_1": pixels(picture, None, size)[None]}, ["conv2d_4", "softmax"])
            places = np.argwhere(chances[0, :, :, 1] >= THRESHOLDS[0])
            if len(places) > 0:
                corners = np.concatenate([2 * places + 1, 2 * places + 12], axis=1) / scale
                scores = chances[0, places[:, 0], places[:, 1], 1]
                rows = np.concatenate([corners, scores[:, None], shifts[0, places[:, 0], places[:, 1]]], axis=1)
                found.append(rows[best(corners, scores, 0.5)])
            scale *= 0.709
        rows = np.concatenate(found)
        rows = rows[best(rows[:, :4], rows[:, 4], 0.7)]
        return squares(moved(rows[:, :4], rows[:, 5:]))

    def judged(self, picture, boxes, size, model, input_name, outputs, threshold, is_last=False):
        """What the network keeps of the boxes: boxes, scores, and points where it has any."""
        if len(boxes) == 0:
            return np.empty((0, 4)), np.empty(0), np.empty((0, 5, 2))
        parts = np.stack([pixels(picture, tuple(box.astype(int)), (size, size)) for box in boxes])
        shifts, chances, *rest = ask(model, {input_name: parts}, outputs)
        kept = chances[:, 1] > threshold
        boxes, scores, shifts = boxes[kept], chances[kept, 1], shifts[kept]
        points = np.zeros((len(boxes), 5, 2))
        if rest:
            # Five x, then five y, as parts of the box.
            sizes = (boxes[:, 2:] - boxes[:, :2])[:, None]
            points = boxes[:, None, :2] + rest[0][kept].reshape(-1, 2, 5).transpose(0, 2, 1) * sizes
        if is_last:
            boxes = moved(boxes, shifts)
            picked = best(boxes, scores, 0.7, of_smaller=True)
        else:
            picked = best(boxes, scores, 0.7)
            boxes = squares(moved(boxes, shifts))
        return boxes[picked], scores[picked], points[picked]
