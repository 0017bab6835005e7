"""Plans and simulations by the command zr, and the keys that describe the papers' systems."""
import json
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import baselines
from data import FUSED_SCORES_BYTES, PRODUCT_MULTIPLE, SCORES_BYTES, STAGE, TOKENS, VOCABULARY

ZERO, AC = "zero_optimization.", "activation_checkpointing."
KEPT = {"whole": {AC + "partition_activations": False}, "pieces": {AC + "partition_activations": True},
        "host": {AC + "partition_activations": True, AC + "cpu_checkpointing": True}}
# DeepSpeed's default of both buckets, in elements
BUCKETS = {ZERO + "reduce_bucket_size": 500000000, ZERO + "allgather_bucket_size": 500000000}
# what all runs have in common: fp16 also between ranks, Adam, and states of 16 bytes a parameter
COMMON = {"fp16.enabled": True, "communication_data_type": "fp16", "memory.layout": "paper",
          "gradient_accumulation_steps": 1, "optimizer.type": "AdamW", **BUCKETS}


class Failed(Exception):
    """zr refused a plan."""


class Command:
    """The command zr: `zr plan` and `zr simulate` of several configurations at a time, as JSON documents."""

    def __init__(self, path):
        self.path = path
        self.pool = ThreadPoolExecutor()
        self.folder = tempfile.TemporaryDirectory()
        self.files = {}

    def ask(self, verb, keys, ranks, *options):
        """Return the future JSON document of `zr VERB` for a configuration of these keys."""
        words = [f"--{key}={str(value).lower()}" for key, value in keys.items()]
        return self.pool.submit(self._run, [verb, "--ranks", str(ranks), "--json", "--quiet", *options, *words])

    def _run(self, words):
        done = subprocess.run([self.path, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"zr {' '.join(words)}\n{done.stderr.strip()}")
        return json.loads(done.stdout)

    def cluster(self, name, gpus=0, **members):
        """Return the path of a file of the cluster `name`, a name or a file, with these members and at least so many
        GPUs."""
        if name.endswith(".json"):
            name = str(pathlib.Path(name).resolve())
        elif gpus > (size := self.size(name))["devices"]:
            members["devices"] = -(-gpus // size["host_devices"]) * size["host_devices"]
        text = json.dumps({"include": name, "name": pathlib.Path(name).stem, **members})
        if text not in self.files:
            self.files[text] = f"{self.folder.name}/{len(self.files)}.json"
            pathlib.Path(self.files[text]).write_text(text)
        return self.files[text]

    def size(self, name):
        """Return the members of the cluster `name`: devices, host_devices, device_bytes."""
        if name not in self.files:
            self.files[name] = self.ask("simulate", {"model.preset": "gpt2"}, 1, "--cluster", name).result()["cluster"]
        return self.files[name]


def software(scores):
    """Return the kernels and streams of 2019: unfused attention, products on tensor cores only in multiples of 8."""
    return {"scores_bytes": scores, "product_multiple": PRODUCT_MULTIPLE}


def system_keys(run, padded):
    """Return the configuration of a run as its system trained it. If `padded`, pad the vocabulary as Megatron-LM did,
    to a multiple of 128 on each tensor-parallel rank."""
    multiple = 128 * run.tensor if padded else 1
    keys = {"model.type": "gpt2", "model.n_layer": run.layers, "model.n_head": run.heads, "model.n_embd": run.hidden,
            "model.n_positions": TOKENS, "model.vocab_size": -(-VOCABULARY // multiple) * multiple,
            "parallel.tensor": run.tensor, ZERO + "stage": STAGE[run.system], "data.seq_length": TOKENS,
            "train_micro_batch_size_per_gpu": run.batch, AC + "policy": "paper", ZERO + "overlap_comm": False,
            "collectives.hierarchical": False, **COMMON, **KEPT[run.kept]}
    if run.system == "zero-os":
        keys["collectives.reduce"] = "all_reduce"
    return keys


def simulate(zr, run, cluster):
    """Begin the simulation of a run of a paper, and return a function that waits for it. Exchanges run beside products
    where nothing waits for them, and computation stops while checkpoints are copied to the host."""
    on = zr.cluster(cluster, run.gpus,
                    software={**software(SCORES_BYTES), "copies_hold": True, "exchanges_beside": True})
    keys = system_keys(run, True)
    made = zr.ask("simulate", keys, run.gpus, "--cluster", on)
    if run.system != "zero-os":
        return made.result
    twice = {**keys, "collectives.reduce": "reduce_scatter", "gradient_accumulation_steps": 2,
             "gradient_reduction": "step"}
    late = zr.ask("simulate", twice, run.gpus, "--cluster", on)
    return lambda: with_fused_buffer(run, made.result(), late.result())


def with_fused_buffer(run, plain, late):
    """Return the simulation of ZeRO-OS with one buffer for all gradients, from the simulations that bench/baselines.py
    asks for."""
    ranks, cluster = run.gpus // run.tensor, plain["cluster"]
    step = baselines.fused_sec(plain, late, ranks, run.layers + 2, cluster["latency_sec"],
                               cluster["kernel_bytes_per_sec"])
    faster, waits = plain["step_sec"] / step, plain["exposed"]["stage"] + step - plain["step_sec"]
    return {**plain, "step_sec": step, "exposed": {**plain["exposed"], "stage": waits},
            "tflops": plain["tflops"] * faster, "samples_per_sec": plain["samples_per_sec"] * faster,
            "memory_bytes": baselines.fused_bytes(plain, ranks)}


def busy_sec(made):
    """Return the seconds of a step in which products or memory are busy."""
    return made["step_sec"] - sum(made["exposed"].values())


def simulate_phase(zr, recipe, phase, gpus, micro, accum, cluster):
    """Return the future simulation of a step of BERT-Large's training. From version 2.4 (2019) on, NCCL sums over many
    hosts by trees, and within each host along a chain. zr's two-level collectives with the shorter of ring and tree
    come nearest to this."""
    on = zr.cluster(cluster, gpus, software=software(recipe.scores), collectives="auto")
    keys = {"model.type": recipe.family, "model.num_hidden_layers": 24, "model.num_attention_heads": 16,
            "model.hidden_size": 1024, "model.intermediate_size": 4096, "model.max_position_embeddings": 512,
            "model.vocab_size": 30528,  # of bert-large-uncased, 30,522, padded for tensor cores as both systems did
            "data.seq_length": phase.tokens, "data.max_predictions": phase.predictions,
            **COMMON, "optimizer.type": "Lamb", "optimizer.params.variant": recipe.lamb,
            "train_micro_batch_size_per_gpu": micro, "gradient_accumulation_steps": accum, ZERO + "stage": 0,
            ZERO + "overlap_comm": recipe.overlap, "gradient_reduction": "step",
            "collectives.hierarchical": gpus > zr.size(cluster)["host_devices"]}
    return zr.ask("simulate", keys, gpus, "--cluster", on)


def config_keys(config, batch, model=None):
    """Return the configuration of one of C1 to C5, for its largest model or a given one."""
    return {"model.preset": model or f"zero-{config.name.lower()}", "memory.layout": "paper", "fp16.enabled": True,
            "optimizer.type": "AdamW", "parallel.tensor": 16, ZERO + "stage": config.stage,
            "train_micro_batch_size_per_gpu": batch, "gradient_accumulation_steps": 1, "data.seq_length": TOKENS,
            AC + "policy": "unit", ZERO + "offload_optimizer.device": "none", ZERO + "overlap_comm": True,
            **KEPT[config.kept]}


def states_keys(params, stage, tensor):
    """Return the configuration of a model of about so many parameters, of which only the model states are asked for:
    one block of GPT-2, whose vocabulary holds nearly all parameters. The vocabulary is cut over the tensor-parallel
    ranks without a rest."""
    width = 1600
    fixed = width * (12 * width + 13) + 3 * width  # the block, the last norm and one position
    vocabulary = round((params - fixed) / width / tensor) * tensor
    return {"model.type": "gpt2", "model.n_layer": 1, "model.n_head": 16, "model.n_embd": width, "model.n_positions": 1,
            "model.vocab_size": vocabulary, "data.seq_length": 1, "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 1, "parallel.tensor": tensor, ZERO + "stage": stage,
            "bf16.enabled": True, "memory.layout": "paper", "optimizer.type": "AdamW"}
