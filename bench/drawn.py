"""Draws for bench/pairs: data and starting models, what a pair trains (Training), and ways to train it (Way)."""
import json
import pathlib
import random
import shutil
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
ZERO, AC, OPTIM = "zero_optimization.", "activation_checkpointing.", "optimizer.params."


# ---- data and starting models ---------------------------------------------------------------------


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def make_texts(at, lot):
    words = "the cat dog sat on a mat and ran far home red big sun sea ship".split()

    def sentence(n=12):
        return " ".join(lot.choice(words) for _ in range(lot.randint(3, n)))

    (at / "text.txt").write_text("".join(f"{i}: {sentence()}\n" for i in range(300)))
    (at / "small.txt").write_text("".join(f"{sentence()}\n" for _ in range(9)))
    (at / "more.txt").write_text("".join(f"{sentence()}; {i}\n" for i in range(100)))
    (at / "sentences.txt").write_text("".join(
        "".join(sentence() + "\n" for _ in range(lot.randint(1, 9))) + "\n" for _ in range(40)))
    write_lines(at / "texts.jsonl", [{"text": sentence(30)} for _ in range(90)])
    write_lines(at / "prompts.jsonl", [{"prompt": sentence(), "completion": " " + sentence()} for _ in range(90)])
    write_lines(at / "talks.jsonl", [
        {"messages": [{"role": role, "content": sentence(8)} for role in ("user", "assistant") * lot.randint(1, 2)]}
        for _ in range(90)])
    write_lines(at / "labels.jsonl", [{"text": sentence(), "label": lot.randrange(3)} |
                                      ({"text_pair": sentence()} if i % 3 else {}) for i in range(80)])
    paragraphs = []
    for i in range(50):
        text, asked = sentence(40), []
        for k in range(2):
            answer = lot.choice(text.split())
            asked.append({"id": f"{i}-{k}", "question": sentence(6),
                          "answers": [{"text": answer, "answer_start": text.index(answer)}]})
        paragraphs.append({"context": text, "qas": asked})
    (at / "squad.json").write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}))
    (at / "tok/tokenizer_config.json").write_text('{"do_lower_case": true}')
    (at / "tok/vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + words) + "\n")


def make_tokens(at, lot):
    tokens = [lot.randrange(61) for _ in range(6000)]
    data = struct.pack("<6000H", *tokens)
    (at / "nano.bin").write_bytes(data)
    (at / "llmc.bin").write_bytes(struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253) + data)
    (at / "mega.bin").write_bytes(data)
    (at / "mega.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 3, 4) + struct.pack(
        "<3i3q4q", 1000, 2000, 3000, 0, 2000, 6000, 0, 1, 2, 3))


# Models that trainings start from (`model.init`): bytes or words as tokens, and heads that 1, 2 and 4 ranks can share.
DECODER = {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32,
           "intermediate_size": 40, "max_position_embeddings": 64, "vocab_size": 260}
STARTS = {
    "gpt2": {"n_layer": 3, "n_head": 4, "n_embd": 32, "n_positions": 64, "vocab_size": 260},
    "llama": DECODER,
    "mistral": DECODER | {"sliding_window": 7},
    "qwen2": DECODER | {"tie_word_embeddings": True},
    "qwen3": DECODER | {"head_dim": 12, "num_key_value_heads": 4},
    "bert": {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 24, "intermediate_size": 40,
             "max_position_embeddings": 64, "vocab_size": 21},
}


