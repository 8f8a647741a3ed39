# The images by docker: `docker build --target operator .` and `--target worker`. They contain the same as those that
# hack/images.sh makes, which are shipped: without docker and a registry, for both architectures.
#
# BASE is a Debian with apt; what of it programs need is copied.
ARG BASE=debian:13-slim

FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH=0
WORKDIR /src
COPY hack/deps.sh hack/deps.sh
RUN hack/deps.sh ship
COPY . .
RUN make -j2 all sample && for name in operator worker; do \
        IMAGE_REVISION= hack/pack-image.sh $name "$(dpkg --print-architecture)" /images/$name || exit; done

FROM scratch AS operator
COPY --from=build /images/operator /
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/skyjob-operator"]

FROM scratch AS worker
COPY --from=build /images/worker /
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/skyjob-worker"]
