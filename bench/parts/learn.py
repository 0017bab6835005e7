"""A small BERT that learns from real text: zr compared with transformers, by masked accuracy on held-out articles. Also
the gain from the pre-trained body in fine-tuning for labels."""
import json
import os
import pathlib
import shutil
import statistics

import measure
from measure import result, without

FOLDER, PEER = measure.OUT / "learn", measure.ROOT / "bench/peers/learn_torch.py"
STEPS, RATE, SEEDS, SEQ = 1500, 2e-3, 3, 32
TUNING, TUNING_RATE = 800, 1e-3
SAME, SAME_WANTED = "masked accuracy: zr less transformers, absolute", "<= 0.02"
TEXT, TEXT_WANTED = "masked accuracy: zr on its own rows less zr on the peer's, absolute", "<= 0.02"
TUNED, TUNED_WANTED = "accuracy of labels: pre-trained less untrained", ">= 0.05"
LEARNED, LEARNED_WANTED = "masked accuracy of zr", ">= 0.3"


def find_text():
    path = pathlib.Path(os.environ.get("ZR_SHARED", measure.ROOT / "../shared")) / "data/wikitext2-valid.txt"
    if not path.is_file():
        raise measure.Missing(f"there is no {path}; ZR_SHARED names the folder of data/")
    return path


def peer(*words):
    ended = measure.run([measure.PEERS / "python", PEER, *words], 1800)
    return json.loads(ended.stdout.splitlines()[-1])


def recipe(vocabulary, steps, rate=RATE):
    return {
        "model": {"type": "bert", "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64,
                  "intermediate_size": 256, "vocab_size": vocabulary, "max_position_embeddings": SEQ,
                  "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.1},
        "data": {"train": str(FOLDER / "rows.safetensors"), "seq_length": SEQ, "max_predictions": 5,
                 "order": "sequential"},
        "train_batch_size": 32,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW",
                      "params": {"lr": rate, "betas": [0.9, 0.999], "eps": 1e-6, "weight_decay": 0.01}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": rate,
                                                          "warmup_num_steps": 100, "warmup_type": "linear",
                                                          "total_num_steps": steps}},
        "train": {"steps": steps, "eval_interval": 0, "threads": 1, "save_end": False},
    }


def ours(told, seed, out):
    """Train with zr and return the learning rate of each step."""
    told = json.loads(json.dumps(told))
    told["train"] |= {"seed": seed, "output_dir": str(out)}
    path = FOLDER / "config.json"
    path.write_text(json.dumps(told))
    measure.run([measure.ZR, "train", path, "--quiet"], 1800)
    return [line["lr"] for line in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "lr" in line]


def race(steps):
    """Return the accuracies of zr, of the peer, and of zr with rows that zr makes from the same text."""
    told = recipe(peer("prepare", find_text(), FOLDER)["vocabulary"], steps)
    path = FOLDER / "recipe.json"
    for seed in range(SEEDS):
        rates = ours(told, seed, FOLDER / f"zr-{seed}")
        path.write_text(json.dumps(told | {"rates": rates}))
        peer("train", path, FOLDER, FOLDER / f"peer-{seed}", seed)
        measure.progress(f"seed {seed}: both are trained")
    told["data"] |= {"train": str(FOLDER / "text.txt"), "tokenizer": str(FOLDER / "tokenizer"), "order": "shuffled"}
    ours(told, 0, FOLDER / "zr-text")
    models = [*(FOLDER / f"zr-{seed}/model" for seed in range(SEEDS)),
              *(FOLDER / f"peer-{seed}" for seed in range(SEEDS)), FOLDER / "zr-text/model"]
    made = peer("measure", FOLDER, *models)
    return made[:SEEDS], made[SEEDS:2 * SEEDS], made[-1]


def tuned(body, seed, steps):
    """Return the accuracy on held-out labels after fine-tuning the model in `body`, or an untrained model if `body` is
    None."""
    told = recipe(json.loads((FOLDER / "zr-0/model/config.json").read_text())["vocab_size"], steps, TUNING_RATE)
    if body:
        told["model"] = {"init": str(body)} | {key: 0.0 for key in told["model"] if "dropout" in key}
    told["model"] |= {"task": "sequence_classification", "num_labels": 2}
    told["data"] = {"train": str(FOLDER / "labels.jsonl"), "tokenizer": str(FOLDER / "tokenizer"), "seq_length": SEQ}
    told["train_batch_size"] = 16
    told["scheduler"]["params"]["warmup_num_steps"] = steps // 10
    out = FOLDER / f"tuned-{'trained' if body else 'untrained'}-{seed}"
    ours(told, seed, out)
    ended = measure.run([measure.ZR, "eval", out / "model", "--data", FOLDER / "labels-held.jsonl", "--seq", str(SEQ),
                         "--json"], 600)
    return json.loads(ended.stdout)


def spelled(models):
    return ", ".join(f"{model['accuracy']:.4f}" for model in models)


def mean_of(models):
    return statistics.mean(model["accuracy"] for model in models)


def tell_race(made, quick):
    zr, torch, text = made
    means = mean_of(zr), mean_of(torch)
    # A shortened run has not learned enough for a comparison.
    result(LEARNED, round(means[0], 4), None if quick else LEARNED_WANTED, "",
           f"means over {SEEDS} seeds, of {zr[0]['masked']} tokens")
    result(SAME, round(abs(means[0] - means[1]), 4), None if quick else SAME_WANTED, "",
           f"each {spelled(zr)}; {spelled(torch)}")
    result(TEXT, round(abs(text["accuracy"] - means[0]), 4), None if quick else TEXT_WANTED, "",
           f"{text['accuracy']:.4f} and {means[0]:.4f}")


def tell_tuned(quick):
    steps = 20 if quick else TUNING
    bodies = [[tuned(body and FOLDER / f"zr-{seed}/model", seed, steps) for seed in range(SEEDS)]
              for body in (True, False)]
    result(TUNED, round(mean_of(bodies[0]) - mean_of(bodies[1]), 4), None if quick else TUNED_WANTED, "",
           f"each {spelled(bodies[0])}; {spelled(bodies[1])}, of {bodies[0][0]['samples']} texts")


def main():
    options = measure.options()
    steps = 100 if options.quick else STEPS
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    try:
        measure.need_peers()
        tell_race(race(steps), options.quick)
        tell_tuned(options.quick)
    except measure.Failed as error:
        for what, wanted in ((LEARNED, LEARNED_WANTED), (SAME, SAME_WANTED), (TEXT, TEXT_WANTED),
                             (TUNED, TUNED_WANTED)):
            without(what, error, wanted)


main()
