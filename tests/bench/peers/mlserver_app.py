"""MLServer before onnxruntime: float32 bytes as base64 in JSON, for its HTTP takes no binary tensors. Two processes, one thread of onnxruntime each. Used by http_peers.py."""
import os

import numpy
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import Base64Codec
from mlserver.types import InferenceRequest, InferenceResponse

SHAPE = [int(dim) for dim in os.environ["PEER_SHAPE"].split(",")]


class Peer(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(os.environ["PEER_MODEL"], options, providers=["CPUExecutionProvider"])
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        data = Base64Codec.decode_input(payload.inputs[0])[0]
        array = numpy.frombuffer(data, numpy.float32).reshape(1, *SHAPE)
        found = self.session.run(None, {"input": array})[0].tobytes()
        return InferenceResponse(model_name=self.name, outputs=[Base64Codec.encode_output("y", [found], use_bytes=False)])
