"""Asks Berth where a pod goes, and prints the node, or why there is none."""

import argparse
import pathlib
import sys
import time
import uuid

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from berth.v1 import cluster_pb2, cluster_pb2_grpc, placement_pb2, placement_pb2_grpc

TIMEOUT_SECONDS = 5
MAX_TRIES = 5


def main() -> int:
    arguments = parse_arguments()
    with open_channel(arguments) as channel:
        metadata = credentials_of(arguments)
        try:
            cluster = call(
                cluster_pb2_grpc.ClusterServiceStub(channel).GetCluster,
                cluster_pb2.GetClusterRequest(),
                metadata,
            )
            print(f"{cluster.n_nodes} nodes, generation {cluster.generation}")
            answer = call(
                placement_pb2_grpc.PlacementServiceStub(channel).Place,
                place_request(arguments),
                # The same id on every try: what is assumed is assumed once.
                [*metadata, ("berth-request-id", str(uuid.uuid4()))],
            )
        except grpc.RpcError as error:
            print(f"{error.code().name}: {error.details()}", file=sys.stderr)
            return 1
    return tell(answer.decision)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="name of the pod")
    parser.add_argument("--server", default="127.0.0.1:7420", help="HOST:PORT")
    parser.add_argument("--cpu", default="100m", help="a quantity, as in a pod's requests")
    parser.add_argument("--assume", action="store_true", help="take the room")
    parser.add_argument("--ca-file", type=pathlib.Path, help="who vouches for the server, in PEM; with it TLS is used")
    parser.add_argument("--token-file", type=pathlib.Path, help="a bearer token")
    return parser.parse_args()


def open_channel(arguments: argparse.Namespace) -> grpc.Channel:
    if arguments.ca_file is None:
        return grpc.insecure_channel(arguments.server)
    trusted = grpc.ssl_channel_credentials(arguments.ca_file.read_bytes())
    return grpc.secure_channel(arguments.server, trusted)


def credentials_of(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    if arguments.token_file is None:
        return []
    return [("authorization", f"Bearer {arguments.token_file.read_text().strip()}")]


def place_request(arguments: argparse.Namespace) -> placement_pb2.PlaceRequest:
    request = placement_pb2.PlaceRequest(admit=True)
    if arguments.assume:
        request.mode = placement_pb2.PLACE_MODE_ASSUME
    pod = request.pod
    pod.metadata.name = arguments.name
    pod.metadata.namespace = "default"
    pod.metadata.uid = f"uid-of-{arguments.name}"
    container = pod.spec.containers.add(name="main", image="app")
    container.resources.requests["cpu"].string = arguments.cpu
    return request


def call(method, request, metadata):
    """Calls until there is an answer, as patiently as an overloaded server asks."""
    for n_tries in range(1, MAX_TRIES + 1):
        try:
            return method(request, timeout=TIMEOUT_SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            may_help = error.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
            if not may_help or n_tries == MAX_TRIES:
                raise
            time.sleep(retry_delay(error, default=0.1 * 2**n_tries))
    raise AssertionError("the last try returns or raises")


def retry_delay(error: grpc.RpcError, default: float) -> float:
    """Seconds that the server asks for in `google.rpc.RetryInfo`."""
    status = rpc_status.from_call(error)
    for detail in status.details if status else []:
        info = error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            return info.retry_delay.ToTimedelta().total_seconds()
    return default


def tell(decision) -> int:
    match decision.WhichOneof("outcome"):
        case "placement":
            placed = decision.placement
            print(f"{decision.pod.name}: {placed.node_name}, one of {placed.n_feasible_nodes} nodes that fit")
            return 0
        case "unschedulable":
            print(f"{decision.pod.name}: {decision.unschedulable.message}")
        case "gated":
            print(f"{decision.pod.name}: held back by {decision.gated.plugin}")
    return 2


if __name__ == "__main__":
    sys.exit(main())
