"""Which digit is in the picture? With NVIDIA's own client: pip install "tritonclient[http]"

python examples/clients/digits_client.py [picture.png] [server]
"""

import pathlib
import sys

import numpy as np
import tritonclient.http as http

here = pathlib.Path(__file__).resolve().parent
picture = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else here / "../images/seven.png")
server = sys.argv[2] if len(sys.argv) > 2 else "localhost:8000"

with http.InferenceServerClient(server) as client:
    # The file itself, as binary data: one element of one picture.
    file = np.array([[picture.read_bytes()]], np.object_)
    image = http.InferInput("image", [1, 1], "BYTES").set_data_from_numpy(file)
    pixels = client.infer("digit_image", [image]).as_numpy("pixels")

    scores = http.InferInput("pixels", [1, 64], "FP32").set_data_from_numpy(pixels)
    best = http.InferRequestedOutput("scores", class_count=3)
    answer = client.infer("digits", [scores], outputs=[best]).as_numpy("scores")

    for row in pixels.reshape(8, 8):
        print("".join(" .:+#"[int(cell) // 4] * 2 for cell in row))
    for line in answer[0]:
        probability, _, label = line.decode().split(":")
        print(f"{label:8}{float(probability):.1%}")
