"""Compare the memory that `zr plan --system` plans with what other systems allocate on a processor.

    systems.py ZR TEMP [WORD...]    run the cases whose names contain one of the words, by default all

Each case is a run of two ranks over gloo: DistributedDataParallel, FSDP2 (fully_shard) and stages 0 to 3 of DeepSpeed,
with models of transformers that have random weights. PyTorch's profiler reports each allocation and release of the
processor's allocator, which all tensors take their memory from, those of C++ included, with the sum of what is
allocated. Two numbers are compared: the largest sum from the moment on at which a model has been made, and the sum
after a step.

A processor has no workspaces of cuBLAS, so they are subtracted from the plan. Its gloo cannot scatter a sum: PyTorch
sums a copy of the whole input instead. For FSDP2 the last of these moments is a candidate for the peak: the input of
the unit with the tables, in fp32, its copy, and all gradients.
"""
import ctypes
import json
import os
import socket
import sys
import traceback

import tap

RANKS, STEPS = 2, 2
MODELS = {"gpt2-124m": dict(model_type="gpt2", n_layer=12, n_embd=768, n_head=12, vocab_size=50257, n_positions=1024,
                            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0),
          "smollm2-135m": dict(model_type="llama", num_hidden_layers=30, hidden_size=576, intermediate_size=1536,
                               num_attention_heads=9, num_key_value_heads=3, vocab_size=49152,
                               max_position_embeddings=8192, tie_word_embeddings=True)}
BATCH, SEQ = 2, 128
# name: system, stage, keys of zr, options of the system
SYSTEMS = {
    "ddp float32": ("ddp", 0, ["--bf16.enabled=false"], {}),
    "ddp autocast": ("ddp", 0, ["--bf16.enabled=true"], {}),
    "ddp bfloat16": ("ddp", 0, ["--bf16.enabled=true"], {"dtype": "bfloat16"}),
    "fsdp2 stage 2": ("fsdp2", 2, ["--bf16.enabled=true"], {}),
    "fsdp2 stage 3": ("fsdp2", 3, ["--bf16.enabled=true"], {}),
    "deepspeed stage 0": ("deepspeed", 0, ["--bf16.enabled=true"], {}),
    "deepspeed stage 1": ("deepspeed", 1, ["--bf16.enabled=true"], {}),
    "deepspeed stage 1 fp32": ("deepspeed", 1, ["--bf16.enabled=true"], {"grad_accum_dtype": "fp32"}),
    "deepspeed stage 2": ("deepspeed", 2, ["--bf16.enabled=true"], {}),
    "deepspeed stage 3": ("deepspeed", 3, ["--bf16.enabled=true"], {}),
}


# ---- a rank --------------------------------------------------------------------------------------


def skip_products():
    """Only allocate the results of products: no allocation depends on their values, and a processor takes minutes."""
    import torch
    library = torch.library.Library("aten", "IMPL")
    library.impl("mm", lambda a, b: a.new_zeros(a.shape[0], b.shape[1]), "CPU")
    library.impl("addmm", lambda c, a, b, *, beta=1, alpha=1: a.new_zeros(a.shape[0], b.shape[1]), "CPU")
    return library


def make_model(name, dtype):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    words = dict(MODELS[name])
    config = AutoConfig.for_model(words.pop("model_type"), use_cache=False, **words)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    return model.train()


class Trained:
    """A model with its optimizer: `loss` computes, `back` goes backward, `update` makes a step."""

    def __init__(self, model, optimizer, mixed):
        self.model, self.optimizer, self.mixed = model, optimizer, mixed

    def loss(self, tokens):
        import torch
        with torch.autocast("cpu", torch.bfloat16, enabled=self.mixed):
            return self.model(input_ids=tokens, labels=tokens)

    @staticmethod
    def back(loss):
        loss.backward()

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


def make_ddp(name, words):
    import torch
    dtype = torch.bfloat16 if words["options"].get("dtype") == "bfloat16" else torch.float32
    model = make_model(name, dtype)
    mark("made")
    model = torch.nn.parallel.DistributedDataParallel(model)
    return Trained(model, torch.optim.AdamW(model.parameters(), foreach=True), words["mixed"] and dtype == torch.float32)