def prepare(zr, at):
    """Make the data and the starting models in the folder `at`, always the same."""
    starts = [f"start-{name}" for family in STARTS for name in (family, f"{family}-adapter")]
    for name in "runs", "cache", "disk-1", "disk-2", "tok", *starts:
        shutil.rmtree(at / name, ignore_errors=True)
        if name not in starts:
            (at / name).mkdir(parents=True)
    (at / "none.json").write_text("{}\n")
    lot = random.Random(0)
    make_texts(at, lot)
    make_tokens(at, lot)
    for family, sizes in STARTS.items():
        data = {"data.train": at / "sentences.txt", "data.tokenizer": at / "tok", "data.seq_length": 32} \
            if family == "bert" else {"data.train": at / "text.txt"}
        model = {"model.type": family} | {f"model.{key}": value for key, value in sizes.items()}
        adapter = {"model.init": at / f"start-{family}/model", "model.lora.rank": 3, "model.lora.alpha": 5}
        for name, words in (family, model), (f"{family}-adapter", adapter):
            words |= data | {"train.steps": 1, "train.eval_interval": 0, "train.threads": 1,
                             "data.cache_dir": at / "cache", "train.output_dir": at / f"start-{name}"}
            subprocess.run([zr, "train", "--quiet", *options(words)], check=True)


# ---- what is trained ------------------------------------------------------------------------------


class Lot(random.Random):
    """Draws values. `heat` multiplies the probabilities of `maybe`."""

    heat = 1

    def one(self, *values):
        return self.choice(values)

    def maybe(self, p, words):
        """Return the words with probability p, else none."""
        return words if self.random() < p * self.heat else {}


def draw_decoder(lot, at):
    """Draw a decoder and its data."""
    family, start = lot.one("gpt2", "llama", "mistral", "qwen2", "qwen3"), lot.random() < 0.4
    seq = lot.one(8, 15, 16, 24, 33)
    if start:
        words = {"model.init": at / f"start-{family}/model"}
        words |= draw_adapter(lot, family, at) if lot.random() < 0.6 else {}
        heads = 4
    else:
        heads, head_dim = lot.one(1, 2, 3, 4, 6), lot.one(4, 6, 8, 16)
        words = {"model.type": family} | (draw_gpt2(lot, heads, head_dim, seq) if family == "gpt2" else
                                          draw_llama(lot, family, heads, head_dim, seq))
    frozen = lot.one("*.0.*", *(("*ln_*", "wte.*") if family == "gpt2" else ("*norm*", "*embed_tokens*")))
    words |= lot.maybe(0 if any("lora" in key for key in words) else 0.15, {"model.frozen": frozen})
    words |= lot.maybe(0.4, {"model.dropout": 0.1} if family == "gpt2" else {"model.attention_dropout": 0.2})
    words |= {"data.seq_length": seq}
    form = lot.one("text", "text", "small", "texts", "prompts", "tokens", "files", "mixture",
                   "prompts" if start else "talks")
    files = {"text": at / "text.txt", "small": at / "small.txt", "texts": at / "texts.jsonl",
             "prompts": at / "prompts.jsonl", "talks": at / "talks.jsonl",
             "tokens": at / lot.one("nano.bin", "llmc.bin", "mega.bin"),
             "files": [str(at / "text.txt"), str(at / "more.txt")],
             "mixture": [{"path": str(at / "text.txt"), "weight": 3}, {"path": str(at / "more.txt"), "weight": 0.5}]}
    words |= {"data.train": files[form]} | lot.maybe(0.3, {"data.order": "sequential"})
    val = at / "nano.bin" if form == "tokens" else at / "more.txt"
    if form in ("texts", "prompts", "talks"):
        words |= lot.maybe(0.8, {"data.packing": lot.one("documents", "one", "whole", "whole")})
        val = files[form]
    if form == "talks":
        words |= {"data.chat_template": lot.one("chatml", "llama3", "mistral-tekken")}
    words |= lot.maybe(0.35, {"data.val": val})
    if not start:
        words |= {"model.vocab_size": lot.one(61, 64, 97) if form == "tokens" else lot.one(256, 257, 260, 300)}
    return words, heads


def draw_gpt2(lot, heads, head_dim, seq):
    return {"model.n_layer": lot.randint(1, 4), "model.n_head": heads, "model.n_embd": heads * head_dim,
            "model.n_positions": seq + lot.one(0, 3)}


