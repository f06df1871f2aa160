"""What there is once per process: the channel, the memory regions, the model's tables. Set by the runner at start."""


class Context:
    def __init__(self):
        self.channel = None
        self.inputs = None
        self.outputs = None
        self.inline_limit = 1 << 62
        self.instance_name = ""
        self.model_dir = None
        self.is_decoupled = False
        self.input_names = []
        self.output_names = []
        self.output_index = {}
        self.cancelled = set()
        self.calls = {}
        self.is_serving = False
        self._next_call = 0

    def next_call_id(self):
        self._next_call += 1
        return self._next_call


context = Context()
