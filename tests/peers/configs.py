"""Check that the parsers of other systems accept the configurations that `zr plan --emit` writes.

    configs.py ZR TEMP MEGATRON_OPTIONS

Random plans of each format are given to DeepSpeedConfig, accelerate's loader and plugins, TrainingArguments, the
dataclasses of megatron-core (TransformerConfig, DistributedDataParallelConfig, OptimizerConfig), and Megatron-LM's
options against a list of their names, types and choices. torchtitan's command lines are checked against the dataclasses
of its package if it can be imported.
"""
import json
import os
import pathlib
import random
import re
import subprocess
import sys

import tap

os.environ.setdefault("DS_ACCELERATOR", "cpu")
ZR, TEMP, OPTIONS = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
PLANS = int(os.environ.get("ZR_PLANS", "200"))
MODELS = {"torchtitan": ["llama3.1-8b", "llama3.1-70b", "qwen3-0.6b", "qwen3-14b"]}
RANDOM = random.Random(11)


def one(*values):
    return RANDOM.choice(values)


def options(kind):
    """Return the arguments of a random plan that a format can express."""
    model = one(*MODELS.get(kind, ["gpt2-124m", "llama3.2-1b", "qwen3-0.6b"]))
    given = ["--preset", model, "--seq", "512", "--batch", one("1", "2"), f"--gradient_accumulation_steps={one(1, 4)}",
             f"--gradient_clipping={one(0, 1, 0.5)}",
             f"--activation_checkpointing.policy={one('none', 'unit')}"]
    if kind == "deepspeed":
        stage = one(0, 1, 2, 3)
        given += ["--stage", str(stage)]
        if stage:
            given += [f"--zero_optimization.offload_optimizer.device={one('none', 'cpu')}"]
        given += one([], ["--with", "overlap_comm=true"], ["--with", "reduce_bucket_size=5e7"],
                     ["--with", "grad_accum_dtype=fp32"])
    elif kind == "accelerate":
        system = one("fsdp2", "deepspeed", "ddp")
        given += ["--system", system, "--stage", {"fsdp2": one("2", "3"), "deepspeed": one("1", "2", "3"), "ddp": "0"}[system]]
    elif kind in ("fsdp2", "torchtitan"):
        given += ["--stage", one("2", "3")]
        if kind == "torchtitan":
            given += one([], ["--with", "compile=model,loss"], ["--with", "optimizer=foreach"],
                         ["--parallel.tensor=2"], ["--parallel.pipeline=2", "--with", "gradients_persist=false"])
    elif kind == "megatron":
        given += ["--stage", one("0", "1")]
        given += one([], ["--parallel.tensor=2", "--with", "sequence-parallel=true"], ["--parallel.pipeline=2"],
                     ["--parallel.pipeline=2", "--parallel.schedule=interleaved", "--parallel.chunks=2"],
                     ["--with", "grad-reduce-in-bf16=true"], ["--with", "attention-backend=flash"])
    elif kind == "trainer":
        given += ["--stage", one("0", "2", "3")]
    return given


def emit(kind, suffix):
    """Write a random plan, and return its path and its text. Check that reading it gives the same file."""
    path = TEMP / f"emitted{suffix}"
    again = TEMP / f"again{suffix}"
    for old in (path, again):
        old.unlink(missing_ok=True)
    given = [ZR, "plan", "--quiet", "--ranks", "8", "--profile", "h100", *options(kind), "--emit", kind, "-o", path]
    ended = subprocess.run(given, capture_output=True, text=True)
    if ended.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, given))}: {ended.stderr}")
    read = subprocess.run([ZR, "plan", "--quiet", "--from", path, "--profile", "h100", "--emit", kind, "-o", again],
                          capture_output=True, text=True)
    if read.returncode != 0:
        raise AssertionError(f"{path.read_text()}: {read.stderr}")
    if path.read_text() != again.read_text():
        raise AssertionError(f"{path.read_text()} is read as {again.read_text()}")
    table = [[line for line in told.splitlines() if line.startswith("  ")] for told in (ended.stdout, read.stdout)]
    if table[0] != table[1]:
        raise AssertionError(f"another plan: {ended.stdout}\n{read.stdout}")
    return path, path.read_text()


# ---- parsers -----------------------------------------------------------------------------------

class Ranks:
    """What DeepSpeedConfig asks of a grid of processes."""

    @staticmethod
    def get_data_parallel_world_size():
        return 8


def deepspeed_accepts(path, text):
    from deepspeed.runtime.config import DeepSpeedConfig
    config = DeepSpeedConfig(str(path), mpu=Ranks())
    told = json.loads(text)
    assert config.zero_config.stage == told["zero_optimization"]["stage"]
    assert config.train_micro_batch_size_per_gpu == told["train_micro_batch_size_per_gpu"]
    assert config.gradient_clipping == told["gradient_clipping"]


def accelerate_accepts(path, text):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    load_config_from_file(str(path))
    arguments = launch_command_parser().parse_args(["--config_file", str(path), "--cpu", "train.py"])
    _validate_launch_command(arguments)
    sections = re.findall(r"^  (\w+):", text, re.MULTILINE)
    for name in sections:  # accelerate copies unknown keys of a section silently
        assert hasattr(arguments, name) or name.startswith("parallelism_config"), name


