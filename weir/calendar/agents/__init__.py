"""What runs on hosts and routers: transfers are moved at their rates, and these are enforced."""
