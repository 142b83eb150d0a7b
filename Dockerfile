# The feed: its static binary, under both names, and the certificates of the public authorities. Build it with the repository's root as context:
#
#   docker build -t imgfeed .
#   docker run --rm -v /data:/data:ro -v /run/imgfeed:/run/imgfeed imgfeed       # serves /data on /run/imgfeed/imgfeed.sock
#   docker run --rm -v /data:/data --user "$(id -u):$(id -g)" --entrypoint /imgshard imgfeed build /data   # packs
#
# The first stage is also that of trainer/Dockerfile, line by line, so that the second build finds it in the cache.
ARG GO_IMAGE=golang:1.27.4
FROM ${GO_IMAGE} AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOEXPERIMENT=simd GOTOOLCHAIN= GOFLAGS=-buildvcs=false
COPY go.mod go.sum ./
# The kernels are written for the release that go.mod names: an image with another Go fetches it.
RUN go env -w GOTOOLCHAIN=$(sed -n 's/^toolchain //p' go.mod) && go mod download
COPY cmd cmd
COPY internal internal
COPY loader loader
COPY server server
COPY shard shard
COPY transform transform
# As make does: the version is the Python package's. COMMIT may say what it was built of.
COPY python/imgfeed/__init__.py version.py
ARG COMMIT=
RUN stamp=github.com/imgfeed/imgfeed/internal/version && number=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' version.py) && \
    go build -trimpath -ldflags "-s -w -X $stamp.number=$number -X $stamp.commit=$COMMIT" -o /out/ ./cmd/imgfeed

# An empty folder for the socket, which clients of any user may look into: a new volume takes its permissions over; and the second name.
FROM build AS folders
RUN mkdir -p -m 1777 /empty/run/imgfeed /empty/tmp && ln -s imgfeed /empty/imgshard

FROM scratch
LABEL org.opencontainers.image.title="imgfeed" \
      org.opencontainers.image.description="Loads, decodes and augments images for training" \
      org.opencontainers.image.source="https://github.com/imgfeed/imgfeed" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=folders /empty /
# The authorities that vouch for https:// and buckets.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/imgfeed /
USER 65532:65532
EXPOSE 9090
HEALTHCHECK --interval=5s --timeout=6s --start-period=60s --retries=3 \
    CMD ["/imgfeed", "status", "--socket", "/run/imgfeed/imgfeed.sock"]
ENTRYPOINT ["/imgfeed"]
CMD ["serve", "/data", "--socket", "/run/imgfeed/imgfeed.sock"]
