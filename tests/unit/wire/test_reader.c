#include "wire/reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "page_end.h"

#define N_FRAMES   4
#define STREAM_MAX 1024

static const struct frame_limits limits = {
    .kinds = UINT32_MAX, .meta_max_bytes = 64, .tensor_max_bytes = 256};

/* With both parts, with none, with meta only, with a tensor only. */
static const struct {
    enum frame_kind kind;
    uint32_t meta_bytes;
    uint64_t tensor_bytes;
} shapes[N_FRAMES] = {
    {FRAME_DATA, 13, 201}, {FRAME_BYE, 0, 0}, {FRAME_CHALLENGE, 24, 0}, {FRAME_DATA, 0, 77}};

static uint8_t payload[STREAM_MAX];

static size_t make_stream(uint8_t out[static STREAM_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(i * 31 + 5);
    for (int i = 0; i < N_FRAMES; i++) {
        size_t n_payload = shapes[i].meta_bytes + (size_t)shapes[i].tensor_bytes;
        struct frame_header head = {.kind = shapes[i].kind,
                                    .step = (uint64_t)i,
                                    .meta_bytes = shapes[i].meta_bytes,
                                    .tensor_bytes = shapes[i].tensor_bytes,
                                    .payload_crc = crc32c(0, payload, n_payload)};

        frame_encode(&head, out + n);
        memcpy(out + n + FRAME_HEADER_BYTES, payload, n_payload);
        n += FRAME_HEADER_BYTES + n_payload;
    }
    return n;
}

struct sink {
    struct reader reader;
    uint8_t meta[64];
    uint8_t tensor[256];
    int n_frames;
};

static void check_frame(const struct sink *sink)
{
    const struct frame_header *head = &sink->reader.head;

    assert_int_equal(head->step, sink->n_frames);
    assert_int_equal(head->kind, shapes[sink->n_frames].kind);
    assert_memory_equal(sink->meta, payload, head->meta_bytes);
    assert_memory_equal(sink->tensor, payload + head->meta_bytes, (size_t)head->tensor_bytes);
}

static enum err_code feed(struct sink *sink, const uint8_t *bytes, size_t n)
{
    enum reader_event event;
    enum err_code rc;

    do {
        rc = reader_feed(&sink->reader, &limits, &bytes, &n, &event, NULL);
        if (rc == ERR_OK && event == READER_EVENT_HEADER)
            reader_place(&sink->reader, sink->meta, sink->tensor);
        if (rc == ERR_OK && event == READER_EVENT_FRAME) {
            check_frame(sink);
            sink->n_frames++;
        }
    } while (rc == ERR_OK && event != READER_EVENT_NONE);
    return rc;
}

static void reader_gives_the_same_frames_for_every_cut(void **state)
{
    uint8_t stream[STREAM_MAX], *page = page_end_new();
    size_t n = make_stream(stream);

    (void)state;
    assert_non_null(page);
    for (size_t a = 0; a <= n; a++)
        for (size_t b = a; b <= n; b += 7) {
            struct sink sink = {0};

            assert_int_equal(feed(&sink, page_end_put(page, stream, a), a), ERR_OK);
            assert_int_equal(feed(&sink, page_end_put(page, stream + a, b - a), b - a), ERR_OK);
            assert_int_equal(feed(&sink, page_end_put(page, stream + b, n - b), n - b), ERR_OK);
            assert_int_equal(sink.n_frames, N_FRAMES);
        }
    munmap(page, PAGE_END_MAX + 4096);
}

static void reader_gives_the_same_frames_byte_by_byte(void **state)
{
    uint8_t stream[STREAM_MAX], *page = page_end_new();
    size_t n = make_stream(stream);
    struct sink sink = {0};

    (void)state;
    assert_non_null(page);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(feed(&sink, page_end_put(page, stream + i, 1), 1), ERR_OK);
    assert_int_equal(sink.n_frames, N_FRAMES);
    munmap(page, PAGE_END_MAX + 4096);
}

static void reader_refuses_every_flipped_byte(void **state)
{
    uint8_t stream[STREAM_MAX];
    size_t n = make_stream(stream);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        struct sink sink = {0};

        stream[i] ^= 0x10;
        assert_int_equal(feed(&sink, stream, n), ERR_PROTOCOL);
        assert_true(sink.n_frames < N_FRAMES);
        stream[i] ^= 0x10;
    }
}

static void reader_has_no_frame_from_a_stream_that_ends_early(void **state)
{
    uint8_t stream[STREAM_MAX];
    size_t first = FRAME_HEADER_BYTES + shapes[0].meta_bytes + (size_t)shapes[0].tensor_bytes;

    (void)state;
    (void)make_stream(stream);
    for (size_t n = 0; n < first; n++) {
        struct sink sink = {0};

        assert_int_equal(feed(&sink, stream, n), ERR_OK);
        assert_int_equal(sink.n_frames, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_gives_the_same_frames_for_every_cut),
        cmocka_unit_test(reader_gives_the_same_frames_byte_by_byte),
        cmocka_unit_test(reader_refuses_every_flipped_byte),
        cmocka_unit_test(reader_has_no_frame_from_a_stream_that_ends_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
