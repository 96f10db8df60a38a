"""FastAPI before onnxruntime: float32 bytes in, float32 bytes out. Two processes of uvicorn, one thread of onnxruntime each. Used by http_peers.py."""
import os

import numpy
import onnxruntime
from fastapi import FastAPI, Request, Response

SHAPE = [int(dim) for dim in os.environ["PEER_SHAPE"].split(",")]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(os.environ["PEER_MODEL"], options, providers=["CPUExecutionProvider"])
app = FastAPI()


@app.post("/infer")
async def infer(request: Request):
    array = numpy.frombuffer(await request.body(), numpy.float32).reshape(1, *SHAPE)
    return Response(session.run(None, {"input": array})[0].tobytes(), media_type="application/octet-stream")
