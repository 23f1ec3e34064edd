"""A queue of requests for one signature: when the engine is free, all that wait run as one batch."""
