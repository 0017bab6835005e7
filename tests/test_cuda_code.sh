#TEST timeout=60
# Check the machine code of GPU kernels: the arithmetic instructions for each element of GELU and of its gradient.
. tests/command.inc
object=$(dirname "$ZR")/obj/device/cuda/kernels/elementwise.o

tool=$(command -v cuobjdump || ls /usr/local/cuda/bin/cuobjdump 2>/dev/null)
if [ ! -f "$object" ] || [ -z "$tool" ]; then
    skip "instructions of kernels" "$([ -f "$object" ] && echo 'no cuobjdump' || echo 'built without CUDA')"
    echo "1..$n"
    exit
fi
"$tool" -sass "$object" >code 2>err
# A kernel that takes 8 elements at a time has its formula 9 times: for these, and once for the last elements.
arithmetic() { # KERNEL: floating-point instructions for each element, the largest over architectures
    awk -v kernel="$1" '
        /Function :/ { of = index($0, kernel) && index($0, "zr__each_kernelILi8E"); ops = 0 }
        of && /\*\/ +(@!?U?P[0-9T]+ +)?(FMUL|FADD|FFMA|FSEL|FSETP|FMNMX|MUFU)/ { ops++ }
        of && ops > most { most = ops }
        END { print most / 9 }' code
}
few() { # KERNEL MOST
    each=$(arithmetic "$1")
    awk -v each="$each" -v most="$2" 'BEGIN { exit !(each > 3 && each <= most) }' || { echo "$each instructions" >&2; return 1; }
}
check "GELU: at most 20 for each element" few 4geluE 20
check "its gradient: at most 40" few 7gelu_dxE 40
echo "1..$n"
