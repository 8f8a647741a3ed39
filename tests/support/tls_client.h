/* A raw HTTPS client on loopback that has no certificate and believes any. */
#ifndef TEST_TLS_CLIENT_H
#define TEST_TLS_CLIENT_H

#include <openssl/ssl.h>

#include "client.h"

/* Send a request and read until the server closes, into client_answer; returns the status, 0 for
 * none. */
static inline int tls_client_ask(int port, const char *request)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(context);
    int fd = client_dial(port);
    int len = 0, got, status = 0;

    assert_int_equal(SSL_set_fd(ssl, fd), 1);
    if (SSL_connect(ssl) == 1 && SSL_write(ssl, request, (int)strlen(request)) > 0)
        while ((got = SSL_read(ssl, client_answer + len, (int)sizeof client_answer - 1 - len)) > 0)
            len += got;
    client_answer[len] = '\0';
    (void)sscanf(client_answer, "HTTP/1.1 %d", &status);
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(fd);
    return status;
}

#endif
