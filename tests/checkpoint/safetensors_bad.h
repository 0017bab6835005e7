/* Malformed safetensors: the header text, the number of bytes after it, and a part of the expected error message. */
#ifndef ZR_TESTS_SAFETENSORS_BAD_H
#define ZR_TESTS_SAFETENSORS_BAD_H

static const struct {
    const char *header;
    int data_bytes;
    const char *fragment;
} safetensors_bad[] = {
    /* syntax */
    {"[]", 0, "does not begin with '{'"},
    {" {}", 0, "does not begin with '{'"},
    {"\xEF\xBB\xBF{}", 0, "does not begin with '{'"},
    {"{ ", 0, "the header:1:3: string or '}' expected"},
    {"{}x", 0, "end of file expected"},
    {"{}{}", 0, "end of file expected"},
    {"{a:1}", 0, "the header:1:2: "},
    {"{\"a", 0, "the header:1:2: "},
    {"{\"\xff\":{}}", 0, "unable to decode byte"},
    {"{\"\xc0\xaf\":{}}", 0, "unable to decode byte"},
    {"{\"\\ud800\":{}}", 0, "the header:1:2: "},
    {"{\"\\u0000\":{}}", 0, "the header:1:2: "},
    {"{\"a\x01\":{}}", 0, "the header:1:2: "},
    {"{\"a\" {}}", 0, "':' expected"},
    {"{\"a\":1}", 0, "tensor \"a\": its entry is not an object"},
    {"{\"a\":[]}", 0, "tensor \"a\": its entry is not an object"},
    {"{\"a\":null}", 0, "tensor \"a\": its entry is not an object"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},}", 1, "remove the comma"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}", 1, "'}' expected"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]} \"b\":{}}", 1, "a comma is missing"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[},\"data_offsets\":[0,1]}}", 1, "a.shape[0]: "},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],}}", 1, "a.data_offsets: remove the comma"},
    {"{\"a\":{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]}}", 0, "nested deeper"},
    /* fields */
    {"{\"a\":{}}", 0, "\"dtype\" is missing"},
    {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "\"shape\" is missing"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "\"data_offsets\" is missing"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":0}}", 1, "fields other than"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "duplicate"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, "a: duplicate object key"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, ": duplicate object key"},
    {"{\"a\":{\"dtype\":\"X8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "unknown dtype \"X8\""},
    {"{\"a\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "unknown dtype \"f32\""},
    {"{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "\"dtype\" must be a string"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, "\"shape\" must be an array"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1, "element 0 is not an integer"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[\"1\"],\"data_offsets\":[0,1]}}", 1, "element 0 is not an integer"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,-1],\"data_offsets\":[0,1]}}", 1, "dimension 1 is -1"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":0}}", 1, "must be two integers"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "must be two integers"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1, "must be two integers"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1.0]}}", 1, "must be two integers"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: \"a\" is not a string"},
    {"{\"__metadata__\":[]}", 0, "not an object"},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}", 0, "duplicate"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__: duplicate object key"},
    /* sizes */
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775808],\"data_offsets\":[0,1]}}", 1,
     "a.shape[0]: too big integer"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[281474976710657],\"data_offsets\":[0,1]}}", 1, "wanted 0 .. 2^48"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4194305,4194305,211106198978564],\"data_offsets\":[0,4]}}", 4, "passes 2^48"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[16777216,16777216,2],\"data_offsets\":[0,0]}}", 0, "passes 2^48"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[281474976710656,281474976710656,0],\"data_offsets\":[0,0]}}", 0,
     "passes 2^48"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[281474976710656],\"data_offsets\":[0,0]}}", 0, "wanted at most 2^48"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
     "span 4 bytes, but its shape and dtype F32 need 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,0]}}", 0,
     "span 0 bytes, but its shape and dtype F32 need 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,4]}}", 4,
     "span 4 bytes, but its shape and dtype F32 need 0"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "do not fill whole bytes"},
    {"{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "do not fill whole bytes"},
    /* offsets */
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", 1, "wanted 0 <= begin"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1, "wanted 0 <= begin"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 1, "wanted 0 <= begin"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[5,6]}}", 1, "wanted 0 <= begin"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[9223372036854775807,9223372036854775807]}}", 1,
     "wanted 0 <="},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2, "leaves a hole"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
     3, "tensor \"b\": begins at byte 2 of the data, leaves a hole"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
     3, "tensor \"b\": begins at byte 1 of the data, overlaps"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
     2, "tensor \"b\": begins at byte 0 of the data, overlaps"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]}}",
     2, "tensor \"b\": begins at byte 1 of the data, overlaps"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 2,
     "the file has 2 bytes of data, but its tensors fill 1"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[2,0],\"data_offsets\":[0,0]}}",
     0, "tensor \"b\": is empty and reuses the place of \"a\""},
    {"{}", 1, "the file has 1 bytes of data, but its tensors fill 0"},
};

#endif
