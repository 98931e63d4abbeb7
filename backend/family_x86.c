/* x86: LLVM's target, and which instruction sets the CPU that runs the code has. */
#include "backend/family.h"

void family_start_x86(void)
{
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser(); /* the inline assembly of cpuid */
}

void family_fence_x86(L *l) { l_intrinsic(l, "llvm.x86.sse.sfence", NULL, NULL, 0); }

static V inline_asm(L *l, Ty type, const char *text, const char *constraints)
{
    size_t nt = 0, nc = 0;
    while (text[nt])
        nt++;
    while (constraints[nc])
        nc++;
    (void)l;
    return LLVMGetInlineAsm(type, (char *)(uintptr_t)text, nt, (char *)(uintptr_t)constraints, nc, 1, 0,
                            LLVMInlineAsmDialectATT, 0);
}

/* {eax, ebx, ecx, edx} of a CPUID leaf and subleaf. */
static V cpuid(L *l, int64_t leaf, int64_t subleaf)
{
    Ty four[4] = {l->i32, l->i32, l->i32, l->i32}, two[2] = {l->i32, l->i32};
    Ty type = l_fn_type(l, LLVMStructTypeInContext(l->ctx, four, 4, 0), two, 2);
    V code = inline_asm(l, type, "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}");
    V args[2] = {l_i32(l, leaf), l_i32(l, subleaf)};
    return LLVMBuildCall2(l->b, type, code, args, 2, "");
}

enum { OSXSAVE = 1 << 27 }; /* of CPUID leaf 1 ECX */

/* XCR0, or 0 when the operating system does not show it. */
static V xgetbv(L *l, V leaf1_ecx)
{
    Ty two[2] = {l->i32, l->i32};
    Ty type = l_fn_type(l, LLVMStructTypeInContext(l->ctx, two, 2, 0), &l->i32, 1);
    Block before = l_here(l);
    V shown = l_and(l, leaf1_ecx, l_i32(l, OSXSAVE));
    When has = l_when(l, l_icmp(l, LLVMIntNE, shown, l_i32(l, 0)));
    V code = inline_asm(l, type, ".byte 0x0f, 0x01, 0xd0", "={ax},={dx},{cx}");
    V zero = l_i32(l, 0);
    V low = LLVMBuildExtractValue(l->b, LLVMBuildCall2(l->b, type, code, &zero, 1, ""), 0, "");
    Block from = l_here(l);
    l_end_when(l, &has);
    return l_phi(l, l->i32, zero, before, low, from);
}

static V has_bits(L *l, V value, uint32_t mask)
{
    V m = l_i32(l, mask);
    return l_icmp(l, LLVMIntEQ, l_and(l, value, m), m);
}

/* What the CPU shows, each an i32; beyond its highest leaf: 0. */
typedef struct Shown {
    V leaf1_ecx, leaf7_ebx, leaf7_edx, leaf7_1_eax, xcr0;
} Shown;

static V part(L *l, V leaf, unsigned reg) { return LLVMBuildExtractValue(l->b, leaf, reg, ""); }

static Shown emit_shown(L *l)
{
    V zero = l_i32(l, 0), top = part(l, cpuid(l, 0, 0), 0), leaf7 = cpuid(l, 7, 0), leaf7_1 = cpuid(l, 7, 1);
    V has7 = l_icmp(l, LLVMIntUGE, top, l_i32(l, 7));
    V has7_1 = l_and(l, has7, l_icmp(l, LLVMIntUGE, part(l, leaf7, 0), l_i32(l, 1)));
    Shown s = {.leaf1_ecx = part(l, cpuid(l, 1, 0), 2),
               .leaf7_ebx = l_select(l, has7, part(l, leaf7, 1), zero),
               .leaf7_edx = l_select(l, has7, part(l, leaf7, 3), zero),
               .leaf7_1_eax = l_select(l, has7_1, part(l, leaf7_1, 0), zero)};
    s.xcr0 = xgetbv(l, s.leaf1_ecx);
    return s;
}

/* `shown`, and the operating system grants the registers of this state: it is asked only on a CPU that has them. */
static V granted(L *l, V shown, uint32_t state)
{
    Ty three[3] = {l->i64, l->i64, l->i64}, type = l_fn_type(l, l->i64, three, 3);
    V code = inline_asm(l, type, "syscall", "={ax},{ax},{di},{si},~{rcx},~{r11},~{memory}");
    V args[3] = {l_i64(l, CPU_ASK_CALL), l_i64(l, CPU_ASK), l_i64(l, state)};
    Block before = l_here(l);
    When has = l_when(l, shown);
    V yes = l_icmp(l, LLVMIntEQ, LLVMBuildCall2(l->b, type, code, args, 3, ""), l_i64(l, 0));
    Block from = l_here(l);
    l_end_when(l, &has);
    return l_phi(l, l->i1, shown, before, yes, from);
}

static V can_run(L *l, const Shown *s, const CpuNeeds *need)
{
    V all = has_bits(l, s->leaf1_ecx, need->leaf1_ecx);
    all = l_and(l, all, has_bits(l, s->leaf7_ebx, need->leaf7_ebx));
    all = l_and(l, all, has_bits(l, s->leaf7_edx, need->leaf7_edx));
    all = l_and(l, all, has_bits(l, s->leaf7_1_eax, need->leaf7_1_eax));
    all = l_and(l, all, has_bits(l, s->xcr0, need->xcr0));
    return need->permission ? granted(l, all, need->permission) : all;
}

/* can[i]: this CPU runs inputs[i]. */
void family_can_run_x86(L *l, const BackendInput *inputs, uint32_t n, V *can)
{
    Shown shown = emit_shown(l);
    for (uint32_t i = 0; i < n; i++) {
        const CpuNeeds *need = &cpu_table[inputs[i].isa].needs;
        can[i] = need->leaf1_ecx ? can_run(l, &shown, need) : l_true(l);
    }
}
