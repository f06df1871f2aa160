"""What there is once per process: the channel, the memory regions, the model's tables. Set by the runner at start."""
import itertools


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
        # `next` of it is one step for the interpreter: threads never get the same number.
        self.next_call_id = itertools.count(1).__next__


context = Context()
