/**
 * node:http and node:crypto, as `require` gives them. An `import` would read all that they export, and node:http exports
 * WebSocket: from Node 22 on, that loads undici, and the start takes 18 ms longer.
 */
export const http: typeof import('node:http') = process.getBuiltinModule('node:http')
export const crypto: typeof import('node:crypto') = process.getBuiltinModule('node:crypto')
