"""Write the traces packed-* of tests/golden: models of the Llama kind on rows of several documents, computed in float64
from float32 weights by the formulas below. Each document is computed alone, from position 0.

    python make_packed.py packed-llama packed-qwen2        (needs numpy)

NAME/expected.json  the base, which is the trace whose model and tokens are used; sizes, optimizer, losses (mean over
                    tokens with a target, before the update), gradient norms (before clipping), and the lengths of the
                    documents of each step and row. The rest of a row is padding. The last token of a document and the
                    padding have no target.

With one document in a row the program must first give the losses and norms of the base, which PyTorch computed. They
differ by about 3e-8, because transformers computes the cosines and sines of rotations in float32.
"""
import json
import pathlib
import struct
import sys

import numpy

BATCH, STEPS, CLIP = 4, 10, 1.0
ADAMW = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
FOLDER = pathlib.Path(__file__).parent
TRACES = {"packed-llama": ("llama-scaled", 71), "packed-qwen2": ("qwen2-window", 72)}  # name: base, seed


def read_weights(path):
    """Return the tensors of a safetensors file in float64."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    header.pop("__metadata__", None)
    weights = {}
    for name, tensor in header.items():
        assert tensor["dtype"] == "F32"
        begin, end = tensor["data_offsets"]
        flat = numpy.frombuffer(content[8 + size + begin:8 + size + end], "<f4")
        weights[name] = flat.reshape(tensor["shape"]).astype(numpy.float64)
    return weights


def frequencies(rope, width):
    """Return the angle by which each pair of columns turns from one position to the next."""
    turn = rope["rope_theta"] ** (-numpy.arange(0, width, 2) / width)
    if rope["rope_type"] == "default":
        return turn
    assert rope["rope_type"] == "llama3"
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    turns = rope["original_max_position_embeddings"] * turn / (2 * numpy.pi)
    share = numpy.clip((turns - low) / (high - low), 0, 1)
    return turn * (share + (1 - share) / factor)


class Model:
    """A model with its weights and gradients. Each layer returns its output and a function from dy to dx, which adds to
    the gradients of the weights."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.weight = read_weights(folder / "model.safetensors")
        self.grad = {}
        self.heads, self.kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        self.width = self.config.get("head_dim") or self.config["hidden_size"] // self.heads
        self.turn = frequencies(self.config["rope_parameters"], self.width)

    def linear(self, x, name):
        weight, bias = self.weight[name + ".weight"], self.weight.get(name + ".bias")

        def back(dy):
            self.grad[name + ".weight"] += dy.T @ x
            if bias is not None:
                self.grad[name + ".bias"] += dy.sum(0)
            return dy @ weight

        return x @ weight.T + (0 if bias is None else bias), back

    def norm(self, x, name):
        weight = self.weight[name]
        scale = 1 / numpy.sqrt((x * x).mean(1, keepdims=True) + self.config["rms_norm_eps"])
        unit = x * scale

        def back(dy):
            self.grad[name] += (dy * unit).sum(0)
            d_unit = dy * weight
            return scale * (d_unit - unit * (d_unit * unit).mean(1, keepdims=True))

        return unit * weight, back

    def rotate(self, x, sign):
        """Turn the columns of heads, of shape (tokens, heads, width), by the tokens' positions."""
        angle = sign * numpy.arange(len(x))[:, None, None] * self.turn
        first, second = numpy.split(x, 2, axis=2)
        cosine, sine = numpy.cos(angle), numpy.sin(angle)
        return numpy.concatenate([first * cosine - second * sine, second * cosine + first * sine], 2)

    def window(self, layer):
        """Return the number of tokens that a token of this layer sees, or None for all earlier tokens."""
        windowed = self.config.get("use_sliding_window") and layer >= self.config["max_window_layers"]
        return self.config["sliding_window"] if windowed else None

    def attention(self, x, layer):
        part, n, group = f"model.layers.{layer}.self_attn.", len(x), self.heads // self.kv_heads
        (q, back_q), (k, back_k), (v, back_v) = (self.linear(x, part + name) for name in ("q_proj", "k_proj", "v_proj"))
        q = self.rotate(q.reshape(n, self.heads, self.width), 1)
        k = numpy.repeat(self.rotate(k.reshape(n, self.kv_heads, self.width), 1), group, 1)
        v = numpy.repeat(v.reshape(n, self.kv_heads, self.width), group, 1)
        past = numpy.arange(n)[:, None] - numpy.arange(n)
        seen = (past >= 0) & (past < (self.window(layer) or n))
        score = numpy.where(seen, numpy.einsum("ihd,jhd->hij", q, k) / self.width ** 0.5, -numpy.inf)
        weight = numpy.exp(score - score.max(2, keepdims=True))
        weight /= weight.sum(2, keepdims=True)
        y, back_o = self.linear(numpy.einsum("hij,jhd->ihd", weight, v).reshape(n, -1), part + "o_proj")

        def shared(gradient):
            """Add up the gradients of the query heads that share a key-value head."""
            return gradient.reshape(n, self.kv_heads, group, self.width).sum(2)

        def back(dy):
            d_mixed = back_o(dy).reshape(n, self.heads, self.width)
            d_weight = numpy.einsum("ihd,jhd->hij", d_mixed, v)
            d_score = weight * (d_weight - (d_weight * weight).sum(2, keepdims=True)) / self.width ** 0.5
            d_q = self.rotate(numpy.einsum("hij,jhd->ihd", d_score, k), -1)
            d_k = self.rotate(shared(numpy.einsum("hij,ihd->jhd", d_score, q)), -1)
            d_v = shared(numpy.einsum("hij,ihd->jhd", weight, d_mixed))
            return back_q(d_q.reshape(n, -1)) + back_k(d_k.reshape(n, -1)) + back_v(d_v.reshape(n, -1))

        return y, back

    def mlp(self, x, layer):
        part = f"model.layers.{layer}.mlp."
        gate, back_gate = self.linear(x, part + "gate_proj")
        up, back_up = self.linear(x, part + "up_proj")
        share = 1 / (1 + numpy.exp(-gate))
        y, back_down = self.linear(gate * share * up, part + "down_proj")

        def back(dy):
            d_product = back_down(dy)
            d_gate = d_product * up * share * (1 + gate * (1 - share))
            return back_gate(d_gate) + back_up(d_product * gate * share)

        return y, back

    def document(self, tokens, targets, scale):
        """Return the sum of a document's losses. Add the gradient of `scale` times this sum. A target of -1 does not
        count."""
        table, steps = "model.embed_tokens.weight", []
        x = self.weight[table][tokens]
        for layer in range(self.config["num_hidden_layers"]):
            for norm, part in (("input_layernorm", self.attention), ("post_attention_layernorm", self.mlp)):
                h, back_norm = self.norm(x, f"model.layers.{layer}.{norm}.weight")
                y, back_part = part(h, layer)
                x = x + y
                steps.append((back_norm, back_part))
        h, back_last = self.norm(x, "model.norm.weight")
        logits, back_head = self.linear(h, "lm_head" if "lm_head.weight" in self.weight else table[:-len(".weight")])
        largest = logits.max(1, keepdims=True)
        lse = largest + numpy.log(numpy.exp(logits - largest).sum(1, keepdims=True))
        counts, places = targets >= 0, numpy.arange(len(tokens))
        loss = (lse[:, 0] - logits[places, targets])[counts].sum()
        d_logits = numpy.exp(logits - lse)
        d_logits[places, targets] -= 1
        dx = back_last(back_head(d_logits * counts[:, None] * scale))
        for back_norm, back_part in reversed(steps):
            dx = dx + back_norm(back_part(dx))
        numpy.add.at(self.grad[table], tokens, dx)
        return loss

    def batch(self, documents):
        """Return the mean loss of a batch, and compute the gradients."""
        self.grad = {name: numpy.zeros_like(weight) for name, weight in self.weight.items()}
        counted = sum((targets >= 0).sum() for _, targets in documents)
        return sum(self.document(*document, 1 / counted) for document in documents) / counted


