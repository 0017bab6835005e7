"""Write the traces of BERT in tests/golden as transformers and PyTorch compute them, in float64 from float32 weights.

    python make_bert.py NAME...        (needs torch, transformers, safetensors, numpy)

NAME/model/               the initial weights, as transformers saves them; no parameter at a neutral value
NAME/batches.safetensors  of each step, I32: input_ids, token_type_ids, attention_mask, labels (STEPS,B,T), and
                          next_sentence_label (STEPS,B); a label of -100 does not count. Of fine-tuning, instead of the
                          last two: labels (STEPS,B), or start_positions and end_positions (STEPS,B). Of masked tokens
                          alone and of tags, instead of the last one: nothing
NAME/expected.json        sizes, optimizer, losses (sum of the means of all terms, before the update), gradient norms
                          (before clipping); of pre-training the two means, and the tokens that the initial weights
                          predict at the masked places of all steps

The softmax over starts and ends of answers leaves out padding, which transformers takes in. transformers has no BERT with norms before each part. Its trace is computed here from the modules of transformers.
"""
import json
import pathlib
import sys

import numpy
import torch
import transformers
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

from make import ADAMW, BATCH, CLIP, STEPS


def sizes(width, inner, heads, layers=2, vocabulary=61, positions=48):
    return {"vocab_size": vocabulary, "num_hidden_layers": layers, "max_position_embeddings": positions,
            "hidden_size": width, "intermediate_size": inner, "num_attention_heads": heads,
            "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


# name: seed, T, configuration, and what is special
MODELS = {
    "bert-odd": (51, 15, sizes(15, 21, 3, vocabulary=53), ""),
    "bert-one": (52, 12, sizes(16, 32, 2), "one"),
    "bert-empty": (53, 15, sizes(12, 24, 2), "empty"),
    "bert-heads": (54, 24, sizes(24, 30, 3, layers=1), ""),
    "bert-preln": (55, 15, sizes(12, 18, 3), "preln"),
    "bert-classify": (56, 15, sizes(12, 18, 6) | {"num_labels": 3}, "classify"),
    "bert-answer": (57, 15, sizes(12, 18, 6), "answer"),
    "bert-masked": (58, 15, sizes(12, 18, 6), "masked"),
    "bert-tags": (59, 15, sizes(12, 18, 6) | {"num_labels": 5}, "tags"),
}
HEADS = {"classify": transformers.BertForSequenceClassification, "answer": transformers.BertForQuestionAnswering,
         "masked": transformers.BertForMaskedLM, "tags": transformers.BertForTokenClassification}


def batches(seed, length, vocabulary, special):
    """Return the inputs: two segments and padding, at least one masked token in a row that has tokens."""
    rng = numpy.random.default_rng(seed)
    tokens = rng.integers(5, vocabulary, (STEPS, BATCH, length))
    filled = rng.integers(length // 2, length + 1, (STEPS, BATCH, 1))
    if special == "empty":
        filled[:, 2] = 0
    place = numpy.arange(length)
    mask = (place < filled).astype(int)
    segments = (place >= filled // 2) * mask
    picked = (rng.random(tokens.shape) < 0.15) & (mask == 1) & (special != "one")
    picked[:, :, 1] = mask[:, :, 1] == 1
    labels = numpy.where(picked, tokens, -100)
    following = numpy.where(filled[:, :, 0] > 0, rng.integers(0, 2, (STEPS, BATCH)), -100)
    if special in ("classify", "answer", "tags"):
        return {"input_ids": tokens * mask, "token_type_ids": segments, "attention_mask": mask} | \
            targets(rng, special, filled[:, :, 0], picked | (place == 2))
    tokens = numpy.where(picked, 4, tokens) * mask
    return {"input_ids": tokens, "token_type_ids": segments, "attention_mask": mask, "labels": labels} | \
        ({} if special == "masked" else {"next_sentence_label": following})


def targets(rng, special, filled, words):
    """Return the targets of fine-tuning. One sample does not count; an answer may be [CLS]. Tags count at `words`."""
    counts = numpy.ones((STEPS, BATCH), bool)
    counts[:, 1] = numpy.arange(STEPS) % 2 == 0
    if special == "classify":
        return {"labels": numpy.where(counts, rng.integers(0, 3, (STEPS, BATCH)), -100)}
    if special == "tags":
        return {"labels": numpy.where(words & counts[:, :, None], rng.integers(0, 5, words.shape), -100)}
    start = rng.integers(0, filled)
    end = rng.integers(start, filled)
    return {"start_positions": numpy.where(counts, start, -100), "end_positions": numpy.where(counts, end, -100)}


def initial_model(seed, config, special):
    torch.manual_seed(seed)
    made = transformers.BertConfig(**config)
    made._attn_implementation = "eager"
    model = HEADS.get(special, transformers.BertForPreTraining)(made)
    if special == "preln":
        model.bert.encoder.FinalLayerNorm = torch.nn.LayerNorm(made.hidden_size, eps=made.layer_norm_eps)
    with torch.no_grad():
        for param in model.parameters():
            if param.dim() == 1:
                param.add_(0.1 * torch.randn_like(param))
            else:
                param.mul_(5.0)
    return model


def encode_before(bert, ids, segments, mask):
    """Return the output of an encoder whose layers normalise before each part, and once after the last layer."""
    x = bert.embeddings(input_ids=ids, token_type_ids=segments)
    hidden = torch.where(mask[:, None, None, :] > 0, 0.0, -torch.inf).to(x.dtype)
    hidden = torch.where(mask.sum(1)[:, None, None, None] > 0, hidden, torch.zeros_like(hidden))
    for layer in bert.encoder.layer:
        own, out = layer.attention.self, layer.attention.output
        h = out.LayerNorm(x)
        heads = [part(h).unflatten(-1, (own.num_attention_heads, -1)).transpose(1, 2)
                 for part in (own.query, own.key, own.value)]
        scores = heads[0] @ heads[1].transpose(2, 3) / heads[0].shape[-1] ** 0.5 + hidden
        x = x + out.dense((scores.softmax(-1) @ heads[2]).transpose(1, 2).flatten(2))
        h = layer.output.LayerNorm(x)
        x = x + layer.output.dense(torch.nn.functional.gelu(layer.intermediate.dense(h)))
    return bert.encoder.FinalLayerNorm(x)


def means(model, made, step):
    """Return the mean of each loss term."""
    if "labels" in made and "next_sentence_label" in made:
        return two_means(model, made, step)
    ids, segments, mask, *wanted = (torch.from_numpy(part[step]).long() for part in made.values())
    out = model(input_ids=ids, token_type_ids=segments, attention_mask=mask)
    if len(wanted) == 1:
        return [cross_entropy(out.logits.flatten(0, -2), wanted[0].flatten())]
    starts, ends = (logits.masked_fill(mask == 0, -torch.inf) for logits in (out.start_logits, out.end_logits))
    return [(cross_entropy(starts, wanted[0]) + cross_entropy(ends, wanted[1])) / 2]


def two_logits(model, ids, segments, mask):
    if hasattr(model.bert.encoder, "FinalLayerNorm"):
        x = encode_before(model.bert, ids, segments, mask)
        return model.cls(x, model.bert.pooler(x))
    out = model(input_ids=ids, token_type_ids=segments, attention_mask=mask)
    return out.prediction_logits, out.seq_relationship_logits


def two_means(model, made, step):
    ids, segments, mask, labels, following = (torch.from_numpy(part[step]).long() for part in made.values())
    logits, next_logits = two_logits(model, ids, segments, mask)
    return cross_entropy(logits.flatten(0, 1), labels.flatten()), cross_entropy(next_logits, following)


def predict(model, made):
    """Return the token with the largest logit at each masked place of all steps."""
    predicted = []
    for *inputs, labels, _ in zip(*(torch.from_numpy(part).long() for part in made.values())):
        with torch.no_grad():
            logits, _ = two_logits(model, *inputs)
        predicted += logits.argmax(-1)[labels >= 0].tolist()
    return {"predicted": predicted}


def train(model, made):
    """Train for STEPS steps, and return the numbers of expected.json."""
    params = dict(model.named_parameters())
    groups = [{"params": [p for p in params.values() if p.dim() >= 2]},
              {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, **ADAMW)
    losses, norms, parts = [], [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        terms = means(model, made, step)
        sum(terms).backward()
        norms.append(torch.nn.utils.clip_grad_norm_(params.values(), CLIP).item())
        optimizer.step()
        losses.append(sum(terms).item())
        parts.append([one.item() for one in terms])
    return {"parameters": sum(p.numel() for p in params.values()), "optimizer": {"type": "AdamW", **ADAMW},
            "gradient_clipping": CLIP, "losses": losses, "grad_norms": norms} | \
        ({"mlm_nsp": parts} if len(parts[0]) > 1 else {})


def save_before(model, folder):
    """Write the weights and config.json of a model that transformers does not have, under zr's own names."""
    names = {".attention.output.LayerNorm.": ".PreAttentionLayerNorm.", ".output.LayerNorm.": ".PostAttentionLayerNorm."}
    tensors = {}
    for name, param in model.named_parameters():
        for old, new in names.items():
            name = name.replace(old, new) if "encoder.layer" in name else name
        tensors[name] = param.detach().contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_dict() | {"model_type": "bert-preln"}
    (folder / "config.json").write_text(json.dumps({k: config[k] for k in sorted(config) if not k.startswith("_")
                                                    and not isinstance(config[k], dict)}, indent=1, default=str) + "\n")


def main(folder):
    seed, length, config, special = MODELS[folder.name]
    (folder / "model").mkdir(parents=True, exist_ok=True)
    made = batches(seed, length, config["vocab_size"], special)
    save_file({name: torch.from_numpy(part.astype("<i4").copy()) for name, part in made.items()},
              folder / "batches.safetensors")
    model = initial_model(seed, config, special)
    if special == "preln":
        save_before(model, folder / "model")
    else:
        model.save_pretrained(folder / "model", safe_serialization=True)
    model = model.double().train()
    predicted = predict(model, made) if "next_sentence_label" in made else {}
    expected = {"seq_length": length, "batch": BATCH} | train(model, made) | predicted
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        main(pathlib.Path(__file__).parent / name)
