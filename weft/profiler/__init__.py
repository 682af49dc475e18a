"""Profiling: where the time goes, eager ops, compiled kernels and your own blocks on one time line.

with weft.profiler.profile() as seen:
    train()
print(seen.key_averages().table(sort_by="self_cpu_time_total", row_limit=20))
seen.export_chrome_trace("trace.json")
"""

from __future__ import annotations

from weft.profiler import itt as itt
from weft.profiler.collecting import ProfilerAction as ProfilerAction
from weft.profiler.collecting import ProfilerActivity as ProfilerActivity
from weft.profiler.collecting import profile as profile
from weft.profiler.collecting import record_function as record_function
from weft.profiler.collecting import schedule as schedule
from weft.profiler.collecting import supported_activities as supported_activities
from weft.profiler.events import Average as Average
from weft.profiler.events import Event as Event
from weft.profiler.events import EventList as EventList
from weft.profiler.outside import emit_itt as emit_itt
from weft.profiler.outside import emit_nvtx as emit_nvtx
from weft.profiler.outside import kineto_available as kineto_available
from weft.profiler.outside import tensorboard_trace_handler as tensorboard_trace_handler

__all__ = [
    "Average", "Event", "EventList", "ProfilerAction", "ProfilerActivity", "emit_itt", "emit_nvtx", "itt",
    "kineto_available", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip
