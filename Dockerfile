# Two images from one build: `docker build --target operator .` and `--target worker`.
#
# BASE is any Debian 12 or 13 image with apt: Docker Hub's, or one that hack/cluster/base-image.sh
# makes from packages where no registry answers.
ARG BASE=debian:12-slim

FROM ${BASE} AS build
WORKDIR /src
COPY hack/deps.sh hack/deps.sh
RUN hack/deps.sh build
COPY . .
RUN make -j2 all build/sample

FROM ${BASE} AS operator
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends \
        ca-certificates libcurl4 libcjson1 libyaml-0-2 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
# kubectl-skyjob is for `helm test`.
COPY --from=build /src/build/release/bin/skyjob-operator /src/build/release/bin/kubectl-skyjob /usr/local/bin/
COPY LICENSE /usr/share/doc/skyjob/
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/skyjob-operator"]

FROM ${BASE} AS worker
# libwebsockets has another number in its package's name in every Debian.
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends \
        ca-certificates libcurl4 libopenblas0-pthread '^libwebsockets[0-9]+(t64)?$' libcjson1 libyaml-0-2 \
        '^libutf8proc[0-9]+$' libgomp1 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY --from=build /src/build/release/bin/skyjob-worker /src/build/release/bin/skyjob-import /usr/local/bin/
COPY --from=build /src/build/sample/mnli /usr/share/skyjob/mnli
COPY LICENSE /usr/share/doc/skyjob/
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/skyjob-worker"]
