"""Tables of what bench/peers/run measured: python report.py RESULTS.jsonl PEAK.json

Each system's speed is divided by its peer's of the same round, so that a machine that slows down between rounds
does not decide; the ratios of all rounds are printed.
"""
import json
import statistics
import sys

# zr's layout, and the peers that do the same work.
PEERS = {"zr0": ["single", "ddp", "ds0"], "zr0-mpi": ["ddp", "ds0"], "zr1": ["ds1"], "zr2": ["ds2"],
         "zr3": ["fsdp2", "ds3"], "zr3-mpi": ["fsdp2", "ds3"]}
# Parameters of GPT-2 124M without the positions' table: 6 FLOPs a parameter and token, attention apart (T = 64).
FLOPS_PER_TOKEN = 6 * 123_653_376


def main():
    results = [json.loads(line) for line in open(sys.argv[1])]
    peak = json.load(open(sys.argv[2]))
    rows = {}
    for result in results:
        rows.setdefault((result["dtype"], result["ranks"], result["system"]), []).append(result)

    print("| type | ranks | system | tokens/s (each round) | share of peak | peak RSS a rank, MB |")
    print("|---|---|---|---|---|---|")
    for (dtype, ranks, system), row in sorted(rows.items()):
        speeds = [result["tokens_per_sec"] for result in row]
        share = statistics.median(speeds) * FLOPS_PER_TOKEN / peak[dtype]
        memory = max(result["peak_rss_bytes"] for result in row) / 1e6
        print(f"| {dtype} | {ranks} | {system} | {', '.join(f'{s:.1f}' for s in speeds)} | {share:.0%} | {memory:.0f} |")

    print("\n| type | ranks | zr | peer | speed, zr / peer (each round) | memory, zr / peer |")
    print("|---|---|---|---|---|---|")
    for (dtype, ranks, system), row in sorted(rows.items()):
        for peer in PEERS.get(system, []):
            other = rows.get((dtype, ranks, peer))
            if not other:
                continue
            speed = [a["tokens_per_sec"] / b["tokens_per_sec"] for a, b in zip(row, other)]
            memory = max(a["peak_rss_bytes"] for a in row) / max(b["peak_rss_bytes"] for b in other)
            print(f"| {dtype} | {ranks} | {system} | {peer} | {', '.join(f'{s:.2f}' for s in speed)} | {memory:.2f} |")
    print("\n| ranks | zr | bf16 / fp32 (each round) |")
    print("|---|---|---|")
    for (dtype, ranks, system), row in sorted(rows.items()):
        if dtype == "bf16" and system in PEERS and ("fp32", ranks, system) in rows:
            speed = [a["tokens_per_sec"] / b["tokens_per_sec"] for a, b in zip(row, rows["fp32", ranks, system])]
            print(f"| {ranks} | {system} | {', '.join(f'{s:.2f}' for s in speed)} |")
    print(f"\nPeak: PyTorch's product of two 3072 x 3072 matrices on all cores, best of 5: "
          f"fp32 {peak['fp32'] / 1e9:.0f} GFLOP/s, bf16 {peak['bf16'] / 1e9:.0f} GFLOP/s.")


main()
