/* Printing of indented JSON. Unlike jansson's printer, this one keeps 0.1 as 0.1 and an array of numbers on one
 * line. */
#include "base/file/commit.h"
#include "base/json/json.h"
#include "base/text/text.h"

#include <string.h>

static void print_value(zr__text *out, const json_t *json, int indent);

static void print_object(zr__text *out, const json_t *json, int indent)
{
    const char *key, *separator = "{\n";
    json_t *value;
    json_object_foreach((json_t *)json, key, value)
    {
        zr__text_add(out, "%s%*s", separator, indent + 2, "");
        zr__text_add_json(out, key, (int64_t)strlen(key));
        zr__text_add(out, ": ");
        print_value(out, value, indent + 2);
        separator = ",\n";
    }
    if (*separator == '{')
        zr__text_add(out, "{}");
    else
        zr__text_add(out, "\n%*s}", indent, "");
}

static void print_array(zr__text *out, const json_t *json, int indent)
{
    size_t index;
    json_t *value;
    zr__text_add(out, "[");
    json_array_foreach(json, index, value)
    {
        if (index) zr__text_add(out, ", ");
        print_value(out, value, indent);
    }
    zr__text_add(out, "]");
}

static void print_value(zr__text *out, const json_t *json, int indent)
{
    static const char *const words[] = {[JSON_TRUE] = "true", [JSON_FALSE] = "false", [JSON_NULL] = "null"};
    const char *number = json_is_real(json) ? ZR_SHORTEST(json_real_value(json)) : "";
    if (json_is_object(json))
        print_object(out, json, indent);
    else if (json_is_array(json))
        print_array(out, json, indent);
    else if (json_is_string(json))
        zr__text_add_json(out, json_string_value(json), (int64_t)json_string_length(json));
    else if (json_is_integer(json))
        zr__text_add(out, "%lld", (long long)json_integer_value(json));
    else if (json_is_real(json)) /* add ".0" if there is no point or exponent, so that it is read back as a real */
        zr__text_add(out, "%s%s", number, strpbrk(number, ".e") ? "" : ".0");
    else
        zr__text_add(out, "%s", words[json_typeof(json)]);
}

zr_status zr__json_print(const json_t *json, char **text)
{
    zr__text out = {0};
    ZR_CHECK(json, ZR_ERR_MEMORY, "no memory for the JSON output");
    print_value(&out, json, 0);
    zr__text_add(&out, "\n");
    return zr__text_take(&out, text);
}

zr_status zr__json_put(const char *path, const json_t *json)
{
    ZR_AUTO_FREE char *text = NULL;
    ZR_TRY(zr__json_print(json, &text));
    return zr__file_put(path, text, (int64_t)strlen(text));
}

const char *zr__json_show(const json_t *json, char *out, size_t size)
{
    ZR_AUTO_FREE char *text = NULL;
    if (!json) return snprintf(out, size, "missing"), out;
    if (json_is_object(json)) return snprintf(out, size, "an object"), out;
    if (json_is_array(json) && json_array_size(json) > 8) return snprintf(out, size, "a long array"), out;
    if (zr__json_print(json, &text) != ZR_OK) return snprintf(out, size, "a value"), out;
    text[strcspn(text, "\n")] = '\0';
    return zr__text_escape(text, out, size);
}
