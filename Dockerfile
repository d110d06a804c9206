# The build runs on the builder's own platform: its result is the same for every one.
FROM --platform=$BUILDPLATFORM node:26-slim AS build
WORKDIR /build
COPY package.json package-lock.json tsconfig.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY src src
RUN npm run build
# Platforms run it as a user of their choice, who is in group 0.
RUN mkdir -p volume/data && chgrp 0 volume/data && chmod g=u volume/data

FROM gcr.io/distroless/nodejs26-debian13:nonroot
# Every address, of IPv4 too; of IPv4 alone where the system has no IPv6.
ENV HOST=::
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
# It sees the variables, not the arguments of `docker run`: another port is given as PORT.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/nodejs/bin/node", "/app/dist/main.js", "--healthcheck"]
ENTRYPOINT ["/nodejs/bin/node", "/app/dist/main.js"]
# A new named volume takes its owner from this folder.
COPY --from=build --chown=65532:0 /build/volume /
COPY --from=build --chown=0:0 /build/package.json /app/package.json
COPY --from=build --chown=0:0 /build/dist /app/dist
# version, source, revision and created are given by --label when it is released.
LABEL org.opencontainers.image.title="petstore-server" \
      org.opencontainers.image.description="A pet store service over HTTP and JSON" \
      org.opencontainers.image.licenses="MIT"
