// Logits of a model of Hugging Face's, token after token against the key-value cache, as the library computes them.
//
//     logits DIRECTORY TOKEN... >LOGITS
//
// Behind each token the vocabulary's logits go to stdout, as fp32. DIRECTORY has config.json and model.safetensors, or
// the files that model.safetensors.index.json names. test_hf_peers.sh compares them with those of transformers.
#include <stdio.h>
#include <stdlib.h>
#include <zr.h>

static zr_status read_weights(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    return zr_weights_read(arg, param->name, first, n, out);
}

static zr_status print_logits(zr_engine *engine, zr_weights *weights, int n, char **tokens)
{
    zr_status st = zr_engine_fill(engine, ZR_STATE_PARAM, read_weights, weights);
    for (int64_t i = 0; st == ZR_OK && i < n; i++) {
        zr_tensor logits; // (1, 1, V)
        st = zr_engine_decode(engine, (int32_t)strtol(tokens[i], NULL, 10), i, &logits);
        if (st == ZR_OK) fwrite(logits.data, sizeof(float), (size_t)zr_shape_elems(&logits.shape), stdout);
    }
    return st;
}

static zr_status run(const char *dir, int n, char **tokens)
{
    const zr_family *family = NULL;
    zr_model_config config;
    zr_weights *weights = NULL;
    zr_device *device = NULL;
    zr_plan *plan = NULL;
    zr_comm *comm = NULL;
    zr_engine *engine = NULL;
    zr_layout layout = zr_layout_default(); // one rank, fp32
    zr_status st = zr_hf_read(dir, &family, &config);
    if (st != ZR_OK) return st;
    const zr_model model = zr_family_model(family, &config);
    layout.train = layout.eval = false, layout.decode_len = zr_family_sizes(family, &config).positions;
    st = zr_weights_open(dir, &family->names, &weights);
    if (st == ZR_OK) st = zr_device_create_cpu(&(zr_device_config)ZR_DEVICE_CONFIG_INIT, &device);
    if (st == ZR_OK) st = zr_plan_create(&model, &layout, &device->profile, &plan);
    if (st == ZR_OK) st = zr_comm_create_self(&comm);
    if (st == ZR_OK) st = zr_engine_create(plan, device, comm, 0, &engine);
    if (st == ZR_OK) st = print_logits(engine, weights, n, tokens);
    zr_engine_destroy(&engine);
    zr_comm_destroy(&comm);
    zr_plan_destroy(&plan);
    zr_device_destroy(&device);
    zr_weights_close(&weights);
    return st;
}

int main(int argc, char **argv)
{
    if (argc >= 3 && run(argv[1], argc - 2, argv + 2) == ZR_OK) return 0;
    fprintf(stderr, "logits: %s\n", argc < 3 ? "logits DIRECTORY TOKEN..." : zr_error_message());
    return 1;
}
