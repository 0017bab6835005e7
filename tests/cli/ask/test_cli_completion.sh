#TEST timeout=60
# Check completion for bash and zsh, and man pages, made from the tables of commands, options and keys.
. tests/support/command.inc

check "commands" prints '^report$' "$ZR" help --list
check "for another shell" fails 2 'bash or zsh' "$ZR" help --completion fish
check "for none" fails 2 'must be followed by' "$ZR" help --completion
check "a page of nothing" fails 2 'unknown command' "$ZR" help --man nope
check "help of a command is as ever" prints '^Examples' "$ZR" help train

"$ZR" help --completion bash >zr.bash
# offers WORD...: write the words that bash offers for the last word to the file `offered`, one on each line
offers() {
    bash -c '. ./zr.bash; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _zr; printf "%s\n" "${COMPREPLY[@]}"' - "$@" >offered
}
is() { # WANTED WORD...
    wanted=$1
    shift
    offers "$@"
    [ "$(sort offered | tr '\n' ' ')" = "$wanted " ] || { cat offered >&2; return 1; }
}
if command -v bash >/dev/null; then
    check "bash reads it" bash -n zr.bash
    check "a command" is train zr tr
    check "every command" sh -c 'for c in $('"$ZR"' help --list); do grep -qE "^_zr_commands=.* $c( |\"|$)" zr.bash || exit 1; done'
    check "an option" is --resume zr train --res
    check "... of that command alone" is '' zr eval --res
    check "a key" is --zero_optimization.overlap_comm= zr train --zero_optimization.ov
    check "... only where keys are taken" is '' zr eval --zero_optimization.ov
    check "its values" is '0 1 2 3' zr train --zero_optimization.stage =
    check "... those that begin so" is 'paper' zr train --memory.layout = pa
    check "... none that is refused" is 'AdamW AdamW8bit' zr train --optimizer.type = AdamW
    check "true or false" is 'false true' zr plan --bf16.enabled =
    check "an option's values" is 'gpt2-124m' zr train --preset gpt2-124
    check "files otherwise" is '' zr train conf
    check "no key without a meaning" is '' zr train --wall_clock
    check "help of commands" is 'report' zr help rep
else
    skip "completion in bash" "no bash"
fi
"$ZR" help --completion zsh >_zr
if command -v zsh >/dev/null; then
    check "zsh reads it" zsh -n _zr
    # A function _arguments that prints its arguments shows that every option and key is quoted correctly.
    check "... with all options and keys" prints '^--zero_optimization.stage=-\[' zsh -c \
        'words=(zr train ""); CURRENT=3; _arguments() { printf "%s\n" "$@"; }; . ./_zr'
    check "... and their values" grep -q ':value:(0 1 2 3)$' printed
    check "... and commands" prints '^report:' zsh -c 'words=(zr ""); CURRENT=2; _describe() { printf "%s\n" "${(@P)2}"; }; . ./_zr'
else
    skip "completion in zsh" "no zsh"
fi

pages() {
    "$ZR" help --man >zr.1 && "$ZR" help --man config >zr-config.5 || return 1
    for c in $("$ZR" help --list); do "$ZR" help --man "$c" >"zr-$c.1" || return 1; done
}
check "a page of each command" pages
check "... has its options" grep -q 'max.-time' zr-train.1
check "... of keys, all of them" sh -c "test \$(grep -c '^.TP' zr-config.5) = \$($ZR train -h keys | grep -c '^  [a-z][A-Za-z0-9_.*]* *\\[')"
if command -v mandoc >/dev/null; then
    check "mandoc finds no fault" mandoc -T lint -W error zr.1 zr-*.1 zr-config.5
else
    skip "mandoc" "not there"
fi
if command -v groff >/dev/null; then
    check "groff has no warning" sh -c "! { $(command -v groff) -man -ww -z zr.1 zr-*.1 zr-config.5 2>&1 | grep .; }"
else
    skip "groff" "not there"
fi
echo "1..$n"
