#TEST timeout=600 long=1
# Conversations have the tokens that transformers gives them with the models' own chat templates (tests/peers/chat.py).
# transformers and the templates, which are in the source package of llama-cpp-python, come from PyPI into
# build/peers/chat. ZR_PEERS names another virtual environment that has transformers and jinja2, and ZR_TEMPLATES a
# folder with other templates, NAME.jinja.
set -u
own=$ZR_SOURCE/build/peers/chat
peers=${ZR_PEERS:-$own} templates=${ZR_TEMPLATES:-$own/llama_cpp_python-0.3.16.tar.gz}
has_peers() { "$peers/bin/python" -c 'import jinja2, tokenizers, transformers' >/dev/null 2>&1; }
if ! has_peers; then
    echo "# installing transformers and jinja2 into $peers"
    python3 -m venv "$peers" && "$peers/bin/pip" install -q transformers==5.23.0 tokenizers==0.23.3 jinja2
fi
if [ ! -e "$templates" ] && has_peers; then
    echo "# downloading the templates to $templates"
    mkdir -p "$own" && "$peers/bin/pip" install -q scikit-build-core &&
        "$peers/bin/pip" download -q --no-deps --no-binary :all: --no-build-isolation llama-cpp-python==0.3.16 -d "$own"
fi
if ! has_peers || [ ! -e "$templates" ]; then
    echo "ok 1 - beside transformers # SKIP transformers or the templates could not be had from PyPI"
    echo "1..1"
    exit 0
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
HF_HUB_OFFLINE=1 "$peers/bin/python" -B "$ZR_SOURCE/tests/peers/chat.py" "$ZR_BUILD/libzr.so" "$tmp" "$templates"