def make_fsdp2(name, words):
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    model = make_model(name, torch.float32)
    mark("made")
    mesh = torch.distributed.init_device_mesh("cpu", (RANKS,))
    how = dict(mesh=mesh, reshard_after_forward=words["stage"] == 3,
               mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    for block in model.transformer.h if hasattr(model, "transformer") else model.model.layers:
        fully_shard(block, **how)
    fully_shard(model, **how)
    return Trained(model, torch.optim.AdamW(model.parameters(), fused=True), False)


class Engine:
    def __init__(self, engine):
        self.engine = engine

    def loss(self, tokens):
        return self.engine(input_ids=tokens, labels=tokens)

    def back(self, loss):
        self.engine.backward(loss)

    def update(self):
        self.engine.step()


def make_deepspeed(name, words):
    import deepspeed
    import torch
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    model = make_model(name, torch.bfloat16)
    mark("made")
    config = {"train_micro_batch_size_per_gpu": BATCH, "gradient_accumulation_steps": 1, "bf16": {"enabled": True},
              "zero_optimization": {"stage": words["stage"]}, "gradient_clipping": 1.0,
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}
    if "grad_accum_dtype" in words["options"]:
        config["data_types"] = {"grad_accum_dtype": words["options"]["grad_accum_dtype"]}
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    return Engine(engine)


def count_all():
    """Make the counter of the processor's allocator count in all threads, also in those of gloo."""
    import torch
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
    ctypes.c_bool.in_dll(library, "FLAGS_caffe2_report_cpu_memory_usage").value = True


def mark(name):
    from torch.profiler import record_function
    with record_function(f"zr {name}"):
        pass


def read_events(profile):
    """Return the marks, and the sums after each change, in the order of time."""
    from torch._C._profiler import _EventType
    told = []
    stack = list(profile.profiler.kineto_results.experimental_event_tree())
    while stack:
        event = stack.pop()
        stack += event.children
        if event.tag == _EventType.Allocation:
            told.append((event.start_time_ns, None, event.extra_fields.total_allocated))
        elif event.name.startswith("zr "):
            told.append((event.start_time_ns, event.name[3:], 0))
    return sorted(told, key=lambda row: row[0])


def be_rank(words, file):
    """Train, and write the numbers of this rank into a file."""
    import torch
    import torch.distributed
    from torch.profiler import ProfilerActivity, profile
    torch.set_num_threads(1)
    torch.manual_seed(0)
    kept = skip_products()
    count_all()
    torch.distributed.init_process_group("gloo")
    make = {"ddp": make_ddp, "fsdp2": make_fsdp2, "deepspeed": make_deepspeed}[words["system"]]
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as made:
        trained = make(words["model"], words)
        for step in range(STEPS):
            tokens = torch.randint(0, 40000, (BATCH, SEQ))
            mark("loss")
            out = trained.loss(tokens)
            mark("backward")
            trained.back(out.loss)
            del out
            mark("step")
            trained.update()
            mark("between")
    now, seen, peaks, between = None, 0, {}, 0
    for _, name, total in read_events(made):
        if name:
            now, between = name, seen
            if name not in peaks or name in ("loss", "backward", "step"):
                peaks[name] = peaks.get(name, 0) if STEPS < 2 else max(peaks.get(name, 0), seen)
            continue
        seen = total
        if now:
            peaks[now] = max(peaks.get(now, 0), seen)
    with open(file, "w") as out:
        json.dump({"peak": max(peaks.values()), "between": between, "peaks": peaks}, out)
    torch.distributed.barrier()
    del kept


# ---- all cases -----------------------------------------------------------------------------------


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def fork(rank, port, words, temp):
    """Start a rank as a copy of this process, which has loaded all modules. Return its process."""
    process = os.fork()
    if process:
        return process
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_SIZE=str(RANKS),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    ended = 1
    try:
        be_rank(words, os.path.join(temp, f"rank{rank}.json"))
        ended = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(ended)


def measure(words, temp):
    """Return the numbers of the rank that needs the most."""
    port = free_port()
    ranks = [fork(rank, port, words, temp) for rank in range(RANKS)]
    ended = [os.waitpid(rank, 0)[1] for rank in ranks]
    if any(ended):
        raise RuntimeError(f"a rank failed: {ended}")
    told = []
    for rank in range(RANKS):
        with open(os.path.join(temp, f"rank{rank}.json")) as file:
            told.append(json.load(file))
    return max(told, key=lambda numbers: numbers["peak"])


def plan(words, keys):
    given = ["plan", "--json", "--quiet", "--preset", words["model"], "--ranks", RANKS, "--profile", "h100", "--batch", BATCH,
             "--seq", SEQ, "--gradient_clipping=1", "--system", words["system"], "--stage", words["stage"], *keys]
    options = dict(words["options"])
    if words["system"] == "fsdp2":
        options |= {"model_code": "transformers", "gradients_persist": "false"}
    for name, value in options.items():
        given += ["--with", f"{name}={value}"]
    told = json.loads(tap.zr(*given))
    rank = told["pipeline_ranks"][0]
    spare = rank["parts"]["workspaces"]
    told = {"peak": rank["allocated"] - spare, "between": rank["between_steps"] - spare, "moment": rank["moment"],
            "parts": rank["parts"]}
    if words["system"] == "fsdp2":
        model = MODELS[words["model"]]
        width = model.get("n_embd", model.get("hidden_size"))
        tables = width * (model["vocab_size"] + (model["n_positions"] if "n_positions" in model else 0))
        gradients, logits = rank["parts"]["parameters"], 2 * BATCH * SEQ * model["vocab_size"]
        told["peak"] = max(told["peak"], told["between"] + gradients + 2 * 4 * tables + logits)
    return told


def load():
    """Load the modules once; ranks are copies of this process."""
    os.environ.update(DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    import deepspeed
    import deepspeed.comm.torch
    import torch.distributed.fsdp
    import torch.profiler
    import transformers.models.gpt2.modeling_gpt2
    import transformers.models.llama.modeling_llama
    from deepspeed.ops.op_builder import FusedAdamBuilder
    # the ops of C++ would have to be compiled; torch's fused AdamW has no temporaries either
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    FusedAdamBuilder.load = lambda *_, **__: FusedAdamOps


class FusedAdamOps:
    """The op of DeepSpeed's FusedAdam, by torch's."""

    @staticmethod
    def multi_tensor_adam(chunk, skip, lists, lr, beta1, beta2, eps, step, adam_w, correct, decay):
        import torch
        gradients, weights, first, second = lists
        steps = [torch.tensor(float(step)) for _ in weights]
        torch._fused_adamw_(weights, gradients, first, second, [], steps, lr=lr, beta1=beta1, beta2=beta2,
                            weight_decay=decay, eps=eps, amsgrad=False, maximize=False)


def main():
    load()
    temp, wanted = sys.argv[2], sys.argv[3:]
    for name, (system, stage, keys, options) in SYSTEMS.items():
        for model in MODELS:
            title = f"{name}, {model}"
            if wanted and not any(word in title for word in wanted):
                continue
            words = {"system": system, "stage": stage, "options": options, "model": model, "mixed": "--bf16.enabled=true" in keys}
            planned, measured = plan(words, keys), measure(words, temp)
            for what in ("peak", "between"):
                off = planned[what] / measured[what] - 1
                tap.check(f"{title}: {what} as planned", abs(off) <= 0.05,
                          f"planned {planned[what] / 1e6:.1f} MB, measured {measured[what] / 1e6:.1f} MB, {100 * off:+.1f} %")
            print("#", planned["moment"], {k: round(v / 1e6, 1) for k, v in planned["parts"].items() if v})
            print("#", {k: round(v / 1e6, 1) for k, v in measured["peaks"].items()}, flush=True)
    tap.end()


main()
