"""LitServe before onnxruntime, with its batching: JSON with base64 in and out, as it takes no raw bytes. Used by http_peers.py."""
import base64
import os

import litserve
import numpy
import onnxruntime

SHAPE = [int(dim) for dim in os.environ["PEER_SHAPE"].split(",")]


class Peer(litserve.LitAPI):
    def setup(self, device):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(os.environ["PEER_MODEL"], options, providers=["CPUExecutionProvider"])

    def decode_request(self, request):
        return numpy.frombuffer(base64.b64decode(request["x"]), numpy.float32).reshape(SHAPE)

    def batch(self, inputs):
        return numpy.stack(inputs)

    def predict(self, batch):
        return self.session.run(None, {"input": batch})[0]

    def unbatch(self, output):
        return list(output)

    def encode_response(self, output):
        return {"y": base64.b64encode(output.tobytes()).decode()}


if __name__ == "__main__":
    api = Peer(max_batch_size=16, batch_timeout=0.002, api_path="/infer")
    server = litserve.LitServer(api, accelerator="cpu", devices=1, workers_per_device=2, timeout=60)
    server.run(host="127.0.0.1", port=int(os.environ["PEER_PORT"]), num_api_servers=1, generate_client_file=False, log_level="warning", access_log=False)
