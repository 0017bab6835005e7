"""What directories of models hold, compared byte by byte and by transformers."""
import json

import safetensors
import torch
import transformers

from tap import check


def tensors_of(folder):
    """Return each tensor's file, type, shape and bytes, by its name."""
    made = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safetensors.safe_open(path, "pt") as file:
            for name in file.keys():
                value = file.get_tensor(name).contiguous()
                made[name] = (path.name, value.dtype, tuple(value.shape), value.view(torch.uint8).numpy().tobytes())
    return made


def index_is_right(folder):
    path, tensors = folder / "model.safetensors.index.json", tensors_of(folder)
    if not path.exists():
        return {file for file, *_ in tensors.values()} == {"model.safetensors"}
    index = json.loads(path.read_text())
    return (index["metadata"]["total_size"] == sum(len(data) for *_, data in tensors.values()) and
            index["weight_map"] == {name: file for name, (file, *_) in tensors.items()})


def same_config(a, b):
    """Compare configurations as transformers loads them, with all defaults; its version and names do not count."""
    left, right = (transformers.AutoConfig.from_pretrained(folder).to_dict() for folder in (a, b))
    for settings in (left, right):
        for key in ("_name_or_path", "transformers_version", "architectures"):
            settings.pop(key, None)
    # zr writes rope_theta beside rope_parameters, for transformers 4
    differ = {key for key in left if left[key] != right.get(key)} - {"rope_theta", "rope_scaling"}
    return not differ, ", ".join(f"{key} {left[key]} {right.get(key)}" for key in sorted(differ))


def compare_files(name, folder, other, values=True, without=()):
    """Compare two directories. The second one must not have the tensors of the first one that are given."""
    left, right = tensors_of(folder), tensors_of(other)
    left = {key: value for key, value in left.items() if key not in without}
    form = {key: value[:3] for key, value in left.items()} == {key: value[:3] for key, value in right.items()}
    check(f"{name}: names, types, shapes and files", form and index_is_right(other))
    if values:
        check(f"{name}: bytes", left == right)
    same, told = same_config(folder, other)
    check(f"{name}: config.json", same, told)
    both = json.loads((other / "config.json").read_text())
    check(f"{name}: both spellings", both.get("dtype") == both.get("torch_dtype", both.get("dtype")))
    if (folder / "generation_config.json").exists():
        generation = json.loads((folder / "generation_config.json").read_text())
        check(f"{name}: generation_config.json",
              json.loads((other / "generation_config.json").read_text()) == generation)
