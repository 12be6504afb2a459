/* crash.h: the last line of a process that crashes. Without it a crash leaves only the number of a signal, because
 * workers write no core files, which would contain the weights. */
#ifndef LOG_CRASH_H
#define LOG_CRASH_H

/* From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT first write a line to the log: the signal, the address for
 * which it came, and the calls of the thread, innermost first, each as OBJECT+OFFSET (`addr2line -f -e OBJECT OFFSET`
 * names the line of an object that is not stripped). Then they end the process as they would have. A process that
 * cannot write the line, for example because it crashed with a lock that the line needs, ends after some seconds.
 * Children inherit this until they execute another program. Call it before the first thread. Does nothing in builds
 * with a sanitizer, which tells more. */
void crash_report(void);

#endif
