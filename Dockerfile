# The worker in an image of its own: one static program, the certificate
# authorities, an empty folder for the schema cache; no shell, no root.
#
#   docker build --build-arg VERSION=$(git describe --always --dirty) -t odradek:local .
#   docker run --rm odradek:local version
FROM golang:1.26.5-bookworm AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS=-mod=readonly
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
# Without the demo, the bench and their broker in memory (build tag nobench).
RUN go build -tags nobench -ldflags "-s -w -X main.version=${VERSION}" -o /out/worker ./cmd/worker
RUN mkdir -p /out/cache

FROM scratch
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
