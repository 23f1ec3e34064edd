"""Ask a served model which digit an image shows.

    python client.py --host localhost --port 8080 --image 4.png --signature_name predict --model test

The server is TensorFlow Serving or `tfjob serve`, and answers over gRPC or REST. The client asks it for the name, type
and shape of the model's input. It needs no TensorFlow: pip install 'tfjob[serve]'
"""

import argparse
import sys
from pathlib import Path

from tfjob.errors import UserError
from tfjob.serve.answers import ask, bars
from tfjob.serve.client import choose_signature, connect
from tfjob.serve.errors import Status
from tfjob.serve.images import read_png


def main():
    parser = argparse.ArgumentParser(description="Ask a served model which digit an image shows.")
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=8500)
    parser.add_argument("--image", type=Path, required=True, help="a PNG file")
    parser.add_argument("--signature_name", default="serving_default")
    parser.add_argument("--model", required=True, help="name of the model")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor for pixels; 0.003922 if the graph expects 0..1"
    )
    args = parser.parse_args()
    try:
        with connect(f"{args.host}:{args.port}", args.model) as model:
            signature = choose_signature(model.signatures(), args.signature_name)
            answer = ask(model, signature, read_png(args.image)[None], args.scale)
    except (UserError, Status) as error:
        sys.exit(f"error: {error}")
    print(f"it is a {answer.classes[0]}", *bars(answer, 0), sep="\n")


if __name__ == "__main__":
    main()
