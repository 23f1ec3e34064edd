"""Code that a newer protobuf has generated."""

from google.protobuf import runtime_version

domain = runtime_version.Domain.PUBLIC
runtime_version.ValidateProtobufRuntimeVersion(domain, 99, 1, 0, "", "tensorflow/core/framework/types.proto")
