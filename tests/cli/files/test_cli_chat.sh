#TEST timeout=120
# Check training on prompts and on conversations, at several numbers of ranks, and answers of the trained model.
. tests/support/command.inc

python3 - <<'END_PYTHON'
import json
talks = [[{"role": "user", "content": f"say {word}"}, {"role": "assistant", "content": word * 2}]
         for word in ("ab", "cd", "ef", "gh") * 25]
with open("talks.jsonl", "w") as file:
    file.writelines(json.dumps({"messages": talk}) + "\n" for talk in talks)
with open("pairs.jsonl", "w") as file:
    file.writelines(json.dumps({"prompt": talk[0]["content"], "completion": talk[1]["content"]}) + "\n" for talk in talks)
END_PYTHON
cat >c.json <<'END_CONFIG'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 64},
 "data": {"train": "talks.jsonl", "val": "talks.jsonl", "chat_template": "mistral-tekken"}, "train_batch_size": 8,
 "train_micro_batch_size_per_gpu": 4, "optimizer": {"params": {"lr": 0.01}},
 "train": {"steps": 60, "eval_interval": 30, "threads": 1, "reproducible": "world", "output_dir": "one"}}
END_CONFIG
train() { "$ZR" train c.json --quiet "$@"; }
check "conversations without a template" fails 69 'messages need a chat template, but the tokenizer bytes has none' train --data.chat_template=auto
check "an unknown form" fails 78 'data.chat_template is "gemma"; expected auto, chatml, qwen2' train --data.chat_template=gemma
check "a run on conversations" train
check "... on two ranks" train --ranks 2 --zero_optimization.stage=2 --train.output_dir=two
check "... the same losses" same one two
# each answer has four bytes and </s>, which is also bytes here
check "... an evaluation counts answers" grep -q '"val_tokens":800' one/metrics.jsonl
check "... zr eval too" prints '"tokens":800' "$ZR" eval one --json
check "... no stride" fails 69 'a stride is for texts' "$ZR" eval one --stride 8
check "the answer to a message" sh -c "$ZR generate one --chat --prompt 'say cd' --tokens 8 --temperature 0 --quiet >made && echo 'cdcd</s>' | cmp - made"
check "... of the template's form" sh -c "$ZR generate one --chat-template mistral-tekken --chat --prompt 'say ab' --tokens 8 --temperature 0 --quiet >made && echo 'abab</s>' | cmp - made"
check "... with --json" prints '"text":"cdcd"' "$ZR" generate one --chat --prompt 'say cd' --stop '</s>' --temperature 0 --json
check "--system without --chat" fails 2 '--system needs --chat' "$ZR" generate one --system x
check "--own-settings without a file" fails 66 'has no settings for drawing tokens' "$ZR" generate one --own-settings
echo '{"do_sample": false, "eos_token_id": [100, 7]}' >one/model/generation_config.json
check "an end token" sh -c "$ZR generate one --chat --prompt 'say cd' --own-settings --tokens 8 --quiet >made && echo c | cmp - made"
check "... and past it" sh -c "$ZR generate one --chat --prompt 'say cd' --own-settings --past-end --tokens 4 --quiet >made && echo cdcd | cmp - made"
check "a run on prompts" train --data.train=pairs.jsonl --data.val=pairs.jsonl --data.chat_template=auto --train.output_dir=pairs
check "--chat without a template" fails 69 'has none; name a form with --chat-template (chatml.* or leave out --chat' "$ZR" generate pairs --chat --prompt x
check "a directory that is not here" fails 66 'model.init: no/such/config.json: .*; give a Hugging Face directory on this machine' \
    "$ZR" train --model.init=no/such --data pairs.jsonl
check "... an evaluation counts completions" grep -q '"val_tokens":500' pairs/metrics.jsonl
check "... packed" train --data.train=pairs.jsonl --data.packing=documents --train.steps=2 --train.output_dir=packed
check "lines that are cut" sh -c "$ZR train c.json --data.seq_length=16 --train.steps=1 --train.output_dir=cut 2>&1 | grep '100 of 100 documents are longer than data.seq_length 16'"
echo '{"text": "x"}' >>pairs.jsonl
check "lines of two kinds" fails 65 'pairs.jsonl:101: "prompt" is missing; the first record of this file has' train --data.train=pairs.jsonl --train.output_dir=mixed

echo "1..$n"
