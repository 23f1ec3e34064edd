"""Serving: models answer over gRPC and REST, with the API of TensorFlow Serving.

`python -m tfjob.serve --model_name=mnist --model_base_path=/models/mnist` runs the server. A request goes from
`grpc_server` or `rest_server` to `predict`, which asks `models` for the version that answers, checks the inputs against
its signature (`savedmodel`) and hands them to a queue (`batch`), which runs them in TensorFlow's C library (`engine`).
The server never imports TensorFlow's Python package, and knows nothing of jobs.
"""
