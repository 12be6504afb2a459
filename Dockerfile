# docker build -t deltaq . && docker run -p 8642:8642 -v deltaq:/data deltaq
FROM debian:bookworm-slim AS build
COPY . /src
WORKDIR /src
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends make \
    && make deps-build && make install DESTDIR=/out

FROM debian:bookworm-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends \
    libmicrohttpd12 libjansson4 libpq5 libpcre2-8-0 libutf8proc2 \
        libssl3 zlib1g libcurl4 libsqlite3-0 libopenblas0-pthread postgresql && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/usr/local /usr/local
VOLUME /data
EXPOSE 8642
# Beyond loopback the server asks for a token: `docker run … deltaq token create --scope admin --data-dir /data` makes
# one.
ENTRYPOINT ["deltaq"]
CMD ["serve", "--listen", "0.0.0.0:8642", "--data-dir", "/data", "--root", "/data"]
