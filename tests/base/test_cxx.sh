#TEST timeout=60
# Check that the public headers compile without warnings in every C++ standard from C++11 on, with every initialiser;
# and the values of a layout with which every other layout begins.
set -u
n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }

cxx=${CXX:-g++}
command -v "${cxx##* }" >/dev/null 2>&1 || { echo "ok 1 # SKIP no C++ compiler"; exit 0; }
cd "$ZR_SOURCE" || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# A program that includes every header, and has a variable of every ZR_<TYPE>_INIT found in them.
{
    for header in include/zr/*.h; do echo "#include <${header#include/}>"; done
    cat <<'END'
#include <stdio.h>

static int wrong;

static void same(const char *what, double got, double want)
{
    if (got != want) printf("# %s is %g, not %g\n", what, got, want), wrong++;
}

static zr_status passes(bool go)
{
    ZR_TRY(ZR_OK);
    return go ? ZR_OK : ZR_ERR_ARG;
}

int main(void)
{
END
    sed -n 's/^#define ZR_\([A-Z0-9_]*\)_INIT\b.*/\1/p' include/zr/*.h | while read -r type; do
        name=$(echo "$type" | tr A-Z a-z)
        echo "    zr_$name ${name}_ = ZR_${type}_INIT; static const zr_$name fixed_${name}_ = ZR_${type}_INIT;"
        echo "    (void)${name}_, (void)fixed_${name}_;"
    done
    cat <<'END'
    const zr_init weight = {ZR_INIT_NORMAL, 0.02};
    const zr_layout layout = zr_layout_default(), *l = &layout;
#define SAME(field, want) same(#field, (double)l->field, (double)(want))
    SAME(size, sizeof(zr_layout)); SAME(ranks, 1); SAME(stage, 0); SAME(dtype, ZR_F32); SAME(wire_dtype, ZR_F32);
    SAME(batch, 1); SAME(seq, 1); SAME(accum, 1); SAME(reduce_bucket_elems, 16 << 20);
    SAME(gather_bucket_elems, 16 << 20); SAME(overlap, true);
    SAME(reduce, ZR_REDUCE_TO_SHARDS); SAME(states, ZR_STATES_PAPER);
    SAME(norm_first, false); SAME(two_pass, false); SAME(rank_free_sums, false); SAME(reduce_once, false); SAME(recompute, ZR_RECOMPUTE_NONE);
    SAME(recompute_every, 1); SAME(limit_bytes, 0); SAME(prefetch_elems, 1); SAME(live_elems, 0);
    SAME(reuse_elems, 0); SAME(persist_elems, 0); SAME(persist_model_elems, 0); SAME(train, true);
    SAME(eval, true); SAME(decode_len, 0); SAME(optimizer.n_slots, 0); SAME(optimizer.weight_decay, 0);
    for (int i = 0; i < 8; i++) SAME(optimizer.hyper[i], 0);
    same("optimizer", !l->optimizer.name && !l->optimizer.rule, 1);
    same("threads", device_config_.threads, 1);
    same("zr_init", weight.kind == ZR_INIT_NORMAL && weight.std == 0.02, 1);
    same("ZR_TRY", passes(true) == ZR_OK, 1);
    same("bf16", zr_f32_from_bf16(zr_bf16_from_f32(1.5f)), 1.5);
    same("f16", zr_f32_from_f16(zr_f16_from_f32(1.5f)), 1.5);
    return wrong != 0;
}
END
} >"$tmp/all.c"
cp "$tmp/all.c" "$tmp/all.cc"
warn='-Wall -Wextra -Wpedantic -Werror -Iinclude'
zr="$ZR_BUILD/libzr.so"
export LD_LIBRARY_PATH="$tmp${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
ln -s "$zr" "$tmp/$(readelf -d "$zr" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')" || exit 1
${CC:-gcc} -std=c11 $warn "$tmp/all.c" "$zr" -o "$tmp/c11" && "$tmp/c11"
result $? 'as C11'
for std in c++11 c++14 c++17 c++20; do
    $cxx -std=$std $warn "$tmp/all.cc" "$zr" -o "$tmp/$std" && "$tmp/$std"
    result $? "as $std"
done
