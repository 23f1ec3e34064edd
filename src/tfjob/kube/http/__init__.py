"""HTTP/1.1 to one API server: answers, connections, a pool of them, sessions with credentials.

In: an `Access` and requests. Out: answers, as a whole or as a stream. Start reading at `session`; decision 0009 says
why there is no HTTP library here.
"""
