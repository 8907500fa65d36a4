"""The service's HTTP: its routes, who may use them, and connections with bounds."""
