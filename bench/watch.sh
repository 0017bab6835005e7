# For the scripts in this folder: `watch_rss PID SECONDS` waits for a child of this shell, reads its resident set every
# SECONDS seconds, and sets `highest` to the maximum in KiB. It returns the exit status of the child.
watch_rss()
{
    highest=0
    while kill -0 "$1" 2>/dev/null; do
        rss=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status" 2>/dev/null || true)
        [ "${rss:-0}" -le "$highest" ] || highest=$rss
        sleep "$2"
    done
    wait "$1"
}
