#TEST timeout=60 long=more
# Check the machine code of GPU kernels: no spills, wide loads, how often tensor cores wait for operands from shared memory,
# and the arithmetic instructions for each element of GELU and of its gradient.
. tests/support/command.inc
objects=$(dirname "$ZR")/obj/device/cuda/kernels

tool=$(command -v cuobjdump || ls /usr/local/cuda/bin/cuobjdump 2>/dev/null ||
    python3 "${ZR_SOURCE:-$(dirname "$(dirname "$ZR")")}/bench/gpu_parts/gpu_tools.py" cuobjdump 2>/dev/null)
if [ ! -f "$objects/elementwise.o" ] || [ -z "$tool" ]; then
    skip "instructions of kernels" "$([ -f "$objects/elementwise.o" ] && echo 'no cuobjdump' || echo 'built without CUDA')"
    echo "1..$n"
    exit
fi
# A table of all kernels of one architecture: family, kernel, accesses of local memory, products of tensor cores, loads of
# their operands from shared memory, loads from global memory, and those of 16 bytes. In the short run the largest and
# the most important families.
arch=$("$tool" -lelf "$objects/elementwise.o" | sed -n 's/.*\.\(sm_[89]0\)\.cubin.*/\1/p' | tail -1)
families='attention attention_dx cross_entropy elementwise layernorm linear linear_cross_entropy rotary softmax'
[ -z "${ZR_LONG-}" ] || families="$families arrange attention_cached embedding optimizer shards"
for family in $families; do
    "$tool" -sass -arch "$arch" "$objects/$family.o" >"$family.code" 2>>err
    awk -v family="$family" '
        function tell() { if (kernel) print family, kernel, local + 0, products + 0, operands + 0, loads + 0, wide + 0 }
        /Function :/ { tell(); kernel = $3; local = products = operands = loads = wide = 0 }
        /[ \t](STL|LDL)[. ]/ { local++ }
        /[ \t]HMMA\./ { products++ }
        /[ \t]LDSM\./ { operands++ }
        /[ \t](LDG|LDGSTS)\./ { loads++; wide += / (LDG|LDGSTS)\.[A-Z0-9.]*128/ }
        END { tell() }' "$family.code"
done >table

# A kernel that takes 8 elements at a time has its formula 9 times: for these, and once for the last elements.
arithmetic() { # KERNEL: floating-point instructions for each element
    awk -v kernel="$1" '
        /Function :/ { of = index($0, kernel) && index($0, "zr__each_kernelILi8E"); ops = 0 }
        of && /\*\/ +(@!?U?P[0-9T]+ +)?(FMUL|FADD|FFMA|FSEL|FSETP|FMNMX|MUFU)/ { ops++ }
        of && ops > most { most = ops }
        END { print most / 9 }' elementwise.code
}
few() { # KERNEL MOST
    each=$(arithmetic "$1")
    awk -v each="$each" -v most="$2" 'BEGIN { exit !(each > 3 && each <= most) }' || { echo "$each instructions" >&2; return 1; }
}
check "GELU: at most 20 for each element" few 4geluE 20
check "its gradient: at most 40" few 7gelu_dxE 40

# Instructions in double, and divisions and roots of which they are made, take 2 to 64 times as long as in fp32.
doubles() { # KERNEL LEAST MOST: such instructions in each instance of the kernel in rotary.cu
    awk -v kernel="$1" -v least="$2" -v most="$3" '
        function tell() { if (of) { n++; if (ops < least || ops > most) { print name, ops; bad = 1 } } }
        /Function :/ { tell(); name = $3; of = index($0, kernel); ops = 0 }
        of && /[ \t](DADD|DMUL|DFMA|DSETP|MUFU\.[A-Z0-9]*64H|F2F\.F64)/ { ops++ }
        END { tell(); exit bad || n == 0 }' rotary.code >found || { cat found >&2; return 1; }
}
check "rotations are computed in fp32" doubles rotate_each 0 0
# The compiler makes up to 12 copies of the 8 products and sums of a pair; a sine alone has more than 96.
check "rows of rotary tables take 8 products and sums in double a pair" doubles table_each 8 96

none() { # CONDITION: there is no kernel for which it holds
    awk "$1"' { print; bad = 1 } END { exit bad + (NR < 100) }' table >found || { cat found >&2; return 1; }
}
each() { # FAMILY SHARE LEAST: all kernels on tensor cores have at most this share of operand loads, and 16-byte loads
    awk -v kernel="$1" -v share="$2" '$2 ~ kernel && $2 !~ "_plain" && $2 ~ "zr__(bf16|f16)" {
        n++; if ($4 < 64 || $5 > share * $4 || $7 < 16) { print; bad = 1 } } END { exit bad || n != 12 }' table >found ||
        { cat found >&2; return 1; }
}
# The arrays of zr__exact_join and of the range reduction of sines are local memory by intention.
check "no kernel spills more than a few registers" none '$3 > 8 && $2 !~ /zr__exact_join|angles_each/'
check "attention: 5 loads of operands for 8 products" each '7forwardI' 0.626
check "its gradient of queries: 5 for 6" each '7make_dqI' 0.834
check "its gradient of keys and values: 5 for 6" each '10make_dk_dvI' 0.834
# Kernels that take several elements at a time load 16 bytes at a time, except where a token selects what is read,
# sums of rows of angles in double, and records, which are aligned to 2 bytes.
wide='zr__each_kernelILi8E|zr__sum_runsILi8E|add_biasILi8E|sum_rowsI.*Li8E|zr__loss_kernel|square_parts|make_delta|(norm_rows|norm_dx_rows|norm_dw_runs|softmax_rows|softmax_dx_rows|mean_rows)I[^L]*Lb1E'
check "wide loads" none "\$2 ~ /$wide/ && \$6 > 0 && \$7 == 0 && \$1 != \"cross_entropy\" && \$2 !~ /table_each|decode_each/"
loads_wide() {
    for family in $families; do
        grep -q "^$family .* [1-9][0-9]*\$" table || [ $family = attention_cached ] || { echo "$family" >&2; return 1; }
    done
}
# attention_cached reads a token's keys and values, of which each thread takes one number.
check "... in each family" loads_wide
echo "1..$n"
