"""How long a desktop takes to reach a screen that runs no code of ours: told from its packets.

The method is work 000's (000-spec section 5): a marker packet says when a task begins, the server's
packets say when the display has been brought up to date.
"""
