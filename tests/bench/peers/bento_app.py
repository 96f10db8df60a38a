"""BentoML before onnxruntime: float32 bytes in, float32 bytes out. Two processes, one thread of onnxruntime each. Used by http_peers.py."""
import os

import bentoml
import numpy
import onnxruntime
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

SHAPE = [int(dim) for dim in os.environ["PEER_SHAPE"].split(",")]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1


async def infer(request: Request):
    array = numpy.frombuffer(await request.body(), numpy.float32).reshape(1, *SHAPE)
    return Response(session.run(None, {"input": array})[0].tobytes(), media_type="application/octet-stream")


session = onnxruntime.InferenceSession(os.environ["PEER_MODEL"], options, providers=["CPUExecutionProvider"])


@bentoml.service(workers=2, traffic={"timeout": 60}, logging={"access": {"enabled": False}})
@bentoml.asgi_app(Starlette(routes=[Route("/infer", infer, methods=["POST"])]))
class Peer:
    @bentoml.api
    def alive(self) -> str:
        return "yes"
