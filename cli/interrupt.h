/* cli/interrupt.h - Ctrl-C and its relatives, as a question.
 *
 * The one piece of state in this folder: signal handlers can reach nothing else.
 * Layer: cli. Threads: any may ask.
 */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on SIGINT, SIGTERM and SIGHUP are only noted; a second one acts as if we had not. */
void interrupt_catch(void);
bool interrupt_seen(void);
/* The signal; 0: none yet. */
int interrupt_signal(void);

#endif
