"""Ask a served model about the MNIST test images, and print how many it gets wrong.

    python mnist_client.py --server 127.0.0.1:9000 --data_dir ../mnist/data
    python mnist_client.py --server 127.0.0.1:9000 --image 4.png

The server is TensorFlow Serving or `tfjob serve`, and answers over gRPC or REST. The client asks it for the name, type
and shape of the model's input. It needs no TensorFlow: pip install 'tfjob[serve]'
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tfjob.errors import UserError
from tfjob.serve.answers import ask, bars
from tfjob.serve.client import choose_signature, connect
from tfjob.serve.errors import Status
from tfjob.serve.images import read_mnist, read_png

SIGNATURES = ("predict_images", "serving_default")
DEADLINE = 5.0  # seconds


def main():
    parser = argparse.ArgumentParser(description="Ask a served model about handwritten digits.")
    parser.add_argument("--server", required=True, help="HOST:PORT")
    parser.add_argument("--data_dir", type=Path, default=Path("/tmp/mnist-data"), help="folder with the test files")
    parser.add_argument("--image", type=Path, help="ask about this PNG file instead")
    parser.add_argument("--concurrency", type=int, default=1, help="requests at a time")
    parser.add_argument("--num_tests", type=int, default=100, help="test images, one per request")
    parser.add_argument("--model_name", default="mnist")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor for pixels; 0.003922 if the graph expects 0..1"
    )
    args = parser.parse_args()
    try:
        with connect(args.server, args.model_name, DEADLINE) as model:
            known = model.signatures()
            signature = choose_signature(known, next((name for name in SIGNATURES if name in known), ""))
            if args.image:
                read_digit(model, signature, args)
            else:
                count_errors(model, signature, args)
    except (UserError, Status) as error:
        sys.exit(f"error: {error}")


def read_digit(model, signature, args):
    answer = ask(model, signature, read_png(args.image)[None], args.scale)
    print(f"it is a {answer.classes[0]}", *bars(answer, 0), sep="\n")


def count_errors(model, signature, args):
    images, labels = read_mnist(args.data_dir)
    count = min(args.num_tests, len(images))

    def is_right(number):
        try:
            answer = ask(model, signature, images[number : number + 1], args.scale)
        except Status as error:
            print(f"\n{error}")
            return False
        print(".", end="", flush=True)
        return answer.classes[0] == labels[number]

    with ThreadPoolExecutor(args.concurrency) as pool:
        right = sum(pool.map(is_right, range(count)))
    print(f"\nInference error rate: {1 - right / count:.1%}")


if __name__ == "__main__":
    main()