def draw_llama(lot, family, heads, head_dim, seq):
    kv = lot.choice([n for n in range(1, heads + 1) if heads % n == 0])
    words = {"model.num_hidden_layers": lot.randint(1, 4), "model.num_attention_heads": heads,
             "model.num_key_value_heads": kv, "model.hidden_size": lot.one(heads * head_dim, heads * 6),
             "model.head_dim": head_dim, "model.intermediate_size": lot.one(12, 24, 35, 48),
             "model.max_position_embeddings": lot.one(seq, 64)}
    words |= lot.maybe(0.4, {"model.tie_word_embeddings": True})
    if family in ("llama", "qwen3"):
        words |= lot.maybe(0.3, {"model.attention_bias": True})
    if family == "llama":
        words |= lot.maybe(0.3, {"model.mlp_bias": True})
    if family == "mistral":
        words |= lot.maybe(0.5, {"model.sliding_window": 5})
    if family.startswith("qwen"):
        words |= lot.maybe(0.4, {"model.use_sliding_window": True, "model.sliding_window": 6,
                                 "model.max_window_layers": 1})
    words |= lot.maybe(0.2, {"model.rope_scaling.rope_type": lot.one("linear", "dynamic", "yarn"),
                             "model.rope_scaling.factor": 2})
    return words


def draw_adapter(lot, family, at):
    if lot.random() < 0.2:
        return {"model.lora.init": at / f"start-{family}-adapter/model"}
    own = {"gpt2": ("c_attn", "attn.c_proj", "mlp.*"), "bert": ("query", "value", "dense")}
    own = own.get(family, ("q_proj", "v_proj", "mlp.*", "o_proj"))
    return ({"model.lora.rank": lot.one(1, 2, 3, 8)} | lot.maybe(0.5, {"model.lora.alpha": 4}) |
            lot.maybe(0.6, {"model.lora.targets": lot.sample(own, lot.randint(1, len(own)))}) |
            lot.maybe(0.4, {"model.lora.dropout": 0.1}))


def draw_encoder(lot, at):
    """Draw a BERT, a task and its data."""
    task = lot.one("pretraining", "pretraining", "rows", "sequence_classification", "question_answering")
    if task == "rows":  # ready rows, with the model that they are for
        golden = ROOT / "tests/golden/bert-odd"
        words = {"model.init": golden / "model", "data.train": golden / "batches.safetensors", "data.seq_length": 15,
                 "data.max_predictions": 15}
        words |= lot.maybe(0.3, {"model.lora.rank": 2}) | lot.maybe(0.4, {"model.hidden_dropout_prob": 0.1})
        return words, 3
    if lot.random() < 0.4:
        words, heads = {"model.init": at / "start-bert/model"}, 4
        words |= draw_adapter(lot, "bert", at) if lot.random() < 0.4 else {}
    else:
        heads = lot.one(1, 2, 3, 4)
        words = {"model.type": lot.one("bert", "bert-preln"), "model.num_hidden_layers": lot.randint(1, 3),
                 "model.num_attention_heads": heads, "model.hidden_size": heads * lot.one(5, 6, 8),
                 "model.intermediate_size": lot.one(12, 21, 40), "model.max_position_embeddings": 64,
                 "model.vocab_size": lot.one(21, 24, 31)}
    words |= {"data.tokenizer": at / "tok", "data.seq_length": lot.one(24, 32, 47), "model.task": task}
    words |= lot.maybe(0.5, {"model.hidden_dropout_prob": lot.one(0, 0.2), "model.attention_probs_dropout_prob": 0})
    file = {"pretraining": "sentences.txt", "sequence_classification": "labels.jsonl",
            "question_answering": "squad.json"}
    words |= {"data.train": at / file[task]} | lot.maybe(0.35, {"data.val": at / file[task]})
    if task == "pretraining":
        words |= lot.maybe(0.4, {"data.max_samples": lot.one(2, 4)}) | lot.maybe(0.3, {"data.whole_words": True})
        words |= lot.maybe(0.5, {"data.max_predictions": lot.one(1, 5, 20)})
    elif task == "question_answering":
        words |= {"data.doc_stride": lot.one(5, 8), "data.max_query_length": 8}
    else:
        words |= {"model.num_labels": lot.one(3, 5)} | lot.maybe(0.3, {"model.classifier_dropout": 0.3})
    return words, heads


