"""Layers of a small convolutional net in NumPy: forward, backward and Adam. Activations are [batch, height, width, channels]."""
import numpy as np

ADAM_BETA1, ADAM_BETA2, ADAM_EPSILON = 0.9, 0.999, 1e-8


class Layer:
    """A layer keeps its parameters in `params` and, after backward, their gradients under the same names in `grads`."""

    def __init__(self):
        self.params, self.grads = {}, {}

    def forward(self, x, training):
        raise NotImplementedError(type(self).__name__)

    def backward(self, grad):
        raise NotImplementedError(type(self).__name__)


class Conv(Layer):
    """3x3 convolution, stride 1, zero padding 1, no bias: the batch norm behind it has one."""

    def __init__(self, rng, channels_in, channels_out):
        super().__init__()
        fan_in = 9 * channels_in
        self.params["weight"] = rng.normal(0, np.sqrt(2 / fan_in), (fan_in, channels_out)).astype(np.float32)
        self.channels_in = channels_in

    def forward(self, x, training):
        n, h, w, c = x.shape
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        taps = [padded[:, dy:dy + h, dx:dx + w, :] for dy in range(3) for dx in range(3)]
        self.columns = np.concatenate(taps, axis=3).reshape(n * h * w, 9 * c)  # [pixels, taps * channels_in]
        self.shape = x.shape
        return (self.columns @ self.params["weight"]).reshape(n, h, w, -1)

    def backward(self, grad):
        n, h, w, c = self.shape
        flat = grad.reshape(n * h * w, -1)
        self.grads["weight"] = self.columns.T @ flat
        columns = (flat @ self.params["weight"].T).reshape(n, h, w, 9, c)
        padded = np.zeros((n, h + 2, w + 2, c), np.float32)
        for tap in range(9):
            dy, dx = divmod(tap, 3)
            padded[:, dy:dy + h, dx:dx + w, :] += columns[:, :, :, tap, :]
        return padded[:, 1:-1, 1:-1, :]

    def onnx_weight(self):
        """The weight as ONNX wants it: [out, in, 3, 3]."""
        weight = self.params["weight"].reshape(3, 3, self.channels_in, -1)
        return np.ascontiguousarray(weight.transpose(3, 2, 0, 1))


class BatchNorm(Layer):
    """Per-channel normalisation; running mean and variance serve inference."""

    EPSILON, MOMENTUM = 1e-5, 0.9

    def __init__(self, channels):
        super().__init__()
        self.params = {"scale": np.ones(channels, np.float32), "bias": np.zeros(channels, np.float32)}
        self.mean, self.var = np.zeros(channels, np.float32), np.ones(channels, np.float32)

    def forward(self, x, training):
        mean, var = self.mean, self.var
        if training:
            mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
            self.mean = self.MOMENTUM * self.mean + (1 - self.MOMENTUM) * mean
            self.var = self.MOMENTUM * self.var + (1 - self.MOMENTUM) * var
        self.inverse_std = 1 / np.sqrt(var + self.EPSILON)
        self.normalised = (x - mean) * self.inverse_std
        return self.normalised * self.params["scale"] + self.params["bias"]

    def backward(self, grad):
        axes = (0, 1, 2)
        self.grads["bias"] = grad.sum(axes)
        self.grads["scale"] = (grad * self.normalised).sum(axes)
        grad = grad * self.params["scale"]
        centred = grad - grad.mean(axes) - self.normalised * (grad * self.normalised).mean(axes)
        return centred * self.inverse_std


class Relu(Layer):
    def forward(self, x, training):
        self.positive = x > 0
        return x * self.positive

    def backward(self, grad):
        return grad * self.positive


class MaxPool(Layer):
    """2x2 maximum, stride 2. Of equal maxima each receives its share of the gradient."""

    def forward(self, x, training):
        n, h, w, c = x.shape
        blocks = x.reshape(n, h // 2, 2, w // 2, 2, c)
        top = blocks.max((2, 4), keepdims=True)
        winners = (blocks == top).astype(np.float32)
        self.share = winners / winners.sum((2, 4), keepdims=True)
        self.shape = x.shape
        return top[:, :, 0, :, 0, :]

    def backward(self, grad):
        return (self.share * grad[:, :, None, :, None, :]).reshape(self.shape)


class Flatten(Layer):
    """In ONNX's order: channels first."""

    def forward(self, x, training):
        self.shape = x.shape
        return x.transpose(0, 3, 1, 2).reshape(len(x), -1)

    def backward(self, grad):
        n, h, w, c = self.shape
        return grad.reshape(n, c, h, w).transpose(0, 2, 3, 1)


class Dense(Layer):
    def __init__(self, rng, features_in, features_out):
        super().__init__()
        weight = rng.normal(0, np.sqrt(1 / features_in), (features_in, features_out))
        self.params = {"weight": weight.astype(np.float32), "bias": np.zeros(features_out, np.float32)}

    def forward(self, x, training):
        self.x = x
        return x @ self.params["weight"] + self.params["bias"]

    def backward(self, grad):
        self.grads = {"weight": self.x.T @ grad, "bias": grad.sum(0)}
        return grad @ self.params["weight"].T


class Adam:
    def __init__(self, layers):
        self.layers, self.step = layers, 0
        self.moments = {}

    def update(self, rate):
        self.step += 1
        for index, layer in enumerate(self.layers):
            for name, grad in layer.grads.items():
                first, second = self.moments.get((index, name), (0.0, 0.0))
                first = ADAM_BETA1 * first + (1 - ADAM_BETA1) * grad
                second = ADAM_BETA2 * second + (1 - ADAM_BETA2) * grad * grad
                self.moments[index, name] = first, second
                first = first / (1 - ADAM_BETA1 ** self.step)
                second = second / (1 - ADAM_BETA2 ** self.step)
                layer.params[name] -= (rate * first / (np.sqrt(second) + ADAM_EPSILON)).astype(np.float32)


def softmax(logits):
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)
