"""The bandwidth calendar: a durable service around the pure engine, and its agents.

A request comes in at `rest`, waits for the writer in `service`, is decided in `planning` by
`weir._core.Calendar`, and is kept in `storage` before it is answered; `agents` carry it out. `rest`
knows `service`, and `service` knows `planning` and `storage`, which know none of them. `client` is
for callers; `network` and `timetable` are what the calendar owns, `records` what it keeps.
"""
