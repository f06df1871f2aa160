"""The state of the process: the channel, the memory regions, the model's tables. The runner sets it at start."""
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
        # As Triton: outputs that the configuration does not name are left out, parameters of answers are no floats,
        # and a metric ends with its family. Without it such an output is an error, and the rest works.
        self.follows_triton = False
        self.cancelled = set()
        self.calls = {}
        # Of the requests of a decoupled model that are open, by handle.
        self.flows = {}
        # Requests that have come, counted by whoever reads the channel, and those begun, counted by the main thread.
        self.announced = 0
        self.begun = 0
        self.is_serving = False
        # `next` of this counter is one step for the interpreter, so threads never get the same number.
        self.next_call_id = itertools.count(1).__next__


context = Context()