def train(model, batches):
    """Train on the documents of each step, and return the losses and the gradient norms."""
    (beta1, beta2), lr, losses, norms = ADAMW["betas"], ADAMW["lr"], [], []
    mean, square = ({name: numpy.zeros_like(weight) for name, weight in model.weight.items()} for _ in range(2))
    for step, documents in enumerate(batches, 1):
        losses.append(float(model.batch(documents)))
        norms.append(float(numpy.sqrt(sum((g * g).sum() for g in model.grad.values()))))
        for name, weight in model.weight.items():
            g = model.grad[name] * min(1, CLIP / (norms[-1] + 1e-6))
            mean[name] = beta1 * mean[name] + (1 - beta1) * g
            square[name] = beta2 * square[name] + (1 - beta2) * g * g
            if weight.ndim >= 2:
                weight *= 1 - lr * ADAMW["weight_decay"]
            scale = numpy.sqrt(square[name] / (1 - beta2 ** step)) + ADAMW["eps"]
            weight -= lr / (1 - beta1 ** step) * mean[name] / scale
    return losses, norms


def draw_lengths(rng, length):
    """Draw the lengths of a row's documents, with or without padding after them."""
    lengths = []
    while sum(lengths) < length:
        lengths.append(int(rng.integers(1, length // 2 + 2)))
    if sum(lengths) > length:  # the last one is cut, or left out
        last = lengths.pop()
        lengths += [length - sum(lengths)] if last % 2 else []
    return lengths


def cut(tokens, row, length, lengths):
    """Return the documents of a row, each with its targets."""
    documents, begin = [], row * length
    for n in lengths:
        targets = tokens[begin + 1:begin + n + 1].copy()
        if n < length:
            targets[-1] = -1
        documents.append((tokens[begin:begin + n], targets))
        begin += n
    return documents


def batches_of(tokens, length, lengths):
    return [[document for row in range(BATCH)
             for document in cut(tokens, step * BATCH + row, length, lengths[step][row])] for step in range(STEPS)]


def main(folder):
    base, seed = TRACES[folder.name]
    known = json.loads((FOLDER / base / "expected.json").read_text())
    length = known["seq_length"]
    tokens = numpy.fromfile(FOLDER / base / "tokens.bin", "<u2").astype(numpy.int64)
    alone = train(Model(FOLDER / base / "model"), batches_of(tokens, length, [[[length]] * BATCH] * STEPS))
    worst = numpy.abs(numpy.array(alone) / [known["losses"], known["grad_norms"]] - 1).max()
    assert worst < 1e-7, f"{base}: the losses and norms of one document in a row are off by {worst}"
    rng = numpy.random.default_rng(seed)
    lengths = [[draw_lengths(rng, length) for _ in range(BATCH)] for _ in range(STEPS)]
    losses, norms = train(Model(FOLDER / base / "model"), batches_of(tokens, length, lengths))
    expected = {"base": base, "seq_length": length, "batch": BATCH, "optimizer": {"type": "AdamW", **ADAMW},
                "gradient_clipping": CLIP, "losses": losses, "grad_norms": norms}
    text = json.dumps(expected, indent=1)[:-2] + ',\n "documents": ' + json.dumps(lengths) + "\n}\n"
    folder.mkdir(exist_ok=True)
    (folder / "expected.json").write_text(text.replace("]], [[", "]],\n  [["))
    print(folder.name, losses[0], losses[-1], "the base, off by", worst)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        main(FOLDER / name)
