# Images of deltaq: the Debian package of `make deb` in a slim Debian.
#
#     docker build -t deltaq .                            the processor does the work
#     docker build -t deltaq:cuda --target cuda .         with the CUDA plugin; the driver comes from outside
#     docker run -d --name deltaq -p 8642:8642 -v deltaq:/data deltaq
#     docker exec deltaq cat /data/first-token            what requests from elsewhere need
#
# docs/deploy.md goes on from there. BASE is what the image stands on, pinned by date and digest (of the index, so for
# every architecture); another one, like debian:trixie-slim, is an argument. What Debian has mended since that date is
# installed over it. COMMIT and SOURCE_DATE_EPOCH name what is built, and make two builds of it alike.
ARG BASE=debian:bookworm-20260824-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171

FROM ${BASE} AS toolchain
WORKDIR /src
COPY Makefile ./
COPY tests/tools tests/tools
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends make \
    && mkdir -p /etc/postgresql-common \
    && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf \
    && make -s deps-deb 2>&1

FROM toolchain AS build
ARG COMMIT=
ARG SOURCE_DATE_EPOCH=
COPY . .
RUN make -s deb NVCC= COMMIT="$COMMIT" && mkdir /out && mv build/debian/*.deb /out/

# Debian's own CUDA toolkit is in its component non-free; nvcc needs an older g++ than Debian's default one.
FROM toolchain AS cuda-toolchain
COPY deploy/images/non_free.sh deploy/images/
RUN sh deploy/images/non_free.sh \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        nvidia-cuda-toolkit nvidia-cuda-toolkit-gcc

FROM cuda-toolchain AS cuda-build
ARG COMMIT=
ARG SOURCE_DATE_EPOCH=
COPY . .
RUN make -s deb-cuda COMMIT="$COMMIT" && mkdir /out && mv build/debian/*.deb /out/

# What runs. The user's number is fixed, so that volumes can be prepared for it. PostgreSQL's packages make a
# certificate with a private key, which must not be in an image that others have too, and debconf keeps random names.
FROM ${BASE} AS runtime
ARG SOURCE_DATE_EPOCH=
RUN --mount=type=bind,from=build,source=/out,target=/out \
    { [ -n "$SOURCE_DATE_EPOCH" ] || unset SOURCE_DATE_EPOCH; } \
    && groupadd --gid 10001 deltaq \
    && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin deltaq \
    && install -d -o deltaq -g deltaq -m 0700 /data \
    && mkdir -p /etc/postgresql-common \
    && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf \
    && apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get upgrade -y -qq --no-install-recommends \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        /out/deltaq_*.deb postgresql ca-certificates systemd-standalone-sysusers \
    && find /etc/ssl -name ssl-cert-snakeoil.\* -delete -o -lname ssl-cert-snakeoil.pem -delete \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/ldconfig /var/cache/debconf/* /tmp/*
ENV DELTAQ_DATA_DIR=/data DELTAQ_LISTEN=0.0.0.0:8642 DELTAQ_FIRST_TOKEN=1
WORKDIR /data
VOLUME /data
EXPOSE 8642
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s CMD deltaq ready || exit 1
ENTRYPOINT ["deltaq"]
CMD ["serve"]
ARG COMMIT=
LABEL org.opencontainers.image.title="deltaq" \
      org.opencontainers.image.description="Measures what low-bit quantization costs checkpoints of language models" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="$COMMIT"

# What the image holds, from its own package database.
FROM build AS bill
ARG SOURCE_DATE_EPOCH=
COPY --from=runtime /var/lib/dpkg/status /runtime/status
RUN python3 deploy/images/sbom.py --name deltaq /runtime/status build/static >/deltaq.spdx.json

FROM runtime AS cuda-runtime
USER root
RUN --mount=type=bind,from=cuda-build,source=/out,target=/out \
    --mount=type=bind,from=build,source=/src/deploy/images,target=/tools \
    sh /tools/non_free.sh \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends /out/deltaq-cuda_*.deb \
        "$(dpkg-deb -f /out/deltaq-cuda_*.deb Recommends)" \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/ldconfig /var/cache/debconf/* /tmp/*
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001

FROM build AS cuda-bill
ARG SOURCE_DATE_EPOCH=
COPY --from=cuda-runtime /var/lib/dpkg/status /runtime/status
RUN python3 deploy/images/sbom.py --name deltaq-cuda /runtime/status build/static >/deltaq.spdx.json

FROM cuda-runtime AS cuda
COPY --from=cuda-bill /deltaq.spdx.json /usr/share/deltaq/deltaq.spdx.json

# The last one is what is built when no target is named.
FROM runtime AS cpu
COPY --from=bill /deltaq.spdx.json /usr/share/deltaq/deltaq.spdx.json
