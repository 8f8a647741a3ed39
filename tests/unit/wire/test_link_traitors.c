#include "base/clock.h"
#include "raw_peer.h"
#include "suite.h"

/* --- a neighbour that goes bad after a good start --- */

struct traitor {
    const char *name;
    void (*betray)(int fd); /* may close nothing: that is done afterwards */
    enum err_code want;
    const char *says;
};

static void t_says_text(int fd)
{
    raw_send(fd, "\x81\x85\0\0\0\0hello", 11);
}

static void t_says_garbage(int fd)
{
    raw_send_message(fd, "hello, this is no frame at all", 30);
}

static void t_sends_too_large_a_tensor(int fd)
{
    struct frame_header head = raw_header(FRAME_DATA);
    uint8_t bytes[FRAME_HEADER_BYTES];

    head.tensor_bytes = TENSOR_MAX + 1;
    frame_encode(&head, bytes);
    raw_send_message(fd, bytes, sizeof bytes);
}

static void t_sends_too_many(int fd)
{
    for (int i = 0; i < 4; i++) /* 3 are allowed, see params_of() */
        raw_send_frame(fd, raw_header(FRAME_DATA), NULL, 0);
}

static void t_sends_a_wrong_checksum(int fd)
{
    struct frame_header head = raw_header(FRAME_DATA);
    uint8_t bytes[FRAME_HEADER_BYTES + 4] = {0};

    head.tensor_bytes = 4;
    head.payload_crc = 12345;
    frame_encode(&head, bytes);
    raw_send_message(fd, bytes, sizeof bytes);
}

static void t_changes_the_revision(int fd)
{
    struct frame_header head = raw_header(FRAME_DATA);

    head.revision++;
    raw_send_frame(fd, head, NULL, 0);
}

static void t_gives_credits_to_the_receiver(int fd)
{
    raw_send_frame(fd, raw_header(FRAME_CREDIT), NULL, 0);
}

static void t_says_hello_again(int fd)
{
    struct hello hello = raw_hello(0, 1);

    raw_send_hello(fd, raw_header(FRAME_HELLO), &hello);
}

static void t_counts_wrong_at_the_end(int fd)
{
    struct frame_header head = raw_header(FRAME_BYE);

    head.step = 7;
    raw_send_frame(fd, head, NULL, 0);
}

static void t_stops_in_the_middle_of_a_tensor(int fd)
{
    struct frame_header head = raw_header(FRAME_DATA);
    uint8_t bytes[FRAME_HEADER_BYTES + 1000] = {0};

    head.tensor_bytes = TENSOR_MAX;
    frame_encode(&head, bytes);
    raw_send_message(fd, bytes, sizeof bytes);
    shutdown(fd, SHUT_WR);
}

/* libwebsockets says so and waits a while for the answer. */
static void t_breaks_the_websocket(int fd)
{
    char answer[200];
    bool ended;

    raw_send(fd, "\xf2\x85\0\0\0\0hello", 11);
    (void)raw_read_until(fd, "rsv bits", answer, sizeof answer, &ended);
    shutdown(fd, SHUT_WR);
}

static struct traitor traitors[] = {
    {"link_loses_a_neighbour_that_says_text", t_says_text, ERR_PROTOCOL,
     "stage 0 broke the protocol: text"},
    {"link_loses_a_neighbour_that_says_garbage", t_says_garbage, ERR_PROTOCOL,
     "not a frame of version"},
    {"link_loses_a_neighbour_that_sends_too_large_a_tensor", t_sends_too_large_a_tensor,
     ERR_PROTOCOL, "DATA frame: 3145729 bytes of tensor, at most 3145728"},
    {"link_loses_a_neighbour_that_sends_too_many", t_sends_too_many, ERR_PROTOCOL,
     "more frames than allowed"},
    {"link_loses_a_neighbour_that_sends_a_wrong_checksum", t_sends_a_wrong_checksum, ERR_PROTOCOL,
     "wrong checksum"},
    {"link_loses_a_neighbour_that_changes_its_revision", t_changes_the_revision, ERR_PROTOCOL,
     "revision 3, not 2"},
    {"link_loses_a_neighbour_that_gives_credits", t_gives_credits_to_the_receiver, ERR_PROTOCOL,
     "CREDIT frame is not expected"},
    {"link_loses_a_neighbour_that_says_hello_again", t_says_hello_again, ERR_PROTOCOL,
     "HELLO frame is not expected"},
    {"link_loses_a_neighbour_that_counts_wrong", t_counts_wrong_at_the_end, ERR_PROTOCOL,
     "7 frames were sent, 0 arrived"},
    {"link_loses_a_neighbour_that_stops_in_a_tensor", t_stops_in_the_middle_of_a_tensor, ERR_IO,
     "stage 0 is gone"},
    {"link_loses_a_neighbour_that_breaks_the_websocket", t_breaks_the_websocket, ERR_IO,
     "stage 0 is gone"},
};

