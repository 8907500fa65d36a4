"""The bandwidth calendar: a durable service around the pure engine, and its agents.

`planner` turns requests and reports into decisions of `weir._core.Calendar` and needs neither
clock nor disk; `service` is the single writer that makes each outcome durable before it is
answered; `api` is the REST face of it; `agent` and `edge` carry the decisions out.
"""
