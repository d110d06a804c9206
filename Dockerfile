ARG BUILD_IMAGE=node:26-slim
ARG RUNTIME_IMAGE=gcr.io/distroless/nodejs26-debian13:nonroot

# What is built is the same for every platform, so the builder's own does it.
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY src src
RUN npm run build && rm dist/index.* dist/package.json
# Platforms run it as a user of their choice, who is in group 0.
RUN mkdir -p volume/data && chgrp 0 volume/data && chmod g=u volume/data

FROM ${RUNTIME_IMAGE}
ENV HOST=0.0.0.0
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
# It sees the variables, not the arguments of `docker run`: another port is given as PORT.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/nodejs/bin/node", "/app/main.js", "--healthcheck"]
ENTRYPOINT ["/nodejs/bin/node", "/app/main.js"]
# A new named volume takes its owner from this folder.
COPY --from=build --chown=65532:0 /build/volume /
COPY --from=build --chown=0:0 /build/dist /app
ARG SOURCE REVISION CREATED
LABEL org.opencontainers.image.title="petstore-server" \
      org.opencontainers.image.description="A pet store service over HTTP and JSON" \
      org.opencontainers.image.version="1.0.0" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
