/* crash.h: the last lines of a process that crashes. Without it a crash leaves only the number of a signal, because
 * workers write no core files, which would contain the weights. */
#ifndef LOG_CRASH_H
#define LOG_CRASH_H

/* From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT first write two lines to the log: the signal, the address for
 * which it came and the place of the instruction; then the calls of the thread, innermost first. Places and calls read
 * OBJECT+OFFSET (`addr2line -f -e OBJECT OFFSET` names the line of an object that is not stripped). Then they end the
 * process as they would have. The second line is missing where the stack is so broken that reading it crashes, too. A
 * process that cannot write the lines, for example because it crashed with a lock that they need, ends after seconds.
 * Children inherit this until they execute another program. Call it before the first thread. Does nothing in builds
 * with a sanitizer, which tells more. */
void crash_report(void);

#endif