static void open_stage_1(struct stages *s)
{
    struct stage_params p = params_of(1, 2);

    *s = (struct stages){.n = 2};
    open_stage(s, 1, &p);
}

/* The next result that is not a whole message. */
static enum err_code receive_until_it_fails(struct link *link, struct err *err)
{
    struct link_message msg;
    enum err_code rc = ERR_OK;

    for (int i = 0; i < 10 && rc == ERR_OK; i++)
        rc = receive_on(link, FORWARD_IN, TIMEOUT_MS, &msg, err);
    return rc;
}

static void check_traitor(void **state)
{
    const struct traitor *row = *state;
    int64_t start_ms = clock_now_ms();
    struct stages s;
    struct err err;
    int fd;

    open_stage_1(&s);
    fd = raw_stage_0(link_port(s.links[1]));
    row->betray(fd);
    if (receive_until_it_fails(s.links[1], &err) != row->want || !strstr(err.text, row->says))
        fail_msg("code %d \"%s\"", err.code, err.text);
    assert_true(clock_now_ms() - start_ms < 1000);
    close(fd);
    stop(&s);
}

static void link_takes_a_tensor_in_segments_of_one_byte(void **state)
{
    struct frame_header head = raw_header(FRAME_DATA);
    uint8_t bytes[WSFRAME_HEAD_MAX + FRAME_HEADER_BYTES + 500];
    uint8_t *frame = bytes + WSFRAME_HEAD_MAX;
    struct link_message want = {.type = 0};
    uint8_t tensor[500];
    struct stages s;
    size_t n;
    int fd;

    (void)state;
    for (size_t i = 0; i < sizeof tensor; i++)
        tensor[i] = (uint8_t)(i * 3);
    want.tensor = tensor;
    want.tensor_bytes = head.tensor_bytes = sizeof tensor;
    head.payload_crc = crc32c(0, tensor, sizeof tensor);
    frame_encode(&head, frame);
    memcpy(frame + FRAME_HEADER_BYTES, tensor, sizeof tensor);
    n = wsframe_wrap(frame, FRAME_HEADER_BYTES + sizeof tensor, true, true, 0xdeadbeef);

    open_stage_1(&s);
    fd = raw_stage_0(link_port(s.links[1]));
    for (size_t i = 0; i < n + FRAME_HEADER_BYTES + sizeof tensor; i++) {
        raw_send(fd, frame - n + i, 1);
        usleep(i % 10 == 0 ? 200 : 0);
    }
    receive_ok(s.links[1], FORWARD_IN, &want);
    close(fd);
    stop(&s);
}

static void link_takes_fragments_that_cut_a_frame_anywhere(void **state)
{
    struct frame_header head = raw_header(FRAME_DATA);
    uint8_t bytes[WSFRAME_HEAD_MAX + FRAME_HEADER_BYTES], room[WSFRAME_HEAD_MAX + 16];
    struct link_message want = {.type = 0};
    struct stages s;
    int fd;

    (void)state;
    frame_encode(&head, bytes);
    open_stage_1(&s);
    fd = raw_stage_0(link_port(s.links[1]));
    for (size_t i = 0; i < FRAME_HEADER_BYTES; i += 16) {
        size_t n;

        memcpy(room + WSFRAME_HEAD_MAX, bytes + i, 16);
        n = wsframe_wrap(room + WSFRAME_HEAD_MAX, 16, i == 0, i == 48, (uint32_t)i * 7919);
        raw_send(fd, room + WSFRAME_HEAD_MAX - n, n + 16);
        raw_send(fd, "\x89\x80\1\2\3\4", 6); /* a ping in between */
    }
    receive_ok(s.links[1], FORWARD_IN, &want);
    close(fd);
    stop(&s);
}

/* One that is slow to say BYE still waits for the answer, or takes its messages for lost. */
static void link_finish_of_a_receiver_waits_for_the_sender(void **state)
{
    struct frame_header bye = raw_header(FRAME_BYE);
    struct link_message want = {.type = 0};
    struct stages s;
    struct err err;
    int fd;

    (void)state;
    open_stage_1(&s);
    fd = raw_stage_0(link_port(s.links[1]));
    raw_send_frame(fd, raw_header(FRAME_DATA), NULL, 0);
    receive_ok(s.links[1], FORWARD_IN, &want);
    expect(link_finish(s.links[1], 50, &err), ERR_TIMEOUT, &err,
           "forward edge: stage 0 has not closed the connection in 50 ms");
    bye.step = 1;
    raw_send_frame(fd, bye, NULL, 0);
    close(fd);
    assert_int_equal(link_finish(s.links[1], TIMEOUT_MS, &err), ERR_OK);
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_takes_a_tensor_in_segments_of_one_byte),
        cmocka_unit_test(link_takes_fragments_that_cut_a_frame_anywhere),
        cmocka_unit_test(link_finish_of_a_receiver_waits_for_the_sender),
    };
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, traitors, check_traitor);
    SUITE_TESTS(&suite, tests);
    return suite_run(&suite, "traitors", NULL, NULL);
}
