class Loaded:
    """A model in memory, whatever file it came from."""

    def __init__(self, function, module, names=(), container=None, saved_with="", scalar_names=()):
        """`names` are those of the function's arguments, where they are known. `container` is dict or list when its one
        argument is that, of all the inputs. `module` holds the weights, None when they cannot be reached."""
        self.function = function
        self.module = module
        self.names = list(names)
        self.container = container
        self.saved_with = saved_with
        self.scalar_names = scalar_names
