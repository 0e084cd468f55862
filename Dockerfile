# The worker in an image of its own: one static program, the certificate
# authorities, an empty folder for the schema cache; no shell, no root. Beside it
# odradek-cuda, which the worker starts where there is an NVIDIA device, and the C
# library that the child and the driver need. The driver itself is the host's: the
# NVIDIA container toolkit puts it in (docker run --gpus all).
#
#   docker build --build-arg COMMIT=$(git describe --always --dirty --exclude '*') -t odradek:local .
#   docker run --rm odradek:local version
FROM golang:1.26.5-bookworm AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS=-mod=readonly
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG COMMIT
RUN go build -trimpath -ldflags "-s -w -X main.commit=${COMMIT}" -o /out/worker ./cmd/worker
RUN mkdir -p /out/cache

FROM golang:1.26.5-bookworm AS child
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make child && mkdir -p /out/lib && cp -L /lib/x86_64-linux-gnu/libc.so.6 /lib/x86_64-linux-gnu/libm.so.6 \
    /lib/x86_64-linux-gnu/libdl.so.2 /lib/x86_64-linux-gnu/libpthread.so.0 /lib/x86_64-linux-gnu/librt.so.1 /out/lib

FROM scratch
COPY --from=child /src/bin/odradek-cuda /odradek-cuda
COPY --from=child /lib64/ld-linux-x86-64.so.2 /lib64/ld-linux-x86-64.so.2
COPY --from=child /out/lib /lib/x86_64-linux-gnu
# So that the container toolkit puts the driver where a Debian has libraries.
COPY --from=child /etc/debian_version /etc/debian_version
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu:/usr/local/nvidia/lib64
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/worker /worker
COPY --from=build --chown=65532:65532 /out/cache /var/cache/odradek
USER 65532:65532
ENV ODRADEK_SCHEMA_REGISTRY_CACHE_DIR=/var/cache/odradek
VOLUME ["/var/cache/odradek"]
EXPOSE 9464
HEALTHCHECK --interval=10s --timeout=5s --start-period=2m --retries=3 CMD ["/worker", "healthcheck"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/worker"]
CMD ["run"]
