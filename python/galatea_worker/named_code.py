"""Numbers with names."""
import enum


class NamedCode(enum.IntEnum):
    """Its text is its name, as in Triton's module. Python tells the number of an IntEnum, from 3.11 on."""

    def __str__(self):
        return "%s.%s" % (type(self).__name__, self.name)

    def __format__(self, spec):
        return format(str(self), spec)