def draw_optimizer(lot, steps):
    kind = lot.one("AdamW", "AdamW", "Adam", "SGD", "Lamb", "Lars", "Lion", "AdamW8bit")
    words = {"optimizer.type": kind, OPTIM + "lr": 0.01} | lot.maybe(0.6, {OPTIM + "weight_decay": 0.1})
    if kind == "Adam":
        words |= lot.maybe(0.5, {OPTIM + "adam_w_mode": False}) | lot.maybe(0.3, {OPTIM + "bias_correction": False})
    if kind in ("SGD", "Lars"):
        words |= lot.maybe(0.6, {OPTIM + "momentum": 0.9} |
                           lot.maybe(0.4 if kind == "SGD" else 0, {OPTIM + "nesterov": True}))
    if kind == "Lamb":
        words |= lot.maybe(0.7, {OPTIM + "variant": lot.one("deepspeed", "nvidia", "paper")})
    rate = lot.one("none", "none", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "WarmupExpDecayLR",
                   "WarmupPolyDecayLR", "OneCycle")
    words |= {"scheduler.type": rate}
    if rate.startswith("Warmup"):
        words |= {"scheduler.params.warmup_num_steps": lot.one(1, 2)}
    if rate in ("WarmupDecayLR", "WarmupCosineLR", "WarmupPolyDecayLR"):  # also in a run that ends early
        words |= {"scheduler.params.total_num_steps": steps + lot.one(0, 3)}
    if rate == "OneCycle":
        words |= {"scheduler.params.cycle_max_lr": 0.02, "scheduler.params.cycle_first_step_size": 2}
    return words


class Training:
    """What both runs of a pair compute: keys with their values, the ranks and the micro-batches."""

    def __init__(self, lot, at):
        lot.heat = 1
        self.steps = lot.one(2, 3, 4, 5)
        self.words, heads = draw_decoder(lot, at) if lot.random() < 0.72 else draw_encoder(lot, at)
        self.tensor = lot.choice([m for m in (1, 1, 1, 2, 2, 3, 4) if heads % m == 0])
        self.world = lot.random() < 0.25
        data_ranks = lot.one(1, 1, 2, 2, 3, 4, 4, 5, 6) if self.tensor == 1 else lot.one(1, 2, 2, 3, 4)
        self.micros = lot.one(1, 2, 4, 6, 8) if self.world else data_ranks * lot.one(1, 1, 2, 3, 4)
        self.data_ranks = data_ranks
        self.words |= draw_optimizer(lot, self.steps)
        self.words |= {"train_micro_batch_size_per_gpu": lot.one(1, 1, 2, 3), "train.steps": self.steps}
        precision = lot.one("fp32", "bf16", "fp16")
        self.words |= {"bf16.enabled": precision == "bf16", "fp16.enabled": precision == "fp16"}
        if precision == "fp16":
            self.words |= lot.one({}, {"fp16.loss_scale": 128},
                                  {"fp16.initial_scale_power": lot.one(8, 24, 34), "fp16.loss_scale_window": 1,
                                   "fp16.hysteresis": lot.one(1, 2)})
        self.words |= lot.maybe(0.5, {"gradient_clipping": lot.one(0.1, 1.0)})
        self.words |= lot.maybe(0.15, {"communication_data_type": lot.one("fp32", precision)})
        self.words |= lot.maybe(0 if self.world else 0.15, {"gradient_reduction": "step"})
        self.words |= lot.maybe(0.15, {"memory.tile_elems": lot.one(200, 700, 2000)})
        self.words |= lot.maybe(0.5, {"train.seed": lot.randrange(1000)})
        self.words |= {"train.eval_interval": lot.one(1, 2, 3), "train.eval_batches": lot.one(0, 1, 3)} \
            if "data.val" in self.words else {"train.eval_interval": lot.one(0, 2)}
        self.words |= {"train.threads": lot.one(1, 1, 1, 1, 1, 2), "data.cache_dir": at / "cache"}
        self.words |= {"train.reproducible": "world"} if self.world else {}
        self.sequence = self.tensor > 1 and lot.random() < 0.4
        self.env = lot.maybe(0.1, {"ZR_KERNELS": "v2"})


