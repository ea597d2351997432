"""Reference counts of arrays in tuples, without code for the numbers next to them.

To count a reference to the arrays of a tuple, Numba takes every number out of it, and of its arrays
their shapes and strides, to see whether that has a count. For the state of a sampler, of a dozen
arrays, this is a third of all code before optimization, and LLVM only deletes it.

A file of its own, since it replaces a part of Numba's that the compilers in `callees` are given.
"""

from typing import Any, ClassVar

from numba.core.runtime.context import NRTContext


class FewerReads(NRTContext):
    """Counts references as Numba does, and reads no part of a value that has no count."""

    counted: ClassVar[dict[Any, bool]] = {}  # by type

    def __init__(self, context: Any) -> None:
        super().__init__(context, True)

    def get_meminfos(self, builder: Any, ty: Any, val: Any) -> list:
        """Return the counts inside a value, with their types, in Numba's order."""
        models = self._context.data_model_manager
        model, found = models[ty], []
        if model.has_nrt_meminfo():
            found.append((ty, model.get_nrt_meminfo(builder, val)))
        for kind, part_of in model.traverse(builder):
            if self._has_count(models, kind):
                found += self.get_meminfos(builder, kind, part_of(val))
        return found

    def _has_count(self, models: Any, kind: Any) -> bool:
        if kind not in self.counted:
            self.counted[kind] = models[kind].contains_nrt_meminfo()
        return self.counted[kind]


def with_fewer_reads(context: Any) -> Any:
    """Return a target like `context` that counts references by `FewerReads`."""
    if isinstance(context.nrt, FewerReads):
        return context
    target = context.subtarget()
    target.nrt = FewerReads(target)
    return target
