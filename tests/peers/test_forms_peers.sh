#TEST timeout=900 long=1
# Check that records of each form get the tokens, masks and losses that transformers and TRL give them
# (tests/peers/forms.py). The chat templates are those of trl.
. tests/peers/peers.inc
need_peers forms "torch, transformers, trl, datasets" \
    torch==2.15.0 transformers==5.23.0 tokenizers==0.23.3 numpy==2.4.6 trl==1.16.0 datasets==5.2.0
beside forms.py "$ZR" "$tmp"