# ---- ways to train it -----------------------------------------------------------------------------


class Way:
    """How a run computes it: nothing here may change a bit."""

    def __init__(self, lot, training, at):
        lot.heat = lot.one(0.5, 1, 2, 3)  # some ways have few other keys, and some have many
        data_ranks = training.data_ranks
        if training.world:
            data_ranks = lot.choice([n for n in (1, 2, 4, 8) if training.micros % n == 0])
        self.ranks, accum = data_ranks * training.tensor, training.micros // data_ranks
        self.mpi = self.ranks <= 6 and lot.random() < 0.06
        self.env = lot.maybe(0.5 if self.mpi else 0, {"ZR_MPI": "p2p"}) | lot.maybe(0.2, {"ZR_STORE": "threads"})
        stage = lot.randrange(4)
        words = {ZERO + "stage": stage, "gradient_accumulation_steps": accum}
        if training.tensor > 1:
            words |= {"parallel.tensor": training.tensor}
            words |= {"parallel.sequence": lot.one("keep", "regather")} if training.sequence else {}
        words |= lot.one({}, {}, {"memory.layout": "paper"}, {"memory.norm": "two_pass"} if accum == 1 else {})
        words |= lot.maybe(0.5, {ZERO + "reduce_bucket_size": lot.one(100, 700, 5000)})
        words |= lot.maybe(0.5, {ZERO + "allgather_bucket_size": lot.one(100, 350, 5000)})
        words |= lot.maybe(0.3, {ZERO + "overlap_comm": False})
        if stage == 3:
            words |= lot.maybe(0.3, {ZERO + "stage3_prefetch_bucket_size": lot.one(0, 300, 14000)})
            words |= lot.maybe(0.3, {ZERO + "stage3_param_persistence_threshold": lot.one(50, 300, 10**9)})
            words |= lot.maybe(0.1, {ZERO + "stage3_model_persistence_threshold": lot.one(100, 3000)})
            words |= lot.maybe(0.2, {ZERO + "stage3_max_live_parameters": lot.one(300, 21000)})
            words |= lot.maybe(0.2, {ZERO + "stage3_max_reuse_distance": lot.one(300, 8000)})
        words |= self.recompute(lot, training, at) | self.homes(lot, stage, at)
        words |= self.groups(lot, stage, data_ranks, training)
        words |= lot.maybe(0.3 if accum > 1 else 0.03, {"train.accumulation_order": lot.one("layer", "layer", "auto")})
        words |= lot.maybe(0.15 if training.micros > 1 else 0, {"train.gradient_noise_scale": True})
        words |= lot.maybe(0.3, {"train.save_interval": lot.one(1, 2)}) | lot.maybe(0.3, {"checkpoint.async": False})
        words |= lot.maybe(0.06, {"memory.limit": lot.one("150MB", "1GB")})
        words |= lot.maybe(0.1, {"train.tensorboard": True}) | lot.maybe(0.1, {"train.keep_last": 1})
        words |= lot.maybe(0.1 if "data.val" in training.words else 0, {"train.keep_best": True})
        if training.tensor == 1 and training.words["train.eval_interval"] > 0:
            words |= lot.maybe(0.1, {"train.sample_tokens": 5})
        if lot.random() < 0.05:  # zr chooses the stage and what is recomputed
            chosen = (ZERO + "stage", AC + "policy", "memory.limit")
            words = {key: value for key, value in words.items() if key not in chosen}
            words |= {"memory": lot.one("70MB", "120MB", "1GB")}
        self.words = words

    @staticmethod
    def homes(lot, stage, at):
        """Draw where states are kept between steps."""
        optim = lot.one("", "", "", "cpu", "cpu", "nvme", "nvme", "auto")
        param = lot.one("", "", "cpu", "nvme") if stage == 3 else ""
        disk = lot.one(str(at / "disk-1"), [str(at / "disk-1"), str(at / "disk-2")])
        words, on, of = {}, ZERO + "offload_optimizer.", ZERO + "offload_param."
        if optim:
            words |= {on + "device": optim} | lot.maybe(0.4, {on + "ratio": lot.one(0.3, 0.5, 0.8, "auto")})
            words |= lot.maybe(0.3, {on + "gradients": False})
            words |= lot.maybe(0.3, {on + "buffer_count": lot.one(4, 8, 12)})
            words |= lot.maybe(0.4, {ZERO + "sub_group_size": lot.one(100, 4096, 9000)})
        if param:
            words |= {of + "device": param} | lot.maybe(0.4, {of + "ratio": lot.one(0.3, 0.5, 0.8, "auto")})
        words |= {on + "nvme_path": disk} if optim in ("nvme", "auto") else {}
        words |= {"memory.limit": lot.one("60MB", "150MB")} if optim == "auto" else {}
        words |= {of + "nvme_path": disk} if param == "nvme" else {}
        if "nvme" in (optim, param):
            words |= lot.maybe(0.3, {"aio.block_size": lot.one(4096, 8192)})
            words |= lot.maybe(0.3, {"aio.queue_depth": lot.one(1, 3)})
        return words

    @staticmethod
    def recompute(lot, training, at):
        """Draw what is recomputed, and where checkpoints are kept."""
        policy = lot.one("none", "none", "unit", "unit", "selective", "paper", "keep", "auto")
        words = {} if policy == "none" else {AC + "policy": policy}
        if policy == "unit":
            words |= lot.maybe(0.4, {AC + "every": lot.one(2, 3, 9)})
        if policy == "auto":
            words |= lot.maybe(0.5, {"memory.limit": lot.one("80MB", "200MB")})
        if policy in ("unit", "selective", "paper"):
            words |= lot.maybe(0.5 if training.tensor > 1 else 0, {AC + "partition_activations": True})
            words |= lot.one({}, {}, {AC + "cpu_checkpointing": True}, {AC + "offload": "host"},
                             {AC + "offload": "disk", ZERO + "offload_optimizer.nvme_path": at / "disk-1"})
        return words

    @staticmethod
    def groups(lot, stage, data_ranks, training):
        """Draw collectives and groups of ranks."""
        size = lot.choice([n for n in (1, 2, 4) if data_ranks % n == 0])
        words = lot.maybe(0.25 if stage == 3 else 0, {ZERO + "zero_hpz_partition_size": size})
        words = words or lot.maybe(0.25, {ZERO + "mics_shard_size": size})
        if lot.random() < 0.3:
            words |= {"parallel.ranks_per_host": lot.randint(1, data_ranks) * training.tensor}
            words |= lot.maybe(0.5, {"collectives.hierarchical": lot.one(True, False)})
        if lot.random() < 0.2:
            words |= lot.maybe(0.5, {"collectives.reduce": "all_reduce"} if stage < 2 else {})
        return words


def options(words):
    def word(value):
        return json.dumps(value) if isinstance(value, (list, bool)) else value

    return [f"--{key}={word(value)}" for key, value in words.items()]
