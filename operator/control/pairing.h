/* control/pairing.h - which probes measure the link between them, and in what order.
 *
 * A round-robin tournament: in each round every probe has one partner, so that no
 * measurement disturbs another on the same machine. Layer: control. Threads: any; pure.
 */
#ifndef CONTROL_PAIRING_H
#define CONTROL_PAIRING_H

/* The partner of probe `i` of `n` in `round` (from 0); -1: none, since n is odd.
 * After n - 1 rounds (n of an odd number) all have been paired with each other once. */
int pairing_partner(int n, int round, int i);
int pairing_rounds(int n);

#endif
