"""libzr's tokenizers, for programs that compare them with other packages."""
import ctypes
import time

import numpy


class Ends(ctypes.Structure):
    _fields_ = [("begin", ctypes.POINTER(ctypes.c_int32)), ("end", ctypes.POINTER(ctypes.c_int32)),
                ("n_begin", ctypes.c_int64), ("n_end", ctypes.c_int64), ("separator", ctypes.c_int32)]


class Part(ctypes.Structure):
    """zr_data_part of zr/data.h."""
    _fields_ = [("share", ctypes.c_double), ("held_out", ctypes.c_bool)]


class Library:
    """libzr.so at a path."""
    def __init__(self, path):
        self.zr = ctypes.CDLL(str(path))
        self.zr.zr_error_message.restype = ctypes.c_char_p
        self.zr.zr_tokenizer_room.restype = self.zr.zr_tokenizer_vocab.restype = ctypes.c_int64
        self.zr.zr_tokenizer_get_ends.restype = Ends

    def wants(self, status):
        if status != 0:
            raise RuntimeError(self.zr.zr_error_message().decode())

    def open(self, path):
        return Mine(self, path)


class Mine:
    """A tokenizer of zr."""
    def __init__(self, library, path):
        self.zr, self.wants, self.self = library.zr, library.wants, ctypes.c_void_p()
        self.wants(self.zr.zr_tokenizer_open(str(path).encode(), ctypes.byref(self.self)))

    def close(self):
        self.zr.zr_tokenizer_close(ctypes.byref(self.self))

    def vocab(self):
        return self.zr.zr_tokenizer_vocab(self.self)

    def encode(self, text):
        room, n = self.zr.zr_tokenizer_room(self.self, ctypes.c_int64(len(text))), ctypes.c_int64()
        made = numpy.empty(room, numpy.int32)
        begin = time.process_time()
        self.wants(self.zr.zr_tokenizer_encode(self.self, text, ctypes.c_int64(len(text)), made.ctypes.data_as(
            ctypes.c_void_p), ctypes.c_int64(room), ctypes.byref(n)))
        self.sec = time.process_time() - begin
        return made[:n.value].copy()

    def decode(self, ids, special):
        ids = numpy.ascontiguousarray(ids, numpy.int32)
        text, n = ctypes.c_void_p(), ctypes.c_int64()
        self.wants(self.zr.zr_tokenizer_text(self.self, ids.ctypes.data_as(ctypes.c_void_p),
                                             ctypes.c_int64(len(ids)), special, ctypes.byref(text), ctypes.byref(n)))
        made = ctypes.string_at(text, n.value)
        self.zr.zr_free(text)
        return made.decode()

    def ends(self):
        ends = self.zr.zr_tokenizer_get_ends(self.self)
        return ends.begin[:ends.n_begin], ends.end[:ends.n_end], ends.separator
