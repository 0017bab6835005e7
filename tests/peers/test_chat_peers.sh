#TEST timeout=900 long=1 build=tests/test_data_template
# Check that conversations get the texts, answers and tokens that transformers gives them with the models' own chat
# templates (tests/peers/chat.py). The templates are in the wheel of trl and in the source package of llama-cpp-python,
# from PyPI; ZR_TEMPLATES names a folder with others, NAME.jinja.
. tests/peers/peers.inc
need_peers chat "jinja2, tokenizers, transformers" transformers==5.23.0 tokenizers==0.23.3 jinja2
sources=${ZR_TEMPLATES:-$own/trl-1.16.0-py3-none-any.whl $own/llama_cpp_python-0.3.16.tar.gz}
found=
for source in $sources; do
    case $source in
    */trl-*) package=trl==1.16.0 options= ;;
    *) package=llama-cpp-python==0.3.16 options="--no-binary :all: --no-build-isolation" ;;
    esac
    if [ ! -e "$source" ]; then
        echo "# downloading templates to $source"
        # shellcheck disable=SC2086
        mkdir -p "$own" && "$peers/bin/pip" install -q scikit-build-core &&
            "$peers/bin/pip" download -q --no-deps $options "$package" -d "$own"
    fi
    [ ! -e "$source" ] || found="$found $source"
done
[ "$found" ] || skip_all "the templates could not be had from PyPI"
# shellcheck disable=SC2086
beside chat.py "$ZR_BUILD/libzr.so" "$tmp" "$ZR_BUILD/tests/test_data_template" \
    "$ZR_SOURCE/tests/data/template/cases.json" $found
