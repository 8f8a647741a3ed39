/* nn/threads.h - how many threads share the rows of a kernel.
 *
 * The count is set before the first kernel and then only read. Every kernel outside nn/gemm gives
 * the same bits for every count, because work is cut into pieces of a fixed size
 * (THREADS_CHUNK_ROWS) and partial sums are added in the order of pieces. Layer: nn. Threads: set
 * it while no kernel runs.
 */
#ifndef NN_THREADS_H
#define NN_THREADS_H

#define THREADS_MAX        64 /* as many as OpenBLAS is usually built for; more cores stay idle */
#define THREADS_CHUNK_ROWS 64 /* rows of a packed batch that one thread takes at a time */

/* `n` is clamped to 1..THREADS_MAX; 1 where the compiler has no OpenMP. */
void threads_set(int n);
/* The calling thread works beside the trainer: its kernels start no threads. */
void threads_set_alone(void);
int threads_count(void);

/* Pieces that `rows` rows are cut into. */
static inline int threads_chunks(int rows)
{
    return (rows + THREADS_CHUNK_ROWS - 1) / THREADS_CHUNK_ROWS;
}

#endif
