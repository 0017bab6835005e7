#TEST timeout=600 long=1
# Check that conversations get the tokens that transformers gives them with the models' own chat templates
# (tests/peers/chat.py). The templates are in the source package of llama-cpp-python, from PyPI; ZR_TEMPLATES names a
# folder with others, NAME.jinja.
. tests/peers/peers.inc
need_peers chat "jinja2, tokenizers, transformers" transformers==5.23.0 tokenizers==0.23.3 jinja2
templates=${ZR_TEMPLATES:-$own/llama_cpp_python-0.3.16.tar.gz}
if [ ! -e "$templates" ]; then
    echo "# downloading the templates to $templates"
    mkdir -p "$own" && "$peers/bin/pip" install -q scikit-build-core &&
        "$peers/bin/pip" download -q --no-deps --no-binary :all: --no-build-isolation llama-cpp-python==0.3.16 -d "$own"
fi
[ -e "$templates" ] || skip_all "the templates could not be had from PyPI"
beside chat.py "$ZR_BUILD/libzr.so" "$tmp" "$templates"
