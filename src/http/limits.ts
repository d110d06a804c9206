/** Bounds on what a connection may ask for, in bytes and milliseconds, for servers made from then on; tests shorten them. */
export const LIMITS = {
  headerBytes: 16_384, // of names and values in a header section, and of the request target
  headers: 100, // in a header section
  headersTimeout: 10_000, // from the first byte of a request to the end of its header section
  requestTimeout: 30_000, // from the first byte of a request to its last
  stallTimeout: 30_000, // without a byte either way; a response that is not read gets up to twice this
  checkInterval: 1_000, // between two checks of the first two timeouts
  unreadBytes: 134_217_728, // of responses that wait for their clients, over all connections
  pipelined: 1_000, // requests that wait behind a response on one connection
  linger: 2_000, // that a connection is read after its last response, so that its client reads that
  drainInterval: 500, // between two looks at idle connections while draining: they close if none sent a request since
}