def trainer_accepts(path, text):
    import yaml
    from transformers import TrainingArguments
    arguments = TrainingArguments(use_cpu=True, output_dir=str(TEMP), **{
        key: value for key, value in yaml.safe_load(text).items() if key not in ("fsdp", "fsdp_config")})
    assert arguments.per_device_train_batch_size >= 1


def flags(text):
    """Return the options of an emitted command line with their values, without the launcher's."""
    inside = text[text.index("args=("):]
    told = {}
    for line in inside.splitlines()[1:]:
        line = line.strip()
        if line == ")":
            return told
        if line.startswith("--"):
            name, *values = line[2:].split()
            told[name] = values
    raise AssertionError("no end of args")


def fits(value, kind):
    if kind.startswith("{"):
        return value in kind[1:-1].split(",")
    return kind == "str" or (kind == "float" and float(value) == float(value)) or (kind == "int" and int(value) == int(value))


def megatron_options():
    known = {}
    for line in OPTIONS.read_text().splitlines():
        if line and not line.startswith("#"):
            name, count, kind = line.split(" ", 2)
            known[name] = (count, kind)
    return known


def megatron_accepts(_, text, known):
    told = flags(text)
    for name, values in told.items():
        assert name in known, f"--{name} is no option of Megatron-LM"
        count, kind = known[name]
        assert len(values) == {"0": 0, "1": 1}.get(count, len(values)), f"--{name} {values}"
        assert all(fits(value, kind) for value in values), f"--{name} {values} is not {kind}"


def core_accepts(_, text):
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.transformer import TransformerConfig
    told = flags(text)
    number = lambda name, otherwise: int(told[name][0]) if name in told else otherwise
    TransformerConfig(
        num_layers=number("num-layers", 0), hidden_size=number("hidden-size", 0),
        num_attention_heads=number("num-attention-heads", 0), num_query_groups=number("num-query-groups", None),
        ffn_hidden_size=number("ffn-hidden-size", None), kv_channels=number("kv-channels", None),
        normalization=told.get("normalization", ["LayerNorm"])[0], gated_linear_unit="swiglu" in told,
        tensor_model_parallel_size=number("tensor-model-parallel-size", 1), sequence_parallel="sequence-parallel" in told,
        pipeline_model_parallel_size=number("pipeline-model-parallel-size", 1),
        virtual_pipeline_model_parallel_size=number("num-virtual-stages-per-pipeline-rank", None),
        pipeline_dtype=__import__("torch").bfloat16,
        recompute_granularity=told.get("recompute-granularity", [None])[0],
        recompute_method=told.get("recompute-method", [None])[0],
        recompute_num_layers=number("recompute-num-layers", None))
    DistributedDataParallelConfig(use_distributed_optimizer="use-distributed-optimizer" in told,
                                  grad_reduce_in_fp32="grad-reduce-in-bf16" not in told)
    OptimizerConfig(optimizer="adam", bf16="bf16" in told, clip_grad=float(told["clip-grad"][0]),
                    use_distributed_optimizer="use-distributed-optimizer" in told)


def torchtitan_accepts(_, text):
    from torchtitan.config import ConfigManager
    inside = text[text.index("args=("):text.index("\n)\n", text.index("args=("))]
    words = [word for line in inside.splitlines()[1:] if not line.strip().startswith("#") for word in line.split()]
    ConfigManager().parse_args(words)


def python_accepts(_, text):
    made = {}
    exec(compile(text, "emitted.py", "exec"), made)
    assert callable(made["shard"])


def check_all(kind, suffix, accepts):
    """Give random plans to parsers, and report the first that one refuses."""
    for n in range(PLANS):
        try:
            path, text = emit(kind, suffix)
        except AssertionError as error:
            return f"plan {n}: {error}"
        for parser in accepts:
            try:
                parser(path, text)
            except (Exception, SystemExit) as error:  # whatever a parser throws is a refusal
                return f"plan {n}: {type(error).__name__}: {error}\n{text}"
    return None


def main():
    import deepspeed
    import deepspeed.comm.torch
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # no op of C++ is compiled for it
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29577")
    deepspeed.init_distributed(dist_backend="gloo")  # without it DeepSpeedConfig ignores the grid
    known = megatron_options()
    kinds = [("deepspeed", ".json", [deepspeed_accepts]), ("accelerate", ".yaml", [accelerate_accepts]),
             ("trainer", ".yaml", [trainer_accepts]), ("fsdp2", ".py", [python_accepts]),
             ("megatron", ".sh", [lambda path, text: megatron_accepts(path, text, known), core_accepts])]
    try:
        import torchtitan.models.llama3.config_registry
        kinds.append(("torchtitan", ".sh", [torchtitan_accepts]))
    except ImportError as error:
        kinds.append(("torchtitan", ".sh", []))
        print(f"# torchtitan cannot be imported ({error}): its lines are only read back")
    for kind, suffix, accepts in kinds:
        refused = check_all(kind, suffix, accepts)
        tap.check(f"{PLANS} plans of {kind} are accepted, and read back as the same plan", refused is None, refused or "")
    tap.end()


main()
