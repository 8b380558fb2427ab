"""Windows: a child in a job object ends with the process that holds the job, and within its memory.

Elsewhere children see to it themselves (`programs.die_with_parent`, resource limits) and this does
nothing. The system closes a job with its holder, however that one ends, and ends all that is in it.
"""

from __future__ import annotations

import sys


def contain(pid: int, memory_bytes: int = 0) -> object | None:
    """Put process `pid` into a job of its own; 0 bytes mean no limit on memory.

    Returns what must be kept as long as the process may live, None where there are no jobs or the
    system refused: a child that is not contained still ends when its input does.
    """
    if sys.platform == "win32":
        return _Job.around(pid, memory_bytes)
    return None


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _KILL_ON_CLOSE = 0x2000
    _PROCESS_MEMORY = 0x100
    _EXTENDED_LIMITS = 9
    _SET_QUOTA_AND_TERMINATE = 0x0100 | 0x0001

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    class _Job:
        """A job object (Win32, "Job Objects"); closed, and its process ended, when it is freed."""

        def __init__(self, kernel: ctypes.WinDLL, handle: int) -> None:
            self._kernel, self._handle = kernel, handle

        @classmethod
        def around(cls, pid: int, memory_bytes: int) -> _Job | None:
            kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            for name in ("CreateJobObjectW", "OpenProcess"):
                getattr(kernel, name).restype = wintypes.HANDLE
            limits = _ExtendedLimits()
            limits.BasicLimitInformation.LimitFlags = _KILL_ON_CLOSE
            if memory_bytes:
                limits.BasicLimitInformation.LimitFlags |= _PROCESS_MEMORY
                limits.ProcessMemoryLimit = memory_bytes
            handle = kernel.CreateJobObjectW(None, None)
            process = kernel.OpenProcess(_SET_QUOTA_AND_TERMINATE, False, pid)
            if not handle or not process:
                return None
            job = cls(kernel, handle)
            size = ctypes.sizeof(limits)
            held = wintypes.HANDLE(handle)
            done = kernel.SetInformationJobObject(
                held, _EXTENDED_LIMITS, ctypes.byref(limits), size
            ) and kernel.AssignProcessToJobObject(held, wintypes.HANDLE(process))
            kernel.CloseHandle(wintypes.HANDLE(process))
            return job if done else None

        def __del__(self) -> None:
            self._kernel.CloseHandle(wintypes.HANDLE(self._handle))
