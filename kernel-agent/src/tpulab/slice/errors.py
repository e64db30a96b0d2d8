"""The failures of a slice, one class per decision of the user."""

from __future__ import annotations


class SliceError(RuntimeError):
    """The base class; `code` stays the same when the text changes."""

    code = "SLICE"


class HostSelectionError(SliceError):
    """`%%host` names hosts that the slice does not have."""

    code = "SLICE_HOSTS"


class SliceStartError(SliceError):
    """A host could not be set up. The text names it."""

    code = "SLICE_START"


class HostLostError(SliceError):
    """A host died, froze or was cut off. The group cannot continue without it."""

    code = "SLICE_HOST_LOST"


class GroupEndedError(SliceError):
    """The user ended the group because hosts did not answer an interrupt."""

    code = "SLICE_ENDED"


class ProgramMismatchError(SliceError):
    """Hosts are about to run different programs over the same devices: they would wait for ever."""

    code = "SLICE_PROGRAMS"


#: The only remedy after a loss.
RESTART = (
    "Restart the kernel to start all hosts again; training that saves checkpoints resumes from the last."
)
