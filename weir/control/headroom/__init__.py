"""Headroom: elephant flows go in what all others leave, by rules at the switches where they enter.

An elephant is told of by an application, through the calendar, or found in what switches sample.
`book` decides which flows are marked, from what is told and found and what switches have counted;
`detector` finds them in samples; `paths` chooses their ways (000-spec sections 3.3.1 and 3.3.2).
"""
