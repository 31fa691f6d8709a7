"""Looking at runs: live while they run, and as they were recorded."""

from agentrt.trace.viewer.live import LiveView, live_view

__all__ = ["LiveView", "live_view"]
