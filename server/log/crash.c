#include "log/crash.h"

#include "log/log.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

enum { CALLS_MOST = 32, TEXT_SIZE = 900, DEADLINE_SECONDS = 5 };

static bool is_loaded(uintptr_t address)
{
    Dl_info found;
    return address != 0 && dladdr((const void *)address, &found) != 0;
}

static uintptr_t executed(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#else
    return (uintptr_t)context->uc_mcontext.pc;
#endif
}

/* Where unwinding begins. A call of a null pointer, or of a library that was closed, leaves nothing to unwind from, and
 * the unwinder itself would crash as it reads the instruction: then the context is set to where the call would have
 * returned. */
static uintptr_t place_in(ucontext_t *context)
{
    if (is_loaded(executed(context))) return executed(context);
#if defined(__x86_64__)
    greg_t *registers = context->uc_mcontext.gregs;
    memcpy(&registers[REG_RIP], (const void *)registers[REG_RSP], sizeof registers[REG_RIP]);
    registers[REG_RSP] += (greg_t)sizeof registers[REG_RIP];
#else
    context->uc_mcontext.pc = context->uc_mcontext.regs[30];
#endif
    return executed(context);
}

static void add_call(const void *address, char text[TEXT_SIZE])
{
    Dl_info found = {0}, own = {0};
    const size_t used = strlen(text);
    (void)dladdr((const void *)(uintptr_t)crash_report, &own);
    if (dladdr(address, &found) == 0 || found.dli_fname == NULL) {
        (void)snprintf(text + used, TEXT_SIZE - used, " 0x%" PRIxPTR, (uintptr_t)address);
        return;
    }
    const char *slash = strrchr(found.dli_fname, '/');
    const char *name = slash != NULL ? slash + 1 : found.dli_fname;
    if (found.dli_fbase == own.dli_fbase) name = "deltaq"; /* it may have been started as /proc/self/exe */
    (void)snprintf(text + used, TEXT_SIZE - used, " %s+0x%" PRIxPTR, name,
                   (uintptr_t)address - (uintptr_t)found.dli_fbase);
}

/* The calls below the signal's own. */
static void add_calls(uintptr_t place, char text[TEXT_SIZE])
{
    void *calls[CALLS_MOST];
    const int count = backtrace(calls, CALLS_MOST);
    int first = 0;
    while (first < count && (uintptr_t)calls[first] != place) first++;
    for (int i = first < count ? first : 0; i < count; i++) add_call(calls[i], text);
}

/* The lines take locks and memory, which no handler may rely on: hence the alarm. The first says what is known without
 * unwinding, which crashes itself where the stack is broken. */
static void report(int number, siginfo_t *info, void *context)
{
    char place[TEXT_SIZE] = "", calls[TEXT_SIZE] = "", address[48] = "";
    sigset_t alarms;
    (void)sigemptyset(&alarms);
    (void)sigaddset(&alarms, SIGALRM);
    (void)signal(SIGALRM, SIG_DFL);
    (void)pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    (void)alarm(DEADLINE_SECONDS);
    if (info->si_code > 0) (void)snprintf(address, sizeof address, " at 0x%" PRIxPTR, (uintptr_t)info->si_addr);
    add_call((const void *)executed(context), place);
    log_error(LOG_COMPONENT_CRASH, "crashed by signal %d (%s)%s in%s", number, strsignal(number), address, place);
    add_calls(place_in(context), calls);
    log_error(LOG_COMPONENT_CRASH, "called from%s", calls);
    (void)raise(number);
}

void crash_report(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    void *first[1];
    struct sigaction action = {.sa_sigaction = report, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND | SA_NODEFER};
    (void)backtrace(first, 1); /* loads what it needs now */
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) (void)sigaction(signals[i], &action, NULL);
}

#else

void crash_report(void)
{
}

#endif
