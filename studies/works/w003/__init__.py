"""Work 003: live migration of virtual machines."""
