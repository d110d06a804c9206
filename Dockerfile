ARG BUILD_IMAGE=node:26-slim
ARG RUNTIME_IMAGE=gcr.io/distroless/nodejs26-debian13:nonroot

FROM ${BUILD_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY src src
RUN npm run build && find dist -name '*.d.ts' -delete && find dist -type d -empty -delete && mkdir /data

FROM ${RUNTIME_IMAGE}
LABEL org.opencontainers.image.title="petstore-server" \
      org.opencontainers.image.description="A pet store service over HTTP and JSON" \
      org.opencontainers.image.version="1.0.0" \
      org.opencontainers.image.licenses="MIT"
ENV HOST=0.0.0.0
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
# It sees the variables, not the arguments of `docker run`: another port is given as PORT.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/nodejs/bin/node", "/app/main.js", "--healthcheck"]
ENTRYPOINT ["/nodejs/bin/node", "/app/main.js"]
# A new named volume takes its owner from this folder.
COPY --from=build --chown=65532:65532 /data /data
# Without a package.json: node sees by itself that these are modules, at no measurable cost.
COPY --from=build --chown=0:0 /build/dist /app
