#TEST timeout=60
# Compare the plans of the ZeRO papers' tables 1 and 2, and of the runs of the SC20 paper, with what the papers print:
# model states and checkpoints by their formulas.
. tests/support/command.inc
SOURCE=${ZR_SOURCE:-$OLDPWD}
command -v python3 >/dev/null || { echo 'ok 1 # SKIP no python3'; exit 0; }
papers() { "$SOURCE/bench/papers/papers" "$@" --zr "$ZR"; }

# figure, label, system, GPUs, M, N, layers, hidden, heads, batch, parameters, GB of model states a rank
cat >runs.want <<'END'
Fig2 1.5B ZeRO 400 1 400 48 1600 16 24 1557611200 3.17
Fig2 1.5B Baseline 400 2 200 48 1600 16 16 1557611200 12.46
Fig2 8B ZeRO 400 4 100 72 3072 24 64 8314143744 4.45
Fig2 8B Baseline 400 8 50 72 3072 24 8 8314143744 16.63
Fig2 20B ZeRO 400 4 100 98 4096 32 32 19945279488 10.67
Fig2 20B Baseline 400 16 25 98 4096 32 4 19945279488 19.95
Fig2 40B ZeRO 400 4 100 88 6144 32 12 40184776704 21.50
Fig2 40B Baseline 384 32 12 88 6144 64 4 40184776704 20.09
Fig2 60B ZeRO 400 16 25 132 6144 32 64 60119623680 9.62
Fig2 60B Baseline 384 64 6 132 6144 64 4 60119623680 15.03
Fig2 80B ZeRO 400 16 25 100 8192 64 32 80961396736 12.95
Fig2 80B Baseline 384 128 3 100 8192 128 4 80961396736 10.12
Fig2 100B ZeRO 400 16 25 125 8192 64 32 101096718336 16.18
Fig2 100B Baseline 384 128 3 125 8192 128 2 101096718336 12.64
Fig2 120B ZeRO 400 16 25 150 8192 64 24 121232039936 19.40
Fig2 120B Baseline 384 128 3 150 8192 128 2 121232039936 15.15
Fig2 140B ZeRO 400 16 25 175 8192 64 16 141367361536 22.62
Fig2 140B Baseline 384 128 3 175 8192 128 2 141367361536 17.67
Fig2 170B ZeRO 400 16 25 212 8192 64 12 171167637504 27.39
Fig2 170B Baseline 256 256 1 212 8192 256 2 171167637504 10.70
Fig3 60B ZeRO 64 16 4 75 8192 32 16 60826075136 20.91
Fig3 60B ZeRO 128 16 8 75 8192 32 48 60826075136 14.26
Fig3 60B ZeRO 256 16 16 75 8192 32 48 60826075136 10.93
Fig3 60B ZeRO 400 16 25 75 8192 32 64 60826075136 9.73
MaxModel(C1) 40B ZeRO 400 16 25 50 8192 32 16 40690753536 11.39
MaxModel(C2) 60B ZeRO 400 16 25 132 6144 64 16 60119623680 16.83
MaxModel(C4) 140B ZeRO 400 16 25 175 8192 64 16 141367361536 22.62
MaxModel(C5) 150B ZeRO 400 16 25 187 8192 64 16 151032315904 24.17
MaxModel(C3) 50B ZeRO 400 16 25 62 8192 32 16 50355707904 8.06
CachedMem 40B ZeRO 400 16 25 50 8192 32 16 40690753536 6.51
CachedMem 100B ZeRO 400 16 25 125 8192 64 32 101096718336 16.18
Thrpt(C1) 60B ZeRO 128 16 8 75 8192 64 2 60826075136 20.91
Thrpt(C2) 60B ZeRO 128 16 8 75 8192 64 4 60826075136 20.91
Thrpt(C4) 60B ZeRO 128 16 8 75 8192 64 32 60826075136 14.26
Thrpt(C5) 60B ZeRO 128 16 8 75 8192 64 32 60826075136 14.26
Thrpt(C3) 60B ZeRO 128 16 8 75 8192 64 8 60826075136 14.26
Thrpt(C5) 170B ZeRO 400 16 25 212 8192 64 12 171167637504 27.39
NoMP 1.5B ZeRO 128 1 128 34 1920 16 24 1603363200 3.38
NoMP 2.5B ZeRO 128 1 128 54 1920 16 24 2488598400 5.25
NoMP 4B ZeRO 128 1 128 64 2304 24 16 4196936448 8.85
NoMP 6B ZeRO 128 1 128 52 3072 24 12 6048420864 12.76
NoMP 8B ZeRO 128 1 128 72 3072 24 8 8314143744 17.54
NoMP 10B ZeRO 128 1 128 50 4096 32 6 10279047168 21.68
NoMP 11B ZeRO 128 1 128 54 4096 32 4 11084566528 23.38
NoMP 12B ZeRO 128 1 128 58 4096 32 4 11890085888 25.08
NoMP 13B ZeRO 128 1 128 62 4096 32 2 12695605248 26.78
NoMP 1.16B Baseline 128 1 128 24 1920 16 8 1160745600 18.57
NoMP 1.38B Baseline 128 1 128 40 1536 16 1 1212031488 19.39
END
# name, layers, hidden, heads, M, N, batch, GB of model states, GB of checkpoints on the device
cat >presets.want <<'END'
C1 50 8192 32 16 25 16 11.200 13.422
C2 132 6144 64 16 25 16 16.800 1.661
C3 62 8192 32 16 25 16 8.000 16.643
C4 175 8192 64 16 25 16 22.400 2.936
C5 187 8192 64 16 25 16 24.000 0.000
END

