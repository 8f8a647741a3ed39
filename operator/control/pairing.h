/* control/pairing.h - which probes measure the link between them, and in what order.
 *
 * A round-robin tournament: in each round everybody meets one other, nobody two at once, so that no
 * measurement disturbs another on the same machine. Layer: control. Threads: any; pure.
 */
#ifndef CONTROL_PAIRING_H
#define CONTROL_PAIRING_H

/* Whom probe `i` of `n` meets in `round` (from 0); -1: nobody, since n is odd and it is left over.
 * After n - 1 rounds (n of an odd number) everybody has met everybody once. */
int pairing_partner(int n, int round, int i);
int pairing_rounds(int n);

#endif
