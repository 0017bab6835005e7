/* Coroutines: stacks between which one thread of the processor switches. */
#ifndef ZR_TESTS_CUDA_COROUTINE_H
#define ZR_TESTS_CUDA_COROUTINE_H

#include <stdint.h>

#ifdef __x86_64__

/* The saved state of a coroutine: its stack, onto which all registers were pushed, and the position in it. */
struct coroutine {
    char *stack;
    void *at;
};

extern "C" void zr_coroutine_switch(void **from, void *to);
extern "C" void zr_coroutine_first();
asm(R"(
    .text
    .globl zr_coroutine_switch
    .type zr_coroutine_switch, @function
zr_coroutine_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .globl zr_coroutine_first
    .type zr_coroutine_first, @function
zr_coroutine_first:
    movq %r12, %rdi
    callq *%r13
    ud2
)");

inline void coroutine_switch(coroutine *from, coroutine *to)
{
    zr_coroutine_switch(&from->at, to->at);
}

/* Prepare a coroutine so that the first switch to it calls `main`. */
inline void coroutine_start(coroutine *c, size_t bytes, void (*main)(void *), void *arg)
{
    void **top = (void **)((uintptr_t)(c->stack + bytes) & ~(uintptr_t)15);
    *--top = nullptr;
    *--top = nullptr; /* keeps the stack aligned to 16 bytes at the first call */
    *--top = (void *)zr_coroutine_first;
    *--top = nullptr;      /* rbp */
    *--top = nullptr;      /* rbx */
    *--top = arg;          /* r12 */
    *--top = (void *)main; /* r13 */
    *--top = nullptr;      /* r14 */
    *--top = nullptr;      /* r15 */
    c->at = top;
}

#else
#include <ucontext.h>

struct coroutine {
    char *stack;
    ucontext_t at;
};

inline void coroutine_switch(coroutine *from, coroutine *to)
{
    swapcontext(&from->at, &to->at);
}

inline void coroutine_enter(unsigned main_low, unsigned main_high, unsigned arg_low, unsigned arg_high)
{
    ((void (*)(void *))((uintptr_t)main_high << 32 | main_low))((void *)((uintptr_t)arg_high << 32 | arg_low));
}

inline void coroutine_start(coroutine *c, size_t bytes, void (*main)(void *), void *arg)
{
    const uintptr_t m = (uintptr_t)main, a = (uintptr_t)arg;
    getcontext(&c->at);
    c->at.uc_stack.ss_sp = c->stack;
    c->at.uc_stack.ss_size = bytes;
    c->at.uc_link = nullptr;
    makecontext(&c->at, (void (*)())coroutine_enter, 4, (unsigned)m, (unsigned)(m >> 32), (unsigned)a,
                (unsigned)(a >> 32));
}
#endif
#endif
