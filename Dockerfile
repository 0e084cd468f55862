# The worker in an image of its own: one static program, the certificate
# authorities, an empty folder for the schema cache; no shell, no root.
#
#   docker build --build-arg COMMIT=$(git describe --always --dirty --exclude '*') -t odradek:local .
#
# makes the image for linux/amd64: beside the worker odradek-cuda, which the worker starts
# where there is an NVIDIA device, and the C library that the child and the driver need. The
# driver itself is the host's: the NVIDIA container toolkit puts it in (docker run --gpus all).
#
#   docker build --target worker --platform linux/arm64 -t odradek:local .
#
# makes it without the child, for amd64 and arm64; each builds the other without emulation.
#
# Behind a proxy: --build-arg HTTPS_PROXY=..., GOPROXY, GOSUMDB and PIP_INDEX_URL, and
# --secret id=ca,src=FILE for the certificate authorities of one that decrypts.
FROM --platform=$BUILDPLATFORM golang:1.26.5-bookworm AS modules
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS=-mod=readonly
ARG GOPROXY
ARG GOSUMDB
COPY go.mod go.sum ./
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt go mod download

FROM modules AS build
COPY . .
ARG COMMIT
ARG TARGETOS
ARG TARGETARCH
RUN --mount=type=cache,target=/root/.cache/go-build GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags "-s -w -X main.commit=${COMMIT}" -o /out/worker ./cmd/worker
RUN mkdir -p /out/cache

FROM --platform=linux/amd64 golang:1.26.5-bookworm AS child
ARG TARGETARCH
RUN test "$TARGETARCH" = amd64 || { echo "odradek-cuda is for linux/amd64: add --platform linux/amd64, or --target worker for an image without it"; exit 1; }
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip
WORKDIR /src
ARG PIP_INDEX_URL
COPY cuda/device/toolkit.sh cuda/device/
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt cuda/device/toolkit.sh bin/cuda
COPY . .
# The toolkit is there, so make may not build it by the files' times (-o). The modules are the stage's above.
RUN --mount=type=bind,from=modules,source=/go/pkg/mod,target=/go/pkg/mod,rw --mount=type=cache,target=/root/.cache/go-build \
    make -o bin/cuda/lib/libcuda.so child
RUN mkdir -p /out/lib && cp -L /lib/x86_64-linux-gnu/libc.so.6 /lib/x86_64-linux-gnu/libm.so.6 \
    /lib/x86_64-linux-gnu/libdl.so.2 /lib/x86_64-linux-gnu/libpthread.so.0 /lib/x86_64-linux-gnu/librt.so.1 /out/lib

FROM scratch AS worker
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

FROM worker
COPY --from=child /src/bin/odradek-cuda /odradek-cuda
COPY --from=child /lib64/ld-linux-x86-64.so.2 /lib64/ld-linux-x86-64.so.2
COPY --from=child /out/lib /lib/x86_64-linux-gnu
# So that the container toolkit puts the driver where a Debian has libraries.
COPY --from=child /etc/debian_version /etc/debian_version
# So that it enters a driver of other folders there, as of Red Hat: up to 1.17 it makes no such file.
COPY --from=child /etc/ld.so.cache /etc/ld.so.cache
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu:/usr/local/nvidia/lib64