# rows LIST KEY...: print these keys of each row of a list of the document, a row a line.
rows() {
    python3 - "$@" <<'END'
import json, sys
for row in json.load(open("document"))[sys.argv[1]]:
    print(*(row[key] for key in sys.argv[2:]))
END
}
# near PART <pairs: check that both values of each pair agree within this fraction and the last digit of the paper.
near() { awk -v part="$1" '{ d = $1 - $2; if (d < 0) d = -d; if (d > part * $2 + 0.0051) { print; bad = 1 } } END { exit bad || !NR }'; }

check "planned" papers configs --json
cp out document
cp out configs.json
keys='figure label system gpus tensor ranks layers hidden heads batch params'
rows runs $keys >runs
cut -d' ' -f1-11 runs.want >runs.same
check "all 48 runs, as they ran, with the parameters of their models" cmp runs runs.same
rows runs formula | awk '{ print $1 / 1e9 }' >formula
cut -d' ' -f12 runs.want >want
paste -d ' ' formula want >both
check "... by the appendix's formula" near 0 <both
rows runs states copies | awk '{ print ($1 - $2) / 1e9 }' >once
paste -d ' ' once formula >both
check "... what is planned, each tensor counted once, is within 0.5 % of each" near 0.005 <both
rows runs deviation_percent copies_percent tensor >columns
check "... which the column of deviations says" awk '$1 > 0.5 || $1 < -0.5 { bad = 1 } END { exit bad || NR != 48 }' columns
check "... copies are there where ranks share layers, at most 2.9 %" \
    awk '($3 == 1) != ($2 == 0) || $2 > 2.9 { print; bad = 1 } END { exit bad }' columns
check "... most of them at M = 256" sh -c 'sort -n -k2,2 columns | tail -n 1 | grep " 256$"'

rows presets name layers hidden heads tensor ranks batch >presets
cut -d' ' -f1-7 presets.want >presets.same
check "C1 to C5 at their largest models" cmp presets presets.same
rows presets paper_states paper_checkpoint | awk '{ print $1 / 1e9 "\n" $2 / 1e9 }' >a
cut -d' ' -f8,9 presets.want | tr ' ' '\n' >b
paste -d ' ' a b >both
check "... by the paper's formulas" near 0 <both
rows presets states paper_states | awk '{ print $1 / 1e9, $2 / 1e9 }' >both
check "... model states within 2.2 %, as the paper rounds parameters" near 0.022 <both
check "... which is said" test "$(rows presets reason | grep -c "as the paper's .* billion parameters are")" = 5
rows presets checkpoint paper_checkpoint | awk '{ print $1 / 1e9, $2 / 1e9 }' >both
check "... checkpoints on the device, whole and in pieces, to the byte" near 0 <both
rows presets name host_checkpoint layers hidden | awk '{ printf "%.0f %s\n", ($1 == "C5") * 2 * 16 * 1024 * $3 * $4 / 16, $2 }' >both
check "... those of C5 on the host, in pieces" near 0 <both

check "as text" papers configs --rows configs.json
check "... with a row for each run" test "$(grep -cE '^[0-9.]+B +(ZeRO|Baseline) ' out)" = 48

# within PERCENT: check that the rows of a table deviate by no more from the paper.
within() { rows rows deviation_percent | awk -v most="$1" '{ if ($1 > most || -$1 > most) bad = 1 } END { exit bad || NR < 20 }'; }
# Table 1 at each stage: 16 bytes a parameter, of which the stage divides 12, 14 or 16 over the ranks.
check "table 1" papers table1 --json
cp out document
cp out table1.json
rows rows states params ranks stage | awk '{ n = $3; b[1] = 4 + 12 / n; b[2] = 2 + 14 / n; b[3] = 16 / n
    print $1 / 1e9, $2 * b[$4] / 1e9 }' >both
check "... by the formulas" near 1e-5 <both
check "... for three models" test "$(wc -l <both)" = 54
check "... as printed; farthest is 0.12 GB for 0.117" within 2.35
# Exactly, 2048 and 122.268657 billion: the paper's 2T and 121.6B are its rounded first row times 16.
check "table 2" papers table2 --json
cp out document
cp out table2.json
rows rows tensor stage params | awk '
    $1 == 16 && $2 == 3 { print $3 / 1e9, 2048 }
    $1 == 16 && $2 == 1 { print $3 / 1e9, 122.268657 }' >both
check "... M = 16 at stages 1 and 3" near 1e-4 <both
check "... all 20 rows are planned" test "$(rows rows params | grep -c '^[1-9][0-9]*$')" = 20
check "... as printed; farthest are those that the paper rounded up to 500 billion" within 2.41
narrow() { "$@" | awk 'length > 80 { print; bad = 1 } END { exit bad || NR < 10 }'; }
for what in table1 table2 configs; do check "80 columns: $what" narrow papers $what --rows $what.json; done
echo "1..$n"
