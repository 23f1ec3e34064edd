"""The loop: observe, plan, write status once, act; and the doors to the world that it uses."""
