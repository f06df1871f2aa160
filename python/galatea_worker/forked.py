"""What is left of the server in a process that the model has forked."""
from .errors import TritonModelException


class LostChannel:
    """The connection belongs to the worker alone: two processes that read and write it would mix their frames."""

    def send(self, frame):
        raise TritonModelException(
            "the server cannot be reached from a process that the model has forked: call other models, send responses and "
            "change metrics in the process that runs `execute`"
        )

    defer = send
    wait = send

    def send_if_free(self, frame):
        """Finalisers have nothing to say here."""

    def poll(self):
        """Nothing arrives."""
