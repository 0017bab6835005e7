"""What a run saves is what transformers loads: the same tokens, logits and texts."""
import json
import pathlib

import numpy as np
import pytest
import zr
from conftest import need
from zr import _command

torch, transformers = need("torch"), need("transformers")

TEXT = "".join(f"line {i}: {i * i % 97} apples, {'odd' if i % 2 else 'even'}.\n" for i in range(200))
MODELS = {
    "gpt2": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32},
    "llama": {"type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32},
}  # fmt: skip


def log_probs(directory, tokens, of):
    """Return zr's log-probabilities of tokens `of` at each position of a row, by the loss of one target each."""
    batches = []
    for token in of:
        for position in range(len(tokens)):
            targets = np.full((1, len(tokens)), -1, np.int32)
            targets[0, position] = token
            batches.append((tokens[None], targets))
    still = {"type": "SGD", "params": {"lr": 0}}
    found = zr.reference_step(directory, batches, optimizer=still, train={"threads": 1}).losses
    return -np.array(found).reshape(len(of), -1)


@pytest.mark.parametrize("kind", MODELS)
def test_transformers_loads_what_a_run_saves(kind):
    with open("text.txt", "w") as out:
        out.write(TEXT)
    _command.run(["tokenize", "--train", "300", "text.txt", "-o", "tokenizer"])
    run = zr.train(model=MODELS[kind], data={"train": "text.txt", "tokenizer": "tokenizer"}, seq=32, batch=8, steps=30,
                   ranks=2, stage=3, output_dir="run", optimizer={"type": "AdamW", "params": {"lr": 3e-3}})  # fmt: skip
    assert run.wait().loss < 4.5
    run.save("saved", dtype="f32")

    tokenizer = transformers.AutoTokenizer.from_pretrained("saved")
    model = transformers.AutoModelForCausalLM.from_pretrained("saved", dtype=torch.float32).eval()
    ids = tokenizer.encode(TEXT[:60])
    assert tokenizer.decode(ids) == TEXT[:60]
    tokens, of = np.array(ids[:16], np.int32), [ids[1], ids[5], 7]
    with torch.no_grad():
        wanted = torch.log_softmax(model(torch.tensor([tokens.tolist()])).logits[0], -1)[:, of].T.numpy()
    np.testing.assert_allclose(log_probs("saved", tokens, of), wanted, atol=2e-5)

    prompt = "line 7: "
    own = run.generate(prompt, tokens=12, temperature=0, past_end=True)
    given = torch.tensor([tokenizer.encode(prompt)])
    made = model.generate(given, do_sample=False, max_new_tokens=12, min_new_tokens=12, eos_token_id=None, pad_token_id=0)
    assert own == tokenizer.decode(made[0, given.shape[1] :])
    assert json.loads(pathlib.Path("saved/config.json").read_text())["vocab_size"] == len(tokenizer)
