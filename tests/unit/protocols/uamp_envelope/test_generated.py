"""What is checked in of the gRPC binding is what the protocol compiler makes of `protos/uamp.proto`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from perdure.protocols.uamp_envelope.grpc import uamp_pb2

ROOT = Path(__file__).parents[4]
PLACE = "perdure/protocols/uamp_envelope/grpc"
MADE = ("uamp_pb2.py", "uamp_pb2.pyi", "uamp_grpc.py")


def generate(folder: Path) -> list[str]:
    """Make the modules below a folder; the command that does it, for whoever changes the proto."""
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc", f"-I{PLACE}={ROOT / 'protos'}"),
        *(f"--python_out={folder}", f"--pyi_out={folder}", f"--grpclib_python_out={folder}"),
        f"--plugin=protoc-gen-grpclib_python={Path(sys.executable).with_name('protoc-gen-grpclib_python')}",
        f"{PLACE}/uamp.proto",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return command


def test_the_generated_code_is_of_the_proto(tmp_path: Path) -> None:
    command = generate(tmp_path)
    for name in MADE:
        same = (tmp_path / PLACE / name).read_text() == (ROOT / PLACE / name).read_text()
        assert same, f"{PLACE}/{name} is not what the compiler makes; in the root, with --*_out=.: {' '.join(command)}"


def test_a_member_that_was_not_sent_is_told_from_one_that_is_zero() -> None:
    assert not uamp_pb2.StreamRequest(stream_id="s").HasField("last_delta_seq")
    zero = uamp_pb2.StreamRequest.FromString(uamp_pb2.StreamRequest(last_delta_seq=0).SerializeToString())
    assert zero.HasField("last_delta_seq")
